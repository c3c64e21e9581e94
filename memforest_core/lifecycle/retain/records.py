"""Retention policies, the phases of the runs that apply them, and what a forest has of what policies limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from memforest_core.domain.ids import CellId, FactId, ForestId

DEFAULT_FRACTION = 0.1
"""The share of a forest's facts that one run may forget at most."""

AGES: Mapping[str, str] = {
    "cutoff": "max_age_days",
    "facts": "facts_max_age_days",
    "digests": "digests_max_age_days",
    "windows": "window_max_age_days",
}
"""The limits on age, by the parameter of statements before whose timestamp something is too old."""


class Order(StrEnum):
    """What goes first of what is too much."""

    AGE = "age"
    """What is least important: importance grows with visits, and fades with the time since the last one."""
    VISITS = "visits"
    """What was not visited for longest; of that what was visited least, then what was said first."""


class Phase(StrEnum):
    """Where a run is: it searches for a forest, then takes kinds of rows and leaves from it in this order."""

    LOOKING = "looking"
    DIGESTS = "digests"
    WINDOWS = "windows"
    WINDOW_ITEMS = "window_items"
    AGED = "aged"
    AGED_FACTS = "aged_facts"
    PLANNING = "planning"
    WORDS = "words"
    FACTS = "facts"
    LEAVING = "leaving"
    DONE = "done"
    PLANNED = "planned"

    @property
    def counted(self) -> str:
        """The name under which a receipt counts what the phase takes."""
        return "forgotten" if self is Phase.FACTS else self.value


AGE_OF: Mapping[Phase, str] = {
    Phase.DIGESTS: "digests",
    Phase.WINDOWS: "windows",
    Phase.WINDOW_ITEMS: "windows",
    Phase.AGED: "cutoff",
    Phase.AGED_FACTS: "facts",
}
"""What goes by its age, in this order, with its entry of ``AGES``. Digests and windows first: erasing removes those of
its words uncounted."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a forest; None leaves something unlimited.

    ``max_age_days`` is counted from when something was said: turns go, with what was learned from them alone.
    ``facts_max_age_days`` is that of facts, counted from when a fact was said last; the turns stay.
    ``digests_max_age_days`` is counted from the end of a digest's span of time, ``window_max_age_days`` from
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

    def ages(self) -> dict[str, float]:
        """The limits on age in days, by the names of ``AGES``; those that are None are left out."""
        given = {name: getattr(self, field) for name, field in AGES.items()}
        return {name: days for name, days in given.items() if days is not None}

    def when(self, now: datetime) -> When:
        """The timestamps and the order of a run that begins ``now``."""
        return When(now, {name: now - timedelta(days=days) for name, days in self.ages().items()}, self.order)


@dataclass(frozen=True, slots=True)
class Policy(Limits):
    """The limits of one forest, or (``owner`` None) of all forests of the tenant that have none of their own."""

    owner: str | None = None
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class MeasuredForest:
    """A live forest, the limits that apply to it, and whether it is over one of them."""

    id: ForestId
    limits: Limits | None
    over: bool


@dataclass(frozen=True, slots=True)
class When:
    """The start of a run on the database's clock, and by the names of ``AGES`` before what time something is too old.

    Nothing that came after ``at`` is forgotten by that run. ``order`` is that in which the rest goes.
    """

    at: datetime
    before: Mapping[str, datetime]
    order: Order = Order.AGE


@dataclass(frozen=True, slots=True)
class Totals:
    """Rows of a forest besides what is too old: facts, cells with words, cells without a fact among them, and bytes of
    turns and facts (0 unless requested); and how many facts, sessions and turns are pinned."""

    facts: int
    cells: int
    bare_cells: int
    bytes: int
    pinned_facts: int = 0
    pinned_sessions: int = 0
    pinned_turns: int = 0


@dataclass(frozen=True, slots=True)
class Leaf:
    """A fact or cell that may be forgotten: its UTF-8 length, and when it was last said."""

    id: UUID
    size: int
    said_at: datetime


@dataclass(frozen=True, slots=True)
class Preview:
    """What applying its policy to a forest would remove now, in the order in which it would go."""

    aged: tuple[CellId, ...]
    """Cells that are too old."""
    words: tuple[CellId, ...]
    """Cells on which no fact rests, removed for their bytes."""
    facts: tuple[FactId, ...]
    over_facts: int
    over_bytes: int
    """How far the forest is over its budget once what is too old is gone."""
    pinned_facts: int
    """Pinned facts, which no policy removes."""
    aged_facts: tuple[FactId, ...] = ()
    """Facts that are too old, besides those that go with the cells."""
    digests: tuple[str, ...] = ()
    """Digests that are too old, by their span and first day: "day 2024-03-01"."""
    windows: tuple[str, ...] = ()
    """The ids of sessions whose compacted text is too old."""
    window_items: int = 0
    """Items of windows that are too old."""
    pinned_sessions: int = 0
    pinned_turns: int = 0
    """Pinned sessions and turns."""
