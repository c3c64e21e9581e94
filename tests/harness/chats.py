"""A chat model that gives its answers in turn."""

from __future__ import annotations

from memforest_core.errors import MemForestError
from memforest_core.models.calls import CallRecord, ChatReply, ChatRequest, Step


class AnsweringChat:
    """Answers one after the other; an error is raised in its turn. Records every request."""

    def __init__(self, *answers: str | MemForestError, name: str = "chat") -> None:
        self.answers = list(answers)
        self.requests: list[ChatRequest] = []
        self._name = name

    def model_name(self, step: Step) -> str:
        return self._name

    def complete(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, MemForestError):
            raise answer
        return ChatReply(answer, CallRecord(request.step, self._name, 1, 1, 0, 0.0, 1.0, "ok"))
