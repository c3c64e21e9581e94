"""What a merge counts: the numbers of its receipt, and of its dry run."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from memforest_core.work.records import Numbers


class Counted(StrEnum):
    """The numbers of a receipt."""

    SESSIONS = "sessions"
    """Sessions copied."""
    SESSIONS_SAME = "sessions_same"
    """Sessions that the target has, whole or their beginning."""
    SESSIONS_CONFLICTING = "sessions_conflicting"
    """Sessions of one id with other turns, copied under another id; they are among ``sessions`` too."""
    FACTS = "facts"
    """Facts copied."""
    FACTS_EXACT = "facts_exact"
    FACTS_NEAR = "facts_near"
    CONFLICTS = "conflicts"
    """Conflicting sessions, and pairs of facts that give one attribute different values for the same time."""
    TREES_COPIED = "trees_copied"
    TREES_MATCHED = "trees_matched"
    LEAVES_INSERTED = "leaves_inserted"
    """Into matching trees, or instead of leaves of facts that the target has in other words."""
    NODES_DIRTY = "nodes_dirty"
    """Nodes that have to be summarized because of the merge."""
    DEGRADED = "degraded"
    """Sources whose near duplicates could not all be looked for."""


class Tally:
    """Adds up counts."""

    def __init__(self, stored: Numbers | None = None) -> None:
        """``stored``: a progress to go on from."""
        self._counts = {name: int((stored or {}).get(name, 0)) for name in Counted}

    def add(self, name: Counted, count: int) -> None:
        """So many more."""
        self._counts[name] += count

    def plus(self, other: Tally) -> None:
        """All counts of another one too."""
        for name, count in other._counts.items():
            self._counts[name] += count

    @property
    def numbers(self) -> Mapping[str, int]:
        """All counts, under their names."""
        return {name.value: count for name, count in self._counts.items()}
