"""A chat model that answers as a function says."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from memforest_core.errors import MemForestError
from memforest_core.models.calls import CallRecord, ChatReply, ChatRequest, Step

Says = Callable[[dict[str, Any]], object]
"""From the document that was sent to an answer: text as it is, an error that is raised, anything else as JSON."""


@dataclass
class ScriptedChat:
    """Records every request; ``peak`` is the most that were under way at once."""

    says: Says
    requests: list[ChatRequest] = field(default_factory=list)
    active: int = 0
    peak: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def model_name(self, step: Step) -> str:
        return "scripted"

    def complete(self, request: ChatRequest) -> ChatReply:
        with self._lock:
            self.requests.append(request)
            self.active += 1
            self.peak = max(self.peak, self.active)
        try:
            said = self.says(json.loads(request.messages[-1].content))
        finally:
            with self._lock:
                self.active -= 1
        if isinstance(said, MemForestError):
            raise said
        text = said if isinstance(said, str) else json.dumps(said)
        return ChatReply(text, CallRecord(request.step, "scripted", 0, 0, 0, 0.0, 0.0, "ok"))

    @property
    def documents(self) -> list[dict[str, Any]]:
        """What was sent, in order."""
        return [json.loads(request.messages[-1].content) for request in self.requests]
