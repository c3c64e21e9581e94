"""Policies, and what a forest holds of what they limit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from memforest_core.domain.ids import CellId, FactId, ForestId

DEFAULT_FRACTION = 0.1
"""The share of a forest's facts that one run may forget at most."""


class Order(StrEnum):
    """What goes first of what is too much."""

    AGE = "age"
    """What is least important: importance grows with visits, and fades with the time since the last one."""
    VISITS = "visits"
    """What was not visited for longest; of that what was visited least, then what was said first."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a forest may hold; None leaves something unlimited.

    ``max_age_days`` is counted from when something was said: turns go, with what was learned from them alone.
    ``facts_max_age_days`` is that of facts, counted from when a fact was said last; what was said stays.
    ``digests_max_age_days`` is counted from the end of the time that a digest tells of, ``window_max_age_days`` from
    when a window's item was put in and its text compacted. ``max_bytes`` is the UTF-8 length of all turns and facts
    together. ``fraction`` of its facts, and of its cells, is what one run may forget at most to get below the numbers,
    in the ``order``; what is too old goes whole.
    """

    max_age_days: float | None = None
    max_facts: int | None = None
    max_bytes: int | None = None
    fraction: float = DEFAULT_FRACTION
    facts_max_age_days: float | None = None
    digests_max_age_days: float | None = None
    window_max_age_days: float | None = None
    order: Order = Order.AGE

    def cutoff(self, now: datetime) -> datetime | None:
        """What was said before this moment is too old."""
        return _before(now, self.max_age_days)

    def when(self, now: datetime) -> When:
        """What a run that begins ``now`` holds to."""
        return When(
            now,
            self.cutoff(now),
            _before(now, self.facts_max_age_days),
            _before(now, self.digests_max_age_days),
            _before(now, self.window_max_age_days),
            self.order,
        )


def _before(now: datetime, days: float | None) -> datetime | None:
    return None if days is None else now - timedelta(days=days)


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

    Nothing that came after ``at`` is forgotten by that run. ``facts``, ``digests`` and ``windows`` are the moments for
    those; ``order`` is that in which the rest goes.
    """

    at: datetime
    cutoff: datetime | None
    facts: datetime | None = None
    digests: datetime | None = None
    windows: datetime | None = None
    order: Order = Order.AGE


@dataclass(frozen=True, slots=True)
class Totals:
    """What a forest holds besides what is too old: facts, pinned ones among them, cells with words, cells without a
    fact among them, and bytes of turns and facts (0 unless asked for); and how many sessions and turns are pinned."""

    facts: int
    pinned: int
    cells: int
    bare_cells: int
    bytes: int
    pinned_sessions: int = 0
    pinned_turns: int = 0


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
    """Pinned facts, which no policy takes."""
    aged_facts: tuple[FactId, ...] = ()
    """Facts that are too old, besides those that go with the cells."""
    digests: tuple[str, ...] = ()
    """Digests that are too old, by their span and first day: "day 2024-03-01"."""
    windows: tuple[str, ...] = ()
    """The ids of sessions whose compacted text is too old."""
    window_items: int = 0
    """Items of windows that are too old."""
    kept_sessions: int = 0
    kept_turns: int = 0
    """Pinned sessions and turns."""
