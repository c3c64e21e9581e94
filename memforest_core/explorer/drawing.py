"""Geometry of drawings, in per cent of their width: time axes, bars, stacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

NARROWEST = 0.6
"""A bar is at least so wide: an instant can be seen, and clicked."""
TICKS = 5
"""Dates that an axis names at most."""
_STEPS = tuple(
    timedelta(**step)
    for step in (
        {"minutes": 1},
        {"minutes": 10},
        {"hours": 1},
        {"hours": 6},
        {"days": 1},
        {"days": 7},
        {"days": 30},
        {"days": 91},
        {"days": 365},
        {"days": 1_826},
        {"days": 18_262},
    )
)


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
        """The axis that holds all of these; of a single moment the day around it."""
        first, last = min(moments), max(moments)
        if first == last:
            first, last = first - timedelta(hours=12), last + timedelta(hours=12)
        return cls(first, last)

    def bar(self, start: datetime, end: datetime) -> Bar:
        """A span, cut at the ends of the axis and never narrower than can be seen."""
        left, right = self._place(start), self._place(end)
        width = max(right - left, NARROWEST)
        return Bar(round(min(left, 100.0 - width), 3), round(width, 3))

    def shows(self, start: datetime, end: datetime) -> bool:
        """Whether any of a span is on the axis."""
        return start <= self.end and end >= self.start

    @property
    def ticks(self) -> list[Tick]:
        """Evenly spaced dates, as fine as the span needs."""
        span = self.end - self.start
        step = next((step for step in _STEPS if span / step <= TICKS), span / TICKS)
        form = "%H:%M" if step < timedelta(days=1) else "%d %b %Y" if step < timedelta(days=300) else "%Y"
        if step < timedelta(days=1) and span > timedelta(hours=18):
            form = "%d %b %H:%M"
        first = _round(self.start.astimezone(UTC), step)
        moments = (first + number * step for number in range(TICKS + 2))
        return [Tick(round(self._place(at), 3), f"{at:{form}}") for at in moments if self.start <= at <= self.end]

    def _place(self, moment: datetime) -> float:
        share = (moment - self.start) / (self.end - self.start)
        return 100.0 * min(1.0, max(0.0, share))


def _round(moment: datetime, step: timedelta) -> datetime:
    """The first moment at or after this one that the step divides, counted from the year 1."""
    if step >= timedelta(days=365):
        return moment.replace(year=moment.year + 1, month=1, day=1, hour=0, minute=0, second=0, microsecond=0)
    first = datetime.min.replace(tzinfo=UTC)
    rest = (moment - first) % step
    return moment if not rest else moment + (step - rest)


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


def shares(values: Sequence[float]) -> list[float]:
    """Each value in per cent of the largest one."""
    most = max(values, default=0.0)
    return [round(100.0 * value / most, 2) if most > 0 else 0.0 for value in values]
