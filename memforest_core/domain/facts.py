"""Candidates and canonical facts: what one extraction call said, and the stable unit it becomes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from memforest_core.domain.ids import CellId, FactId
from memforest_core.domain.times import TimeSpan

CORRECTED_ITEM = 1_000
"""Candidates from this item number up were not extracted: somebody corrected what the cell's turns had said."""


class Change(StrEnum):
    """What a statement does to a state."""

    START = "start"
    STOP = "stop"
    SWITCH = "switch"
    CORRECT = "correct"
    NONE = "none"


class Polarity(StrEnum):
    """Whether something is asserted or denied."""

    POSITIVE = "positive"
    NEGATIVE = "negative"


class Modality(StrEnum):
    """How firmly something is said."""

    ASSERTED = "asserted"
    PLANNED = "planned"
    HEARSAY = "hearsay"
    HYPOTHETICAL = "hypothetical"


class Origin(StrEnum):
    """Which side of the conversation a fact came from."""

    USER = "user"
    ASSISTANT = "assistant"


class Source(StrEnum):
    """Who read a statement out of the turns."""

    RULES = "rules"
    """The built-in rules: a chat model finds more."""
    MODEL = "model"
    PERSON = "person"
    """Somebody corrected it."""


class Outcome(StrEnum):
    """How the extraction of a cell ended."""

    OK = "ok"
    EMPTY = "empty"
    REPAIRED = "repaired"
    VERBATIM = "verbatim"
    FAILED = "failed"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Statement:
    """What a fact says, apart from where it came from."""

    text: str
    time: TimeSpan
    """When it happened or held (event time)."""
    mentioned_at: datetime
    """Mention time, aware."""
    speaker: str
    """Display name of who said it."""
    subject: str
    """Whom or what it is about; empty when unclear."""
    attribute: str = ""
    """The state it sets, such as ``residence``; empty when it sets none."""
    value: str = ""
    previous_value: str = ""
    change: Change = Change.NONE
    polarity: Polarity = Polarity.POSITIVE
    modality: Modality = Modality.ASSERTED
    entities: tuple[str, ...] = ()
    scene: str = ""
    """A label ``domain`` or ``domain/detail``; empty when unknown."""
    origin: Origin = Origin.USER
    verbatim: bool = False
    """True when the text is the turn itself because no model could condense it."""
    source: Source | None = None
    """None for a turn word by word, and for what was stored before sources were."""

    @property
    def domain(self) -> str:
        """The head of the scene label; a fact without one is a wildcard in routing."""
        return self.scene.partition("/")[0].strip().casefold()

    @property
    def routing_label(self) -> str:
        """What scene routing compares in addition to the text: origin and scene label (artifact); empty without one."""
        return f"{self.origin.value} | {self.scene}" if self.scene else ""

    @property
    def routing_text(self) -> str:
        """The name of what scene routing compares: the label and the text, whose vectors make its vector; without a
        scene label the text alone."""
        return f"{self.routing_label} | {self.text}" if self.scene else self.text


@dataclass(frozen=True, slots=True)
class Candidate:
    """One item of one extraction call, before canonicalization; identified by (cell, item)."""

    cell_id: CellId
    item: int
    turn_ordinals: tuple[int, ...]
    quote: str
    statement: Statement


@dataclass(frozen=True, slots=True)
class Fact:
    """A canonical fact: self-contained, mergeable, with one or more occurrences."""

    id: FactId
    statement: Statement
    normalized: str
    """The surface form that exact duplicates share."""
    cell_ordinal: int
    item: int
    """Position of its first occurrence, the tie-breaker of its leaf key."""
