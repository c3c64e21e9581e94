"""The part of time that a page shows: where most happens, or what its visitor chose, and how to choose another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from memforest_core.errors import InvalidInput
from memforest_core.service.explorer.drawing import Axis, Bar
from memforest_core.service.explorer.page_requests import Visit

COLUMNS = 60
YEARS = (500, 3_500)
"""That can be chosen: those in which anything can happen, and margins."""
CHIPS = 8
FAR = 0.5
"""Moments before the rest, or in the future, by more than so many times its length are not shown at first."""
MARGIN = 0.03
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Column:
    """How much happened in one part of the whole, in per cent of the most."""

    x: float
    height: float


@dataclass(frozen=True, slots=True)
class Choice:
    """A range to choose; one without ends is everything."""

    label: str
    since: date | None
    until: date | None
    chosen: bool


@dataclass(frozen=True, slots=True)
class Range:
    """The shown part of the whole."""

    shown: Axis
    whole: Axis
    window: Bar
    columns: tuple[Column, ...]
    choices: tuple[Choice, ...]
    chosen: bool
    """A visitor chose it; else it is where most happens."""

    @property
    def since(self) -> date:
        """Its first day."""
        return self.shown.start.date()

    @property
    def until(self) -> date:
        """Its last day."""
        return (self.shown.end - timedelta(microseconds=1)).date()


def chosen_range(visit: Visit, moments: Sequence[datetime]) -> Range:
    """The range that the query names by days, both included; else where most of these moments are.

    Raises InvalidInput for what is no day, and for a last day before the first one.
    """
    whole = _padded(Axis.over(moments))
    first, last = _day(visit, "since"), _day(visit, "until")
    since = None if first is None else datetime.combine(first, time(), UTC)
    until = None if last is None else datetime.combine(last, time(), UTC) + _DAY
    everything = visit.parameter("all") is not None
    chosen = everything or since is not None or until is not None
    shown = Axis(since or whole.start, until or whole.end) if chosen else _padded(Axis.over(_usual(moments)))
    if shown.start >= shown.end:
        raise InvalidInput("Choose a last day that is not before the first one.", code="invalid_range")
    counted = Counter(min(COLUMNS - 1, int(whole.place(at) * COLUMNS / 100)) for at in moments)
    most = max(counted.values())
    columns = tuple(Column(100 * at / COLUMNS, 100 * number / most) for at, number in sorted(counted.items()))
    parts = [Choice("all", None, None, everything)] if chosen or shown != whole else []
    parts += [Choice(label, start, end, (first, last) == (start, end)) for label, start, end in _parts(moments)]
    return Range(shown, whole, whole.bar(shown.start, shown.end), columns, tuple(parts), chosen)


def _day(visit: Visit, name: str) -> date | None:
    given = visit.parameter(name)
    try:
        chosen = None if given is None else date.fromisoformat(given)
    except ValueError:
        raise InvalidInput(f"Write {name} as a day such as 2024-05-31.", code=f"invalid_{name}") from None
    if chosen is not None and not YEARS[0] <= chosen.year < YEARS[1]:
        raise InvalidInput(f"Choose days from the year {YEARS[0]} to {YEARS[1] - 1}.", code=f"invalid_{name}")
    return chosen


def _usual(moments: Sequence[datetime]) -> Sequence[datetime]:
    """The moments without those of the first twentieth far before the rest, and those of the last far in the future."""
    ordered, few, now = sorted(moments), len(moments) // 20, datetime.now(UTC)
    most, last = ordered[few], max(at for at in ordered if at <= now or at <= ordered[-1 - few])
    far = FAR * (last - most)
    return [at for at in ordered if most - at <= far and at - last <= far]


def _padded(axis: Axis) -> Axis:
    margin = MARGIN * (axis.end - axis.start)
    return Axis(axis.start - margin, axis.end + margin)


def _parts(moments: Sequence[datetime]) -> list[tuple[str, date, date]]:
    """The last years, or of a shorter time the last months, in which something happened."""
    years = sorted({at.year for at in moments})
    if len(years) > 2:
        return [(str(year), date(year, 1, 1), date(year, 12, 31)) for year in years[-CHIPS:]]
    months = sorted({(at.year, at.month) for at in moments})[-CHIPS:]
    firsts = [date(year, month, 1) for year, month in months]
    return [(f"{first:%b %Y}", first, (first + 31 * _DAY).replace(day=1) - _DAY) for first in firsts]
