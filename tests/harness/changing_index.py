"""An index whose content changes during a recall."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from memforest_core.index.vector_index import Hits, IndexQuery, VectorIndex


@dataclass
class ChangingIndex:
    """Searches another index, and changes something once: just before its first search, or just after it."""

    inner: VectorIndex
    change: Callable[[], object]
    before: bool
    changed: bool = False

    def search(self, queries: Sequence[IndexQuery]) -> list[Hits]:
        """What the other index finds."""
        first, self.changed = not self.changed, True
        if first and self.before:
            self.change()
        answers = self.inner.search(queries)
        if first and not self.before:
            self.change()
        return answers
