"""What people look at before they merge: what meets, what contradicts, and the numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from memforest_core.transfer.merge.records import ValueConflict
from memforest_core.transfer.merge.tally import Tally

NAMED = 200
"""Examples of each kind that a report names; all are counted."""


@dataclass(frozen=True, slots=True)
class RenamedSession:
    """A session whose id another one with other turns has in the target: it is kept under another id."""

    owner: str
    session_id: str
    kept_as: str


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


@dataclass(slots=True)
class Findings:
    """What a merge has found so far."""

    tally: Tally = field(default_factory=Tally)
    sessions: list[RenamedSession] = field(default_factory=list)
    values: list[ValueConflict] = field(default_factory=list)
    exact: list[str] = field(default_factory=list)
    near: list[NearDuplicate] = field(default_factory=list)

    def report(self) -> ConflictReport:
        """All counts, and some examples of each kind."""
        return ConflictReport(
            self.tally.numbers,
            tuple(self.sessions[:NAMED]),
            tuple(self.values[:NAMED]),
            tuple(self.exact[:NAMED]),
            tuple(self.near[:NAMED]),
        )
