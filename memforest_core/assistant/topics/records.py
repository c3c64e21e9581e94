"""Topics as callers get them. Times are aware datetimes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from memforest_core.domain.delivery import estimated_tokens
from memforest_core.domain.ids import TreeId
from memforest_core.domain.pages import Document
from memforest_core.domain.temperature import MemoryKind
from memforest_core.domain.turns import Turn


class Temperature(StrEnum):
    """Whether a topic's points are in the vector index."""

    HOT = "hot"
    COLD = "cold"
    """They are not: full text finds what was said, and that warms the topic."""


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic: a stretch of conversation, both sides, and the facts that were said in it."""

    id: TreeId
    title: str
    """What it is called, at most 80 characters: a stored title, else the beginning of its first turn."""
    named: bool
    """Whether the title is a stored one."""
    tags: tuple[str, ...]
    """Those that a user gave it."""
    facts: int
    turns: int
    first: datetime | None
    """When the first of these turns was said."""
    last: datetime | None
    priority: float
    """0 to 1: its importance, halved with each half-life without an access."""
    temperature: Temperature
    accesses: int
    """Evidence of it that recall returned, and readings of its context or history."""
    last_access: datetime | None
    """None when nobody read it yet."""
    importance: float
    """0 to 1: the mean of what its turns state, and what accesses teach."""


@dataclass(frozen=True, slots=True)
class TopicTurn:
    """A turn of a topic, and where it was said."""

    session_id: str
    """The caller's id."""
    turn: Turn


@dataclass(frozen=True, slots=True)
class TopicContext(Document):
    """A topic for the prompt of a chat: its summary, then its turns in the order of time."""

    derived = ("tokens",)

    topic: Topic
    messages: tuple[dict[str, str], ...]
    """A system message with title and summary, then the turns as messages with role and content."""
    turn_ids: tuple[tuple[str, str], ...]
    """Session and turn of each message after the first, by the caller's ids."""
    left_out: int
    """Turns for which there were no tokens left, the oldest ones."""
    max_tokens: int

    @property
    def tokens(self) -> int:
        """Estimated tokens of all messages."""
        return sum(estimated_tokens(message["content"] + "\n") for message in self.messages)


@dataclass(frozen=True, slots=True)
class TopicStats(Document):
    """Counts of one topic."""

    topic: Topic
    sessions: int
    """Sessions that its turns are of."""
    active_turns: int
    """Turns whose texts are stored one by one."""
    compressed_turns: int
    """Turns whose texts are compressed together, which happens when the topic becomes cold."""
    text_bytes: int
    """Of its turns' texts in UTF-8."""
    stored_bytes: int
    """What Postgres stores for them."""
    compression: float
    """The part of the bytes of the compressed turns that compressing saves, 0 to 1."""
    not_compressed: str
    """A sentence why no turn is compressed; empty when one is."""
    half_life_s: float
    """Seconds in which its priority halves, after its accesses."""
    memory: MemoryKind
    """Short while the half-life is the first one, long when it is the longest one, else transitioning."""
    has_summary: bool
    inactive_s: float
    """Seconds since it was accessed or got something."""
    points: int
    """Facts and cells that say them, of which the vector index should have a point."""
    points_cold: int
    """The same, without a point because their topics are cold."""
    cold_since: datetime | None


@dataclass(frozen=True, slots=True)
class MatchedTopic:
    """The topic that an appended turn belongs to."""

    id: TreeId
    title: str
    similarity: float | None
    """How near the turn is: a cosine, and what shared words add, at most 1. None where nothing was compared: the turn
    began the topic, or follows the turn before it."""
    begun: bool
    """Whether the topic began with this turn."""


@dataclass(frozen=True, slots=True)
class Match:
    """What came of looking for a turn's topic."""

    topic: MatchedTopic | None = None
    """None when nobody looked, or nothing was stored."""
    degraded: str = ""
    """A sentence when something was unavailable."""
