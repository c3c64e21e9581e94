"""MemPalace as its package installs it, on its default store; each text is filed word by word as one drawer.

Runs in MemPalace's own environment.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mempalace.convo_miner import file_conversation_exchange
from mempalace.palace import get_collection
from mempalace.searcher import search_memories

from benchmarks.peers.child import obey

ROOM = "conversations"
"""Where MemPalace files live talk by default."""


class MemPalaceLibrary:
    """A palace in a directory; each owner is a wing."""

    def __init__(self, directory: str) -> None:
        self._palace = str(Path(directory) / "palace")
        self._collection = get_collection(self._palace)
        self._wings: dict[str, str] = {}
        self._lock = threading.Lock()

    def add(self, owner: str, session_id: str, turns: Sequence[Mapping[str, Any]]) -> None:
        """See child.Library."""
        # One after the other: its own programs file from one process at a time too.
        with self._lock:
            # Its rules for names of wings are narrower than ours for owners.
            wing = self._wings.setdefault(owner, f"wing_{len(self._wings)}")
            for turn in turns:
                file_conversation_exchange(
                    self._collection,
                    wing=wing,
                    room=ROOM,
                    text=turn["content"],
                    source_file=f"{session_id}.txt",
                    agent="benchmark",
                )

    def await_facts(self) -> None:
        """Nothing to wait for: ``add`` returns when it is done."""

    def settle(self, owners: Sequence[str]) -> None:
        """Nothing goes on behind."""

    def recall(self, owner: str, question: str, k: int) -> list[str]:
        """See child.Library. Raises RuntimeError when the search says that it failed."""
        found = search_memories(question, self._palace, wing=self._wings[owner], n_results=k)
        if "results" not in found:
            raise RuntimeError(found.get("error", "MemPalace answered without results."))
        return [each["text"] for each in found["results"]]


if __name__ == "__main__":
    obey(MemPalaceLibrary(*sys.argv[1:]))
