"""A memory behind ``child.obey`` that delivers what it was told in another order, or what it was never told."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.peers.child import obey


class Reversing:
    """Delivers the texts of an owner with the last one first; ``invents`` another one before them."""

    def __init__(self, invents: str = "") -> None:
        self._invented = [invents] if invents else []
        self._told: dict[str, list[str]] = {}

    def add(self, owner: str, session_id: str, turns: Sequence[Mapping[str, Any]]) -> None:
        """See child.Library. What a library prints reaches no answer."""
        print(f"told {session_id}")
        self._told.setdefault(owner, []).extend(turn["content"] for turn in turns)

    def await_facts(self) -> None:
        """See child.Library."""

    def settle(self, owners: Sequence[str]) -> None:
        """See child.Library."""

    def recall(self, owner: str, question: str, k: int) -> list[str]:
        """See child.Library. A question that says "die" ends the process."""
        if question == "die":
            sys.exit("killed by its question")
        # As some do: without white space at the end.
        return [text.strip() for text in [*self._invented, *reversed(self._told[owner])][:k]]


if __name__ == "__main__":
    obey(Reversing(*sys.argv[1:]))
