"""Retention policies, checked; the phases of runs that apply them; and what a forest has of what policies limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from math import isfinite
from typing import Any
from uuid import UUID

from memforest_core.domain.ids import CellId, FactId, ForestId
from memforest_core.errors import InvalidInput
from memforest_core.work.records import Numbers

DEFAULT_FRACTION = 0.1
"""The share of a forest's facts that one run may forget at most."""

AGES: Mapping[str, str] = {
    "cutoff": "max_age_days",
    "faded": "faded_max_age_days",
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
    RELEVANCE = "relevance"
    """What recent questions found least, itself or at a mean its neighbours below one node of a tree: as by age, but
    what is new has no advance. What was never found is first, the oldest of it."""
    CENTRALITY = "centrality"
    """What is connected least: scopes it is in, times it was said, facts it corrected, and others of its state."""


class Phase(StrEnum):
    """Where a run is: it searches for a forest, then takes kinds of rows and leaves from it in this order."""

    LOOKING = "looking"
    DIGESTS = "digests"
    WINDOWS = "windows"
    WINDOW_ITEMS = "window_items"
    AGED = "aged"
    FADED = "faded"
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
    Phase.FADED: "faded",
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
    when a window's item was put in and its text compacted, ``faded_max_age_days`` from when a topic became cold: its
    turns and facts go that no other topic has. ``max_bytes`` is the UTF-8 length of all turns and facts
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
    faded_max_age_days: float | None = None
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
    """A fact or cell that may be forgotten, and its UTF-8 length."""

    id: UUID
    size: int


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
    faded: tuple[CellId, ...] = ()
    """Cells of topics that are cold for too long, besides those that are too old themselves."""
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


DAY_S = 86_400
LONGEST_AGE_DAYS = 36_500.0
"""A hundred years: beyond it a limit on age is none."""
MOST_FACTS = 2**31 - 1
MOST_BYTES = 2**63 - 1


def checked_limits(given: Limits, order: str = Order.AGE.value) -> Limits:
    """The limits of a policy in this order, its ages to the second. Raises InvalidInput."""
    if not given.ages() and given.max_facts is None and given.max_bytes is None:
        raise _invalid(
            "A policy limits something: give max_age_days, max_facts or max_bytes, or the age of facts, digests,"
            " windows or faded topics (facts_max_age_days, digests_max_age_days, window_max_age_days,"
            " faded_max_age_days), or clear the policy."
        )
    if not _within(given.fraction, 0.0, 1.0) or given.fraction == 0.0:
        raise _invalid("fraction must be above 0 and at most 1: the share of a forest's facts that one run may forget.")
    if order not in list(Order):
        raise _invalid(f"order must be one of {', '.join(Order)}.")
    ages: dict[str, Any] = {}
    for name, days in ((AGES[age], days) for age, days in given.ages().items()):
        if not _within(days, 1 / DAY_S, LONGEST_AGE_DAYS):
            raise _invalid(
                f"{name} must be a number of days above 0 (a second or more) and at most {LONGEST_AGE_DAYS:,.0f}."
            )
        ages[name] = round(days * DAY_S) / DAY_S
    for name, most in (("max_facts", MOST_FACTS), ("max_bytes", MOST_BYTES)):
        value = getattr(given, name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most):
            raise _invalid(f"{name} must be a whole number from 1 to {most:,}.")
    return replace(given, **ages, fraction=float(given.fraction), order=Order(order))


def audited(limits: Limits) -> Numbers:
    """Limits as the audit stores them."""
    stated: dict[str, str | int] = {
        AGES[name].replace("_days", "_s"): round(days * DAY_S) for name, days in limits.ages().items()
    }
    stated |= {name: most for name in ("max_facts", "max_bytes") if (most := getattr(limits, name)) is not None}
    ordered = {} if limits.order is Order.AGE else {"order": limits.order.value}
    return {**stated, "fraction": f"{limits.fraction:g}", **ordered}


def _invalid(message: str) -> InvalidInput:
    return InvalidInput(message, code="invalid_policy")


def _within(value: object, least: float, most: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and least <= value <= most
