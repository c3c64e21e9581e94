"""Geometry of drawings, in per cent of their width: time axes, bars, stacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from memforest_core.domain.times import LATEST

NARROWEST = 1.2
"""A bar is at least so wide: an instant can be seen, and clicked."""
TICKS = 6
"""Dates that an axis names at most."""
_MINUTES, _HOURS, _DAYS = (1, 2, 5, 15, 30), (1, 3, 6, 12), (1, 2, 7)
_STEPS = (
    *(timedelta(minutes=each) for each in _MINUTES),
    *(timedelta(hours=each) for each in _HOURS),
    *(timedelta(days=each) for each in _DAYS),
)
_MONTHS = (1, 3, 6, 12, 24, 60, 120, 300, 1_200, 6_000)
"""Steps that are as long as the calendar says."""
_MONTH = timedelta(days=30.5)


@dataclass(frozen=True, slots=True)
class Bar:
    """Where something lies on an axis."""

    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Tick:
    """A date on an axis."""

    x: float
    label: str


@dataclass(frozen=True, slots=True)
class Axis:
    """A span of time across the whole width; ``end`` is after ``start``."""

    start: datetime
    end: datetime

    @classmethod
    def over(cls, moments: Sequence[datetime]) -> Axis:
        """The axis with all of these; of a single moment the day around it."""
        first, last = min(moments), max(moments)
        if first == last:
            first, last = first - timedelta(hours=12), last + timedelta(hours=12)
        return cls(first, last)

    def bar(self, start: datetime, end: datetime) -> Bar:
        """A span, cut at the ends of the axis and never narrower than can be seen."""
        left, right = self.place(start), self.place(end)
        width = max(right - left, NARROWEST)
        return Bar(round(min(left, 100.0 - width), 3), round(width, 3))

    def shows(self, start: datetime, end: datetime) -> bool:
        """Whether any of a span is on the axis."""
        return start <= self.end and end >= self.start

    @property
    def ticks(self) -> list[Tick]:
        """Evenly spaced dates, as fine as the span needs."""
        span = self.end - self.start
        step = next((step for step in _STEPS if span / step <= TICKS), None)
        if step is None:
            months = next((months for months in _MONTHS if span / (months * _MONTH) <= TICKS), _MONTHS[-1])
            moments, form = _months(self.start, months), "%b %Y" if months < 12 else "%Y"
        else:
            moments, form = _evenly(self.start, step), "%d %b %Y" if step >= timedelta(days=1) else "%d %b %H:%M"
        shown = (at for at in moments if self.start <= at <= self.end)
        return [Tick(round(self.place(at), 3), f"{at:{form}}") for at in shown]

    def place(self, moment: datetime) -> float:
        """Where a moment lies; one outside at the nearest end."""
        share = (moment - self.start) / (self.end - self.start)
        return 100.0 * min(1.0, max(0.0, share))


def _evenly(start: datetime, step: timedelta) -> list[datetime]:
    """Moments from this one on that the step divides, counted from the year 1."""
    rest = (start - datetime.min.replace(tzinfo=UTC)) % step
    first = start.astimezone(UTC) - rest
    return [first + number * step for number in range(TICKS + 2)]


def _months(start: datetime, step: int) -> list[datetime]:
    """First days of months from this moment on, with so many months between, counted from the year 0."""
    first = (12 * start.year + start.month - 1) // step * step
    months = (first + number * step for number in range(TICKS + 2))
    return [datetime(month // 12, month % 12 + 1, 1, tzinfo=UTC) for month in months if month < 12 * LATEST.year]


@dataclass(frozen=True, slots=True)
class Slice:
    """One part of a stacked bar."""

    name: str
    value: float
    x: float
    width: float


def stacked(parts: Mapping[str, float], most: float) -> list[Slice]:
    """Parts of a whole side by side, the largest first; a whole of ``most`` fills the width."""
    slices, x = [], 0.0
    for name, value in sorted(parts.items(), key=lambda part: -part[1]):
        width = 100.0 * value / most if most > 0 else 0.0
        slices.append(Slice(name, value, round(x, 3), round(width, 3)))
        x += width
    return slices


def proportions(values: Sequence[float]) -> list[float]:
    """Each value in per cent of the largest one."""
    most = max(values, default=0.0)
    return [round(100.0 * value / most, 2) if most > 0 else 0.0 for value in values]
