"""Digests of days and of longer times as callers get them, and as they are stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any
from uuid import UUID

from memforest_core.assistant.calendar.days import Days
from memforest_core.domain.documents import plain
from memforest_core.domain.rendering import block, turn_line
from memforest_core.domain.turns import Role
from memforest_core.ingest.refresh.records import SummarySource

BY_RULES = (SummarySource.EXTRACTIVE.value, SummarySource.DEGRADED.value)


@dataclass(frozen=True, slots=True)
class SpeakerDigest:
    """What a day says of one speaker."""

    speaker_id: str
    name: str
    text: str
    turns: int
    """How many of the speaker's turns were read for it."""


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
class DayDigest:
    """What happened on one day."""

    day: date
    time_zone: str
    """The owner's, in which it is a day."""
    turns: int = 0
    """Turns of the day that have words, now."""
    speakers: tuple[SpeakerDigest, ...] = ()
    """Human speakers, the one who spoke most first; all speakers of a day on which no human spoke."""
    source: str = ""
    """How it was made: by a "model", "joined" as the turns are, "extractive" by rules, or "degraded": by rules because
    the model failed. Empty when there is none: nothing was said, or it is not made yet."""
    model: str = ""
    made_at: datetime | None = None
    sources: tuple[DaySource, ...] = ()
    new_turns: int = 0
    """Turns that have come since it was made, which it does not tell of."""
    left_out: int = 0
    """The oldest turns of the day, which were too many for the model."""
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
        return f"day:{self.day}"

    @property
    def text(self) -> str:
        """A line or more for each speaker."""
        return speaker_lines(self.speakers)

    def to_dict(self) -> dict[str, Any]:
        """The digest as JSON values, by the names of the fields, with ``id`` and ``text``."""
        return {**plain(self), "id": self.id, "text": self.text, "extractive": self.extractive}


@dataclass(frozen=True, slots=True)
class PeriodDigest:
    """What happened in several days: the week, a month, a year, or the whole life; what is recent comes first."""

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
        return f"{self.period}:{self.first}" if self.period == "week" else f"period:{self.period}"

    def to_dict(self) -> dict[str, Any]:
        """The digest as JSON values, by the names of the fields, with ``id``."""
        return {**plain(self), "id": self.id, "extractive": self.extractive}


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


@dataclass(frozen=True, slots=True)
class LoadedDay:
    """What a day's digest is made from. The hashes were read before the words, so that words that are deleted
    meanwhile are not taken for those that are there."""

    held: HeldDay
    words: frozenset[bytes]
    """A hash of each turn."""
    sources: tuple[DaySource, ...]
    turns: Sequence[DayTurn]
    """In order; the newest ones, when there are too many."""


def speaker_lines(speakers: Sequence[SpeakerDigest]) -> str:
    """Texts of speakers as one text."""
    return "\n".join(block(turn_line(each.name, each.text) if each.name else each.text) for each in speakers)
