"""Geometry of charts that all pages share: columns over time, a year of days, a line of activity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from math import ceil, floor, log10

PANEL = 96
"""Height in pixels of the columns of one panel."""
GAP = 36
"""Pixels above each panel, for its name."""
LABELS = 6
"""Times that an axis names."""
LEVELS = 4
"""Shades of a day with turns."""
WEEK = 7


@dataclass(frozen=True, slots=True)
class Panel:
    """One row of columns of a chart, with its own scale."""

    name: str
    colour: int
    top: float
    """Pixels from the top of the chart to that of the scale."""
    most: float
    """The value at the top of the scale."""
    heights: Sequence[float]
    """Pixels, a column each."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Panels over one axis of time. ``x`` and ``width`` are per cent of the chart's width."""

    panels: Sequence[Panel]
    at: Sequence[datetime]
    width: float
    height: float
    labels: Sequence[tuple[float, str]]
    """Per cent and time."""


def chart(at: Sequence[datetime], series: Mapping[str, Sequence[float]], form: str) -> Chart:
    """A panel for each named series of values, one value at each moment; ``form`` writes the times of the axis."""
    panels = []
    for number, (name, values) in enumerate(series.items()):
        most, top = scale(max(values, default=0)), number * (PANEL + GAP) + GAP
        heights = [max(2.0, round(PANEL * value / most, 1)) if value else 0.0 for value in values]
        panels.append(Panel(name, number + 1, top, most, heights))
    width, each = 100.0 / max(1, len(at)), max(1, ceil(len(at) / LABELS))
    labels = [(round(width * (place + 0.5), 2), f"{at[place]:{form}}") for place in range(0, len(at), each)]
    return Chart(panels, at, round(width, 4), len(panels) * (PANEL + GAP), labels)


def scale(most: float) -> float:
    """The next value above that people would write at the end of a scale: 1, 2 or 5 and a power of ten."""
    if most <= 0:
        return 1.0
    power = 10.0 ** floor(log10(most))
    return next((step * power for step in (1, 2, 5) if step * power >= most), 10 * power)


@dataclass(frozen=True, slots=True)
class Day:
    """A square of a year of days: week from the left, weekday from the top."""

    week: int
    weekday: int
    level: int
    """0 without turns, then 1 to LEVELS."""
    day: date
    turns: int


@dataclass(frozen=True, slots=True)
class Year:
    """The days from one to another, in weeks that begin on Monday."""

    days: Sequence[Day]
    months: Sequence[tuple[int, str]]
    """The week in which each month begins, and its name."""
    weeks: int
    first: date
    last: date

    @property
    def turns(self) -> int:
        """All of these days."""
        return sum(each.turns for each in self.days)

    @property
    def by_month(self) -> Mapping[str, int]:
        """Turns of each month that has some."""
        found = Counter[str]()
        for each in self.days:
            found[f"{each.day:%B %Y}"] += each.turns
        return +found


def year_of(turns: Mapping[date, int], first: date, last: date) -> Year:
    """The days from ``first`` to ``last``; the darkest has the most turns."""
    monday = first - timedelta(days=first.weekday())
    every = [first + timedelta(days=number) for number in range((last - first).days + 1)]
    most = max((turns.get(day, 0) for day in every), default=0)
    days = []
    for day in every:
        own, week = turns.get(day, 0), (day - monday).days // WEEK
        days.append(Day(week, day.weekday(), ceil(LEVELS * own / most) if own else 0, day, own))
    months = [((day - monday).days // WEEK, f"{day:%b}") for day in every if day.day == 1 and (last - day).days >= WEEK]
    return Year(days, months, (last - monday).days // WEEK + 1, first, last)


def sparkline(times: Sequence[int], first: int, last: int, steps: int) -> list[int]:
    """How many of these times are in each of so many equal steps from ``first`` to ``last``."""
    found = [0] * steps
    for time in times:
        place = int(steps * (time - first) / (last - first)) if last > first else steps - 1
        found[min(steps - 1, max(0, place))] += 1
    return found
