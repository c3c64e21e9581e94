"""What recall reads from the store; nothing here writes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from memforest_core.domain.ids import CellId, FactId, ForestId, NodeId, PayloadId, SessionId, TenantId, TreeId
from memforest_core.domain.scopes import TreeKind
from memforest_core.domain.times import TimeSpan
from memforest_core.store.owners import ForestRef

TurnKey = tuple[SessionId, int]
"""A turn by its session and its ordinal in it."""


@dataclass(frozen=True, slots=True)
class CellRef:
    """A cell without its text. ``placed`` is false until the reducer has put it into the trees."""

    id: CellId
    session_id: SessionId
    first_turn: int
    last_turn: int
    char_start: int | None
    char_end: int | None
    time_start: datetime
    time_end: datetime
    placed: bool


@dataclass(frozen=True, slots=True)
class Link:
    """One occurrence: a fact, the cell that says it and the turns in it."""

    fact_id: FactId
    cell_id: CellId
    session_id: SessionId
    turn_ordinals: tuple[int, ...]
    corrected: bool = False
    """The turns say something else: somebody corrected it to this."""
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
    """A fact's sentence, when what it tells happened or held, and when it was said."""

    id: FactId
    text: str
    speaker: str
    time: TimeSpan
    mentioned_at: datetime
    pinned: bool = False
    superseded_by: FactId | None = None
    """What it was corrected to, if that is known by then."""


@dataclass(frozen=True, slots=True)
class PlacedNode:
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


@dataclass(frozen=True, slots=True)
class TurnHead:
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


@dataclass(frozen=True, slots=True)
class FoundText:
    """A cell or fact with its text, found without the vector index."""

    id: UUID
    text: str


@dataclass(frozen=True, slots=True)
class Around:
    """The leaves next to a leaf in its tree: nearest first on both sides."""

    before: tuple[PayloadId, ...] = ()
    after: tuple[PayloadId, ...] = ()


@dataclass(frozen=True, slots=True)
class SaidTurn:
    """A turn of a running session: who said what, and when."""

    name: str
    text: str
    occurred_at: datetime


class RecallRows(Protocol):
    """Rows of one read transaction. Ids of other forests and of rows that are gone find nothing."""

    def forest(self, owner: str) -> ForestRef | None:
        """The owner's forest, if it exists."""

    def entity_roots(self, forest: ForestId, keys: Sequence[str]) -> list[NodeId]:
        """Roots of the entity trees under these scope keys."""

    def cells(self, forest: ForestId, ids: Sequence[UUID]) -> list[CellRef]:
        """Those of the cells that exist."""

    def links_of_facts(self, facts: Sequence[UUID], limit: int, until: datetime | None = None) -> list[Link]:
        """For each fact its latest occurrences, at most ``limit`` of each, in cells that began by ``until``.

        Corrections made after ``until`` are none yet.
        """

    def links_of_cells(self, cells: Sequence[UUID], until: datetime | None = None) -> list[Link]:
        """All occurrences in these cells, as far as corrections are known by ``until``."""

    def chains(
        self, forest: ForestId, facts: Sequence[UUID], n: int, until: datetime | None = None
    ) -> list[tuple[FactId, FactId]]:
        """Each fact that states an attribute, with the ``n`` states before and after it of the same subject that are
        not known by ``until`` to be wrong."""

    def fact_heads(self, ids: Sequence[UUID]) -> list[FactHead]:
        """Those of the facts that exist, without their texts."""

    def facts(self, forest: ForestId, ids: Sequence[UUID], until: datetime | None = None) -> list[FactText]:
        """Those of the facts that exist, as far as corrections are known by ``until``."""

    def roots_above(self, payloads: Sequence[UUID], kinds: Collection[TreeKind]) -> list[tuple[PayloadId, NodeId]]:
        """Each payload with the root of each tree of these families that holds it."""

    def lowest_above(self, payloads: Sequence[UUID], kinds: Collection[TreeKind]) -> list[tuple[PayloadId, NodeId]]:
        """Each payload with the parent of each leaf that holds it in trees of these families."""

    def paths(self, payloads: Sequence[UUID]) -> list[PlacedNode]:
        """The leaves that hold these payloads, in all trees, and all their ancestors, each once."""

    def children(self, nodes: Sequence[UUID]) -> list[PlacedNode]:
        """The children of these nodes in key order."""

    def summaries(self, nodes: Sequence[UUID], chars: int) -> dict[NodeId, str]:
        """The beginning of each node's text, where it has one."""

    def turns(self, keys: Sequence[TurnKey]) -> list[TurnHead]:
        """Those of the turns that exist."""

    def marked_turns(self, keys: Sequence[TurnKey], metadata: Mapping[str, object]) -> set[TurnKey]:
        """Those of the turns whose metadata holds all of these values."""

    def last_said(self, forest: ForestId) -> datetime | None:
        """When the latest turn was said; None for an empty forest."""

    def sessions(self, forest: ForestId, names: Sequence[str]) -> list[SessionId]:
        """Those of the caller's sessions that exist."""

    def turn_texts(self, keys: Sequence[TurnKey]) -> dict[TurnKey, str]:
        """The contents of turns."""

    def around(self, leaves: Sequence[UUID], n: int) -> Mapping[NodeId, Around]:
        """The ``n`` leaves before and after each of these leaves in its tree."""

    def full_text(
        self, forest: ForestId, words: Sequence[str], limit: int, until: datetime | None = None
    ) -> tuple[list[FoundText], list[FoundText]]:
        """Cells, and facts not known by ``until`` to be wrong, that hold any of the words, best first, by Postgres full
        text."""

    def index_unsure(self) -> bool:
        """Whether the index may lack what its rows say: after it was lost or restored, until both were compared."""

    def not_indexed(self, forest: ForestId, limit: int) -> list[FoundText]:
        """Cells that the vector index has not seen yet, latest first."""

    def nodes(self, ids: Sequence[UUID]) -> list[PlacedNode]:
        """Those of the nodes that exist."""

    def texts(self, payloads: Sequence[UUID], chars: int) -> dict[UUID, str]:
        """The beginning of each cell's and each fact's text."""

    def last_turns(self, forest: ForestId, session_external_id: str, n: int) -> list[SaidTurn]:
        """The last ``n`` turns of one of the caller's sessions, in order; none when it does not exist."""


class RecallStore(Protocol):
    """Opens read transactions."""

    def recalling(self, tenant: TenantId) -> AbstractContextManager[RecallRows]:
        """One read transaction of a tenant. Raises StoreUnavailable."""


@dataclass(frozen=True, slots=True)
class Visited:
    """A fact or cell that recall returned ``visits`` times, the last time ``ago_s`` seconds before it is written."""

    forest: ForestId
    item: UUID
    visits: int
    ago_s: float
