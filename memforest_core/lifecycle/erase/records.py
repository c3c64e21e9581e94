"""What a deletion is about: its target, the rows that go with it, and the rows that lose something."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from memforest_core.domain.ids import CellId, FactId, ForestId, NodeId, SessionId, TreeId

LEFT = "left."
"""The prefix of a count of references that were left, before the name of their column."""


class Target(StrEnum):
    """What is to be deleted."""

    TURNS = "turns"
    FACT = "fact"
    SESSION = "session"
    RANGE = "range"
    SPEAKER = "speaker"
    OWNER = "owner"


@dataclass(frozen=True, slots=True)
class Scope:
    """A target with what names it, as a task row keeps it: ids, digests and microseconds, never text."""

    target: Target
    forest: ForestId
    session: SessionId | None = None
    ordinals: tuple[int, ...] = ()
    fact: FactId | None = None
    speaker: str = ""
    """Digest of the speaker's id."""
    since: datetime | None = None
    until: datetime | None = None


class TurnKey(NamedTuple):
    """A turn of a forest."""

    session_id: SessionId
    ordinal: int


class ItemKey(NamedTuple):
    """A candidate."""

    cell_id: CellId
    item: int


@dataclass(frozen=True, slots=True)
class HeldCell:
    """A cell that has turns to remove; ``kept`` are its other turns: ordinal, name and content, in order."""

    id: CellId
    kept: tuple[tuple[int, str, str], ...]

    @property
    def gone(self) -> bool:
        """Whether all its words are removed."""
        return not self.kept


@dataclass(frozen=True, slots=True)
class TouchedFact:
    """A fact that lost occurrences. ``stated``: a candidate that it still has states it exactly as it is stored."""

    id: FactId
    routing_hash: bytes
    stated: bool
    others: tuple[ItemKey, ...]
    pinned: bool
    superseded_by: FactId | None
    superseded_at: datetime | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Path:
    """What lies above touched leaves: nodes up to the roots, and their trees."""

    nodes: tuple[NodeId, ...]
    trees: tuple[TreeId, ...]


@dataclass(frozen=True, slots=True)
class Removed:
    """The ids that one batch removed, for the scan that looks for references to them."""

    turns: tuple[TurnKey, ...]
    cells: tuple[CellId, ...]
    items: tuple[ItemKey, ...]
    facts: tuple[FactId, ...]
    nodes: tuple[NodeId, ...]
    masked: tuple[NodeId, ...]
    """Nodes that stay, whose summaries had to go."""
    rewritten: tuple[CellId, ...]
    """Cells that stay, with fewer turns."""
    trees: tuple[TreeId, ...]
    hashes: tuple[bytes, ...]
    moments: tuple[datetime, ...] = ()
    """When the turns were said, and those that the candidates rested on."""
