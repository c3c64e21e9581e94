"""What recall reads from the store; nothing here writes. Of named tuples a recall makes hundreds or thousands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from memforest_core.domain.facts import Statement
from memforest_core.domain.ids import CellId, FactId, ForestId, NodeId, PayloadId, SessionId, TreeId, TreeKind
from memforest_core.models.token_vectors import TurnTokens

TurnKey = tuple[SessionId, int]
"""A turn by its session and its ordinal in it."""
Around = tuple[list[PayloadId], list[PayloadId]]
"""The payloads of the leaves before and after a leaf in its tree, nearest first on both sides."""
Said = tuple[UUID, UUID]
"""A fact and a cell that says it."""
TextsById = Mapping[UUID, str]
"""Cells or facts with their texts, found without the vector index."""


Stated = Mapping[FactId, frozenset[TurnKey]]
"""The facts of one state, each with the turns that say it."""
FEW_BYTES = 12
"""A turn of so few bytes says nothing without the one before it ("6 months."). 10 to 18 do the same."""
CURRENT = "current"
"""The signal of a state that is current."""


@dataclass(frozen=True, slots=True)
class States:
    """The states that a question is about, which are current or were before; empty for most questions."""

    states: tuple[Stated, ...] = ()
    signal: str = CURRENT
    read: frozenset[FactId] = frozenset()
    """All facts of the chains that were looked through, whatever they say."""

    @property
    def facts(self) -> frozenset[FactId]:
        """All facts that say them."""
        return frozenset(fact for stated in self.states for fact in stated)


class CellRef(NamedTuple):
    """A cell without its text. ``placed`` is false until the reducer has put it into the trees."""

    id: CellId
    session_id: SessionId
    first_turn: int
    last_turn: int
    char_start: int | None
    char_end: int | None
    placed: bool
    root: NodeId | None = None
    """Of the tree of its session."""


class CellTokens(NamedTuple):
    """The token vectors of a cell, whose first turn has the ordinal ``first_turn`` in its session."""

    first_turn: int
    tokens: TurnTokens


class Link(NamedTuple):
    """One occurrence: a fact, the cell that says it and the turns in it."""

    fact_id: FactId
    cell_id: CellId
    session_id: SessionId
    turn_ordinals: tuple[int, ...]
    corrected: bool = False
    """The fact is a correction: its turns say something else."""
    superseded_by: FactId | None = None
    """What the fact was corrected to, if that is known by then."""


@dataclass(frozen=True, slots=True)
class FactHead:
    """A fact without its text. ``pointer`` marks one that only repeats its turn.

    Times are when it happened or held, None when nobody said.
    """

    id: FactId
    pointer: bool
    time_start: datetime | None
    time_end: datetime | None


@dataclass(frozen=True, slots=True)
class FactText:
    """A fact with what it says."""

    id: FactId
    statement: Statement
    pinned: bool = False
    superseded_by: FactId | None = None
    """What it was corrected to, if that is known by then."""


class PlacedNode(NamedTuple):
    """A node of a tree. ``payload_id`` is set for leaves; ``stale`` when its summary is behind the tree.

    Times are microseconds since 1970.
    """

    id: NodeId
    tree_id: TreeId
    parent_id: NodeId | None
    level: int
    payload_id: PayloadId | None
    time_start: int | None
    time_end: int | None
    stale: bool
    kind: TreeKind
    label: str
    text: str | None = None
    """The beginning of its summary, where it has one and that was read."""


class TreeRoot(NamedTuple):
    """Where browsing a tree begins. Times are microseconds since 1970."""

    id: NodeId
    tree_id: TreeId
    kind: TreeKind
    label: str
    time_start: int | None
    time_end: int | None
    text: str | None
    """The beginning of its summary, where it has one."""


class TreeChild(NamedTuple):
    """A child of a node as browsing follows it; ``payload_id`` is set for leaves. Times are microseconds since 1970."""

    id: NodeId
    tree_id: TreeId
    parent_id: NodeId
    payload_id: PayloadId | None
    time_start: int | None
    time_end: int | None
    text: str
    """The beginning of its summary, of its cell or of its fact; empty without one."""


class TurnHead(NamedTuple):
    """A turn without its text."""

    session_id: SessionId
    ordinal: int
    external_id: str
    session_external_id: str
    speaker_id: str
    name: str
    occurred_at: datetime
    dated: bool
    role: str
    origin: str | None = None
    """The owner whose session it was before a merge brought it here; None without a merge."""
    channel: str | None = None
    """Where its session took place, if that was said."""
    is_question: bool = False
    """Whether it ends with a question, where that was read."""
    short: bool | None = None
    """Whether it has at most ``FEW_BYTES``; None where that was not read, and of a cold topic."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """The metadata of a turn and of its session."""

    turn: Mapping[str, object]
    session: Mapping[str, object]

    @property
    def merged(self) -> Mapping[str, object]:
        """Both; a turn's own values count."""
        return {**self.session, **self.turn}


@dataclass(frozen=True, slots=True)
class SaidTurn:
    """A turn of a running session: who said what, and when."""

    name: str
    text: str
    occurred_at: datetime


@dataclass(frozen=True, slots=True)
class Visited:
    """A fact or cell that recall returned ``visits`` times, the last time ``ago_s`` seconds before it is written."""

    forest: ForestId
    item: UUID
    visits: int
    ago_s: float
