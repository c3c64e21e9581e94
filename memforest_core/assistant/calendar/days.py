"""Days of a time zone as moments, and the longer times that are made of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

from memforest_core.domain.periods import DAY, add_months
from memforest_core.domain.times import EARLIEST, LATEST
from memforest_core.errors import InvalidInput

WEEK_DAYS = 7
"""Today and the six days before it, which are the week."""
LIFE = "life"
_FIRST, _END = EARLIEST.date() + DAY, LATEST.date() - DAY
_PERIOD = re.compile(r"(\d{4})(?:-(\d{2}))?", re.ASCII)


class Span(StrEnum):
    """How long a digest's time is."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    YEAR = "year"
    LIFE = "life"


@dataclass(frozen=True, slots=True)
class Days:
    """Local days from ``first`` to before ``end``."""

    span: Span
    first: date
    end: date

    @property
    def last(self) -> date:
        """The last one of them."""
        return self.end - DAY

    @property
    def label(self) -> str:
        """As it is named to people and to models."""
        match self.span:
            case Span.DAY:
                return f"{self.first} ({self.first:%A})"
            case Span.MONTH:
                return f"{self.first:%Y-%m}"
            case Span.YEAR:
                return f"{self.first:%Y}"
            case _:
                return f"{self.first} to {self.last}"

    def moments(self, zone: ZoneInfo) -> tuple[datetime, datetime]:
        """The moments in UTC that these days lie between in a zone: a day of a clock change has 23 or 25 hours, one
        that a zone left out has none."""
        return midnight(self.first, zone), midnight(self.end, zone)


def midnight(day: date, zone: ZoneInfo) -> datetime:
    """When a day begins, in UTC. Where the clock jumps over midnight it begins with the jump."""
    return datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)


def one_day(day: date) -> Days:
    """A single day."""
    return Days(Span.DAY, day, day + DAY)


def week_before(today: date) -> Days:
    """Days 2 to 7: the six days before today."""
    return Days(Span.WEEK, today - (WEEK_DAYS - 1) * DAY, today)


def month_of(day: date) -> Days:
    """The month of a day."""
    return Days(Span.MONTH, day.replace(day=1), add_months(day, 1))


def year_of(day: date) -> Days:
    """The year of a day."""
    return Days(Span.YEAR, date(day.year, 1, 1), date(day.year + 1, 1, 1))


def whole_life() -> Days:
    """All days."""
    return Days(Span.LIFE, _FIRST, _END)


def checked_day(value: object, name: str = "date") -> date:
    """A day given as a date or as ISO 8601 (2026-11-22). Raises InvalidInput."""
    day: date | None = None
    if isinstance(value, date) and not isinstance(value, datetime):
        day = value
    elif isinstance(value, str):
        try:
            day = date.fromisoformat(value.strip())
        except ValueError:
            day = None
    if day is None or not _FIRST <= day < _END - timedelta(days=WEEK_DAYS):
        raise InvalidInput(
            f"Give {name} as a day, like 2026-11-22, between the years 1000 and 3000.", code=f"invalid_{name}"
        )
    return day


def checked_period(value: object) -> Days:
    """A month (2026-11), a year (2026) or "life". Raises InvalidInput."""
    if value == LIFE:
        return whole_life()
    found = _PERIOD.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is not None:
        year, month = int(found[1]), int(found[2] or 1)
        if _FIRST.year < year < _END.year and 1 <= month <= 12:
            return (month_of if found[2] else year_of)(date(year, month, 1))
    raise InvalidInput('Give period as a month (2026-11), a year (2026) or "life".', code="invalid_period")
