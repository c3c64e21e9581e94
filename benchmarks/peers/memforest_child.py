"""MemForest's embedded node: Postgres, broker, vector engine and worker, with the defaults that it ships with."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any, cast

from benchmarks.peers.child import obey
from memforest_core.client.api import MemForest
from memforest_core.domain.chat_messages import TurnInput
from memforest_core.settings import load_settings

TIMEOUT_S = 1_800.0


class MemForestLibrary:
    """``MemForest.embedded`` in a directory."""

    def __init__(self, directory: str, model_url: str) -> None:
        model = {"api_base": model_url, "api_key": "test-key"}
        settings = load_settings(
            llm={"model": "openai/test-model", **model}, embedding={"model": "openai/all-minilm", **model}
        )
        self._memory = MemForest.embedded(directory, settings)
        self._accepted: list[tuple[str, str]] = []
        self._lock = threading.Lock()

    def add(self, owner: str, session_id: str, turns: Sequence[Mapping[str, Any]]) -> None:
        """See child.Library."""
        self._memory.ingest(owner, session_id, cast("list[TurnInput]", turns), wait="none")
        with self._lock:
            self._accepted.append((owner, session_id))

    def await_facts(self) -> None:
        """See child.Library."""
        for owner, session_id in self._accepted:
            self._memory.wait(owner, session_id, "facts", TIMEOUT_S)

    def settle(self, owners: Sequence[str]) -> None:
        """See child.Library."""
        for owner in owners:
            if self._memory.sessions(owner):
                self._memory.flush(owner, TIMEOUT_S)

    def recall(self, owner: str, question: str, k: int) -> list[str]:
        """See child.Library."""
        return [piece.text for piece in self._memory.recall(owner, question, k).evidence]


if __name__ == "__main__":
    obey(MemForestLibrary(*sys.argv[1:]))
