"""The window of a session as callers get it, what they name for it, and what it is made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import UUID

from memforest_core.domain.delivery import estimated_tokens
from memforest_core.domain.evidence import Evidence, EvidenceKind
from memforest_core.domain.ids import FactId, ForestId, NodeId, SessionId
from memforest_core.domain.pages import Document, plain
from memforest_core.domain.rendering import block
from memforest_core.domain.turns import Turn, checked_name
from memforest_core.errors import InvalidInput
from memforest_core.ingest.refresh.records import SummarySource

MAX_ITEMS = 1_000
"""Items that one call puts in."""

ItemInput = Evidence | UUID | str | tuple[str, str]
"""Evidence, a fact's id, or a session's and a turn's id."""


def named_items(items: object) -> list[UUID | tuple[str, str]]:
    """The facts and turns that a caller's items name, in their order. Raises InvalidInput."""
    if isinstance(items, str) or not isinstance(items, Sequence) or len(items) > MAX_ITEMS:
        raise InvalidInput(f"Give at most {MAX_ITEMS} items as a list.", code="invalid_items")
    return [each for item in items for each in _named(item)]


def _named(item: object) -> list[UUID | tuple[str, str]]:
    """What an item names: facts by their ids, turns by the ids of session and turn. Raises InvalidInput."""
    match item:
        case Evidence():
            if item.kind is EvidenceKind.FACT and item.fact_ids:
                return [UUID(str(fact)) for fact in item.fact_ids[:1]]
            return [(item.session_id, turn) for turn in item.turn_ids]
        case UUID():
            return [item]
        case (str() as session, str() as turn):
            return [(checked_name(session, "session_id"), checked_name(turn, "turn_id"))]
        case str():
            try:
                return [UUID(item)]
            except ValueError:
                pass
    raise InvalidInput(
        "Give items as evidence, as ids of facts, or as pairs of a session's and a turn's id.", code="invalid_items"
    )


class PartKind(StrEnum):
    """What a part of a window or of a context is."""

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


class Reason(StrEnum):
    """Why a part is not in the window."""

    BUDGET = "budget"
    """There were no tokens left for it."""
    REPEATED = "repeated"
    """The window shows the turn anyway."""
    SUPERSEDED = "superseded"
    """The fact was corrected."""


@dataclass(frozen=True, slots=True)
class WindowPart:
    """One part of a window."""

    kind: PartKind
    text: str
    """``speaker: content`` of a turn (or of an item that is a turn), a summary, or a fact's sentence."""
    session_id: str
    """The caller's id of the session that it was said in."""
    turn_ids: tuple[str, ...]
    """The caller's ids of its turns; of a summary that of the first and of the last turn that it covers."""
    first: int
    """The place of its first turn in the session, from 0."""
    last: int
    turns: int = 1
    """How many turns it covers."""
    role: str = ""
    """Of a turn."""
    speaker: str = ""
    """Of a turn."""
    source: str = ""
    """How a summary was made: by a "model", "joined" or "passed" as it was, "extractive" by rules, or "degraded"."""
    node_id: NodeId | None = None
    """The node of the session's tree whose summary this is; None for the window's own."""
    fact_id: FactId | None = None
    """Of an item that is a fact."""
    cut: bool = False
    """Only the beginning of the text is shown: the last turn alone is longer than the budget."""

    @property
    def item(self) -> str:
        """The text as an item of the window. A summary is named: its lines may be turns, those of a turn are none."""
        return f"(summary) {self.text}" if self.kind is PartKind.SUMMARY else self.text

    @property
    def tokens(self) -> int:
        """Estimated tokens of the item with its line end."""
        return estimated_tokens(block(self.item) + "\n")


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A part that is not in the window, without its words."""

    kind: PartKind
    reason: Reason
    session_id: str
    turn_ids: tuple[str, ...]
    turns: int
    tokens: int
    fact_id: FactId | None = None


@dataclass(frozen=True, slots=True)
class SessionWindow(Document):
    """The running session as a model should see it."""

    session_id: str
    """The caller's id; empty when the owner has no session."""
    parts: tuple[WindowPart, ...]
    """Items first, then the session in its order."""
    max_tokens: int
    left_out: tuple[LeftOut, ...] = ()
    turns: int = 0
    """How many turns the session has."""
    compacted: int = 0
    """How many of them, the first ones, the window's own summary covers."""
    degraded: tuple[str, ...] = ()
    """One sentence for each unavailable part and what was done without it."""
    calls: int = 0
    """Calls made to the chat model for this window."""
    enabled: bool = True
    """False when windows are switched off: then there are no parts."""
    owner_known: bool = True
    """False when the owner has no memory yet."""

    @property
    def tokens(self) -> int:
        """Estimated tokens of all parts."""
        return sum(part.tokens for part in self.parts)

    @property
    def text(self) -> str:
        """All parts as one text, a line each."""
        return "\n".join(block(part.item) for part in self.parts)

    def to_dict(self) -> dict[str, Any]:
        """The window as JSON values, by the names of the fields, with ``tokens``."""
        parts = [{**plain(part), "tokens": part.tokens} for part in self.parts]
        return {**plain(self), "parts": parts, "tokens": self.tokens}


@dataclass(frozen=True, slots=True)
class HeldItems(Document):
    """What a window has after items were put into it."""

    session_id: str
    held: int
    """Items that it has now."""
    added: int
    """New ones among those that were given."""
    unknown: int
    """Those that were given and name nothing the owner has: forgotten since, or never there."""
    fallen: int
    """Items that fell out, because there was no room."""
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class StoredSummary:
    """The window's own summary of a session's first turns, as it is stored."""

    turns: int
    """It covers the turns before this ordinal."""
    text: str
    source: SummarySource
    model: str
    input_hash: bytes
    version: UUID


@dataclass(frozen=True, slots=True)
class TreeSummary:
    """An internal node of the session's tree, and the turns that its leaves hold."""

    node_id: NodeId
    text: str
    source: str
    first: int
    last: int
    level: int = 1
    clean: bool = True
    """Its summary has seen all of these turns."""


@dataclass(frozen=True, slots=True)
class HeldItem:
    """An item of a window with what it refers to now."""

    part: WindowPart
    superseded: bool
    own: bool
    """It is a turn of the window's own session."""


@dataclass(frozen=True, slots=True)
class WindowHead:
    """The session that a window shows."""

    id: SessionId
    external_id: str
    turns: int
    channel: str | None = None


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a window is made from. It was read in the order of the fields: the digest before words, so that words that
    are deleted meanwhile are not taken for compacted ones."""

    forest: ForestId
    frozen: bool
    """It is being merged into another: nothing is stored for it."""
    head: WindowHead
    stored: StoredSummary | None
    end: int
    """Turns from this ordinal on stay word for word."""
    begin: int
    """What is compacted now begins with this turn: 0, or what follows the stored summary."""
    digest: bytes
    """Of the turns from ``begin`` to before ``end``."""
    tree: Sequence[TreeSummary] | None
    """Summaries for turns before ``end``, from the first turn on. None: it lags too far behind the stored summary."""
    later: Sequence[TreeSummary]
    """The same, from the first turn that the stored summary does not stand for."""
    waiting: Sequence[tuple[int, int]]
    """First and last turns of the cells before ``end`` that are not in the tree."""
    turns: Mapping[int, Turn]
    """The turns that are needed word for word and have words, by ordinal."""
    ids: Mapping[int, str]
    """The caller's ids of turns where summaries begin and end."""
    items: Sequence[HeldItem] = ()
    """The one that was used last first."""
