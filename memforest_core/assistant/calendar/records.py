"""Days, and digests of days and of longer times as callers get them and as they are stored."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from uuid import UUID
from zoneinfo import ZoneInfo

from memforest_core.domain.pages import Document
from memforest_core.domain.periods import DAY, add_months
from memforest_core.domain.rendering import block, turn_line
from memforest_core.domain.times import EARLIEST, LATEST
from memforest_core.domain.turns import Role
from memforest_core.errors import InvalidInput
from memforest_core.ingest.refresh.records import SummarySource

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


BY_RULES = (SummarySource.EXTRACTIVE.value, SummarySource.DEGRADED.value)


@dataclass(frozen=True, slots=True)
class SpeakerDigest:
    """What a day says of one speaker."""

    speaker_id: str
    name: str
    text: str
    turns: int
    """How many of the speaker's turns were read for it: none of somebody who was only mentioned."""
    others: str = ""
    """What others said of the speaker, in their own words: a line each, behind who said it."""
    picked: bool = False
    """Rules picked the text, because the model's was empty or had words of others."""


@dataclass(frozen=True, slots=True)
class DaySource:
    """The turns of one session that a day's digest was made from."""

    session_id: str
    """The caller's id."""
    first: str
    """The caller's id of the first of them."""
    last: str
    turns: int


@dataclass(frozen=True, slots=True)
class DayDigest(Document):
    """What happened on one day."""

    derived = ("id", "text", "extractive")

    day: date
    time_zone: str
    """The owner's, in which it is a day."""
    turns: int = 0
    """Turns of the day that have words, now."""
    speakers: tuple[SpeakerDigest, ...] = ()
    """Human speakers, the one who spoke most first, and last assistants, where they said more than courtesy; all
    speakers of a day on which no human spoke; of one person's day that person alone, also if others only mentioned
    them."""
    source: str = ""
    """How it was made: by a "model", "joined" as the turns are, "extractive" by rules, or "degraded": by rules because
    the model failed. Empty when there is none: nothing was said, or it is not made yet."""
    model: str = ""
    made_at: datetime | None = None
    sources: tuple[DaySource, ...] = ()
    new_turns: int = 0
    """Turns that have come since it was made, which it does not tell of."""
    left_out: int = 0
    """Turns of the day that were too many: the oldest ones of those who said most."""
    about: str = ""
    """The id of the person whose day it is; empty for the day of all."""
    degraded: tuple[str, ...] = ()
    """One sentence for each unavailable part and what was done without it."""
    calls: int = 0
    """Calls made to the chat model by this reading."""
    owner_known: bool = True
    """False when the owner has no memory yet."""

    @property
    def made(self) -> bool:
        """Whether there is a digest."""
        return bool(self.source)

    @property
    def extractive(self) -> bool:
        """Whether rules picked its texts, without a model."""
        return self.source in BY_RULES

    @property
    def id(self) -> str:
        """The same for the same day of an owner."""
        return f"day:{self.day}{_of(self.about)}"

    @property
    def text(self) -> str:
        """A line or more for each speaker; of one person's day also what others said of them."""
        lines = speaker_lines([each for each in self.speakers if each.text])
        return "\n".join(text for text in (lines, *(each.others for each in self.speakers if self.about)) if text)


@dataclass(frozen=True, slots=True)
class PeriodDigest(Document):
    """What happened in several days: the week, a month, a year, or the whole life; what is recent comes first."""

    derived = ("id", "extractive")

    period: str
    """ "week", "2026-11", "2026" or "life"."""
    first: date | None
    """Its first and its last day; of the whole life those that something is known of, None without any."""
    last: date | None
    time_zone: str
    text: str = ""
    days: tuple[date, ...] = ()
    """The days, or the first days of the months or years, whose texts it was made from; the newest first."""
    turns: int = 0
    """How many turns those tell of."""
    source: str = ""
    """As of a day; "joined" when the texts are there as they are."""
    model: str = ""
    made_at: datetime | None = None
    missing: tuple[date, ...] = ()
    """Days (or months, years) with turns that have no digest yet: the next readings make them."""
    about: str = ""
    """The id of the person whose time it is; empty for that of all."""
    degraded: tuple[str, ...] = ()
    calls: int = 0
    """Calls made to the chat model by this reading, those for its days included."""
    owner_known: bool = True

    @property
    def extractive(self) -> bool:
        """Whether rules picked the text, without a model."""
        return self.source in BY_RULES

    @property
    def id(self) -> str:
        """The same for the same time of an owner."""
        name = f"{self.period}:{self.first}" if self.period == "week" else f"period:{self.period}"
        return name + _of(self.about)


@dataclass(frozen=True, slots=True)
class StoredDigest:
    """A digest as it is stored."""

    texts: tuple[SpeakerDigest, ...]
    """Of a longer time one text without a speaker."""
    sources: tuple[DaySource, ...]
    days: tuple[date, ...]
    turns: int
    left_out: int
    source: SummarySource
    model: str
    input_hash: bytes
    version: UUID
    made_at: datetime


@dataclass(frozen=True, slots=True)
class HeldDay:
    """A day, or a longer time, with its stored digest."""

    days: Days
    start: datetime
    end: datetime
    turns: int
    """Of a day: its turns with words."""
    own: int
    """Those of the person whose day it is."""
    digest: bytes
    """What these turns are; another one as soon as one comes or goes."""
    version: UUID | None
    """Of the digest that is stored."""
    stored: StoredDigest | None
    """None also when it is of other moments: the zone's rules have changed."""


@dataclass(frozen=True, slots=True)
class DayTurn:
    """A turn of a day, as a digest is made of it."""

    speaker_id: str
    name: str
    role: Role
    text: str
    occurred_at: datetime
    session: str = ""


def _of(person: str) -> str:
    return f":{person}" if person else ""


def speaker_lines(speakers: Sequence[SpeakerDigest]) -> str:
    """Texts of speakers as one text."""
    return "\n".join(block(turn_line(each.name, each.text) if each.name else each.text) for each in speakers)
