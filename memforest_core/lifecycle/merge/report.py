"""What a merge counts, and the report of a dry run: what both sides have, and what contradicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from memforest_core.lifecycle.merge.records import ValueConflict

NAMED = 200
"""Examples of each kind that a report names; all are counted."""


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


Tally = Counter[str]
"""Counts by what is ``Counted``."""


def numbers(tally: Mapping[str, str | int]) -> dict[str, int]:
    """All counts under their names, as a receipt has them; those that are not there are 0."""
    return {name.value: int(tally.get(name, 0)) for name in Counted}


@dataclass(frozen=True, slots=True)
class RenamedSession:
    """A session whose id another one with other turns has in the target: it is stored under another id."""

    owner: str
    session_id: str
    stored_as: str


@dataclass(frozen=True, slots=True)
class NearDuplicate:
    """Two sentences that become one fact; the target's stays."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class ConflictReport:
    """What a merge would do. ``counts`` are complete (they are those of the receipt); lists name some of each kind."""

    counts: Mapping[str, int]
    sessions: tuple[RenamedSession, ...]
    values: tuple[ValueConflict, ...]
    exact: tuple[str, ...]
    """Sentences that both sides have."""
    near: tuple[NearDuplicate, ...]

    @property
    def conflicts(self) -> int:
        """How much contradicts: sessions of one id, and values of one attribute at one time."""
        return self.counts["conflicts"]
