"""Moments and spans with an honest precision: how much of a date was said, never more."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum


class Precision(StrEnum):
    """The finest part of a date that was stated, the coarsest first."""

    YEAR = "year"
    MONTH = "month"
    WEEK = "week"
    DAY = "day"
    MINUTE = "minute"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """A half-open interval [start, end) of aware UTC datetimes, and the precision it was said with.

    ``start`` and ``end`` are both None exactly when the precision is UNKNOWN.
    """

    start: datetime | None
    end: datetime | None
    precision: Precision

    def __post_init__(self) -> None:
        if (self.start is None) != (self.end is None):
            raise ValueError("a span has both ends or none")
        if (self.start is None) != (self.precision is Precision.UNKNOWN):
            raise ValueError("a span without ends has precision unknown, and only that")
        if self.start is not None and self.end is not None:
            if self.start.tzinfo is None or self.end.tzinfo is None:
                raise ValueError("a span's ends are aware datetimes")
            if self.end < self.start:
                raise ValueError("a span ends after it starts")

    @property
    def known(self) -> bool:
        """Whether a date is known at all."""
        return self.start is not None


UNKNOWN_TIME = TimeSpan(None, None, Precision.UNKNOWN)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EARLIEST = datetime(1000, 1, 1, tzinfo=UTC)
LATEST = datetime(3000, 1, 1, tzinfo=UTC)
"""Outside [EARLIEST, LATEST) a date is absurd for a conversation and is taken as unknown."""


def plausible(moment: datetime) -> bool:
    """Whether a resolved date can be meant at all."""
    return EARLIEST <= moment < LATEST


def micros(moment: datetime) -> int:
    """Microseconds since 1970 of an aware datetime, exact (no float)."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def from_micros(value: int) -> datetime:
    """The aware UTC datetime of ``micros``."""
    return _EPOCH + timedelta(microseconds=value)


def days_between(start: int | None, end: int | None, zone: tzinfo | None) -> str:
    """The days between two times (microseconds since 1970) as a model is shown them; in UTC without a zone."""
    if start is None or end is None:
        return "unknown"
    first, last = (from_micros(at).astimezone(zone or UTC).date() for at in (start, end))
    return f"{first}" if first == last else f"{first} to {last}"
