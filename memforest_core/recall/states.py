"""A timeline as callers get it: states in the order of time, with the turns that say them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memforest_core.domain.facts import Change, Modality, Polarity, Source
from memforest_core.domain.ids import FactId
from memforest_core.domain.pages import plain
from memforest_core.domain.rendering import stated
from memforest_core.domain.times import TimeSpan


@dataclass(frozen=True, slots=True)
class KnownChain:
    """That states of one subject and attribute are stored, and how many facts they rest on."""

    subject_key: str
    subject: str
    attribute: str
    facts: int


@dataclass(frozen=True, slots=True)
class SourceTurn:
    """A turn that says a state, under the caller's ids, with the beginning of its text."""

    session_id: str
    turn_id: str
    speaker: str
    said_at: datetime
    text: str


@dataclass(frozen=True, slots=True)
class TimelineState:
    """One state, or one change of it. The times when it was valid, was said and was stored are separate."""

    fact_id: FactId
    """The fact that says it first."""
    subject: str
    attribute: str
    """Empty for what sets no state: an event of a scene."""
    value: str
    previous_value: str
    """The value before, where the same sentence says it."""
    text: str
    change: Change
    polarity: Polarity
    modality: Modality
    time: TimeSpan
    """When it happened or began to hold; unknown when nobody said."""
    time_label: str
    """``time`` as people write it, in the owner's time zone; "date unknown" without one."""
    mentioned_at: datetime
    """The timestamp of its first mention."""
    last_mentioned_at: datetime
    known_since: datetime
    """When MemForest stored it."""
    supersedes: tuple[FactId, ...]
    """The states that it ended."""
    superseded_by: FactId | None
    """The state or the stop that ended it, or its correction."""
    current: bool
    """Whether it is valid as far as is known: set, asserted, and ended by nothing. Plans, hearsay and denials never
    do."""
    mentions: int
    """How often it was said."""
    fact_ids: tuple[FactId, ...]
    """All facts that say it."""
    evidence: tuple[SourceTurn, ...]
    """The turns that say it, in the order of time."""
    ended: TimeSpan | None = None
    """Until when it was valid: when what ended it began, else the timestamp of that statement. None while nothing ended
    it."""
    corrected_at: datetime | None = None
    """When it became known that it never held: then ``superseded_by`` says how it is. None for what held."""
    source: Source | None = None
    """Who read it out of the turns; None for what was stored before that was known."""
    quote: str = ""
    """The words that say it first, as they were said; empty for what somebody corrected."""
    planned: bool = False
    """It was said as a plan, and its day has come: it is current as planned."""

    @property
    def shown(self) -> str:
        """Its value as it is shown to people: "not vegan" of a denial."""
        return stated(self.attribute, self.value, self.text, self.polarity, self.planned)


@dataclass(frozen=True, slots=True)
class Timeline:
    """States in the order of event time, else of their first mention; what ended comes before what ended it."""

    owner: str
    time_zone: str
    """The owner's, which ``time_label`` counts days in."""
    states: tuple[TimelineState, ...]
    truncated: bool = False
    """More states follow: ask again with ``cursor``."""
    cursor: str | None = None
    oldest_left_out: bool = False
    """There are more facts than one timeline reads; it was made from the latest of them."""
    owner_known: bool = True
    """False when the owner has no memory yet."""

    def to_dict(self) -> dict[str, Any]:
        """The timeline as JSON values, by the names of the fields."""
        made: dict[str, Any] = plain(self)
        return made
