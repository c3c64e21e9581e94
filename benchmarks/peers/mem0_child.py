"""mem0 as its package installs it, with its vectors in Postgres (pgvector) instead of a file that one thread may use.

Runs in mem0's own environment.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mem0 import Memory

from benchmarks.peers.child import CALLERS, obey

DIMENSION = 384


class Mem0Library:
    """``mem0.Memory``; ``infer`` "on" extracts facts by the model, "off" stores messages as they are."""

    def __init__(self, directory: str, model_url: str, postgres_url: str, infer: str) -> None:
        model = {"api_key": "test-key", "openai_base_url": model_url}
        self._infer = infer == "on"
        self._memory = Memory.from_config(
            {
                "llm": {"provider": "openai", "config": {"model": "test-model", **model}},
                "embedder": {"provider": "openai", "config": {"model": "all-minilm", **model}},
                "vector_store": {
                    "provider": "pgvector",
                    "config": {
                        "connection_string": postgres_url,
                        "embedding_model_dims": DIMENSION,
                        "maxconn": CALLERS,
                    },
                },
                "history_db_path": str(Path(directory) / "history.db"),
            }
        )

    def add(self, owner: str, session_id: str, turns: Sequence[Mapping[str, Any]]) -> None:
        """See child.Library."""
        messages = [{"role": turn["role"], "content": turn["content"]} for turn in turns]
        self._memory.add(messages, user_id=owner, metadata={"session": session_id}, infer=self._infer)

    def await_facts(self) -> None:
        """Nothing to wait for: ``add`` returns when it is done."""

    def settle(self, owners: Sequence[str]) -> None:
        """Nothing goes on behind."""

    def recall(self, owner: str, question: str, k: int) -> list[str]:
        """See child.Library."""
        found = self._memory.search(question, top_k=k, filters={"user_id": owner})
        return [each["memory"] for each in found["results"]]


if __name__ == "__main__":
    obey(Mem0Library(*sys.argv[1:]))
