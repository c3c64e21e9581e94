"""Sections and parts of a context, and what is left out of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from memforest_core.domain.ids import FactId, NodeId, TenantId
from memforest_core.store.owners import ForestRef


class Section(StrEnum):
    """What a part belongs to, in the order in which sections are shown: what changes least comes first, so that a
    provider's cache of prompts can keep it."""

    PROFILE = "profile"
    """What is current of whom the assistant talks to."""
    WEEK = "week"
    """What happened in the days before today."""
    TODAY = "today"
    EVIDENCE = "evidence"
    """What a recall of the question found."""
    WINDOW = "window"
    """The running session."""


class PartKind(StrEnum):
    """What a part is."""

    SENTENCE = "sentence"
    """Of a profile."""
    DAYS = "days"
    """A digest of a day, or of several."""
    EVIDENCE = "evidence"
    ITEM = "item"
    """What recall found and was put into the window."""
    SUMMARY = "summary"
    """Of older turns of the session."""
    TURN = "turn"
    """Of the session, word for word."""


class Why(StrEnum):
    """Why a part, or a whole section, is not there."""

    BUDGET = "budget"
    """There were no tokens left for it."""
    IN_WINDOW = "in window"
    """The window shows these turns, or this fact, anyway."""
    IN_PROFILE = "in profile"
    """The profile has it already."""
    NOTHING = "nothing"
    """There is nothing of this kind: no facts, no turns, nothing found, no question to look for."""
    OFF = "off"
    """Its share of the budget is 0, or windows are switched off."""
    UNAVAILABLE = "unavailable"
    """This memory has no digests of days."""
    CHANNEL = "channel"
    """It is not of the requested channel, or of all channels."""
    FAILED = "failed"
    """The store did not answer; ``degraded`` says so."""
    SUPERSEDED = "superseded"
    """An item of the window that was corrected."""


@dataclass(frozen=True, slots=True)
class ContextPart:
    """One part of a context."""

    section: Section
    kind: PartKind
    text: str
    """A sentence, a digest, ``speaker: content`` of a turn, a summary. Not escaped."""
    tokens: int
    """Estimated tokens of its line as ``Context.text`` has it, escaped, without the header of its day."""
    fact_ids: tuple[FactId, ...] = ()
    session_id: str = ""
    """The caller's id of the session it was said in."""
    turn_ids: tuple[str, ...] = ()
    """The caller's ids of its turns; of a summary the first and the last."""
    node_ids: tuple[NodeId, ...] = ()
    """The nodes of trees whose summary this is."""
    digest_id: str = ""
    """Of days, and of a sentence of a profile about them: which day or days the digest is of."""
    role: str = ""
    """Of a turn of the window."""
    speaker: str = ""
    """Of a turn."""
    time_label: str = ""
    """Of evidence the day, such as "Monday 8 May 2023"."""
    cut: bool = False
    """Only the beginning of the text is shown."""


@dataclass(frozen=True, slots=True)
class Omission:
    """A part that is not in a context, without its words; without ids it is the whole section."""

    section: Section
    why: Why
    tokens: int = 0
    fact_ids: tuple[FactId, ...] = ()
    session_id: str = ""
    turn_ids: tuple[str, ...] = ()


class DayText(Protocol):
    """A digest of a day, or of several."""

    @property
    def id(self) -> str: ...
    @property
    def text(self) -> str:
        """Empty when nothing was said, or nothing of it is made yet."""
        ...

    @property
    def degraded(self) -> Sequence[str]:
        """One sentence for each unavailable part."""
        ...


class Days(Protocol):
    """Where digests of days come from. A model that is unavailable is no error. Both raise StoreUnavailable."""

    def today_of(self, tenant: TenantId, forest: ForestRef) -> DayText:
        """Today's digest, by one statement when it is up to date."""
        ...

    def week_of(self, tenant: TenantId, forest: ForestRef) -> DayText:
        """That of the days before today, recent first, by one statement when it is up to date."""
        ...
