"""Policies, and what a forest holds of what they limit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from memforest_core.domain.ids import CellId, FactId, ForestId

DEFAULT_FRACTION = 0.1
"""The share of a forest's facts that one run may forget at most."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a forest may hold; None leaves something unlimited.

    ``max_age_days`` is counted from when something was said. ``max_bytes`` is the UTF-8 length of all turns and facts
    together. ``fraction`` of its facts, and of its cells, is what one run may forget at most to get below the others.
    """

    max_age_days: float | None = None
    max_facts: int | None = None
    max_bytes: int | None = None
    fraction: float = DEFAULT_FRACTION

    def cutoff(self, now: datetime) -> datetime | None:
        """What was said before this moment is too old."""
        return None if self.max_age_days is None else now - timedelta(days=self.max_age_days)


@dataclass(frozen=True, slots=True)
class Policy(Limits):
    """The limits of one forest, or (``owner`` None) of all forests of the tenant that have none of their own."""

    owner: str | None = None
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class HeldForest:
    """A live forest, the limits that hold for it, and whether it is over one of them."""

    id: ForestId
    limits: Limits | None
    over: bool


@dataclass(frozen=True, slots=True)
class When:
    """The moment of a run, on the database's clock, and (or None) before which what was said is too old.

    Nothing that came after ``at`` is forgotten by that run.
    """

    at: datetime
    cutoff: datetime | None


@dataclass(frozen=True, slots=True)
class Totals:
    """What a forest holds besides what is too old: facts, pinned ones among them, cells with words, cells without a
    fact among them, and bytes of turns and facts (0 unless asked for)."""

    facts: int
    pinned: int
    cells: int
    bare_cells: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Leaf:
    """A fact or cell that may be forgotten: its UTF-8 length, and when it was said last."""

    id: UUID
    size: int
    said_at: datetime


@dataclass(frozen=True, slots=True)
class Preview:
    """What applying its policy to a forest would take now, in the order in which it would go."""

    aged: tuple[CellId, ...]
    """Cells that are too old."""
    words: tuple[CellId, ...]
    """Cells of which no fact tells, taken for their bytes."""
    facts: tuple[FactId, ...]
    over_facts: int
    over_bytes: int
    """How far the forest is over its budget once what is too old is gone."""
    kept_pinned: int
