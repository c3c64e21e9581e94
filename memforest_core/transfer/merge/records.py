"""What merging forests needs from the store: a source as rows of ids and structure, copies made in sets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol
from uuid import UUID

from memforest_core.domain.facts import Statement
from memforest_core.domain.ids import CellId, FactId, ForestId, NodeId, PayloadId, SessionId, TenantId, TreeId
from memforest_core.domain.scopes import ScopeState, TreeKind
from memforest_core.memtree import Key, Node, TreeHead
from memforest_core.models.calls import Vectors
from memforest_core.reduce.records import ReduceRows, Rules
from memforest_core.work.records import MaintenanceRows, Numbers, TaskId


@dataclass(frozen=True, slots=True)
class MergeForest:
    """A forest that takes part: its owner, its state, its own rules, and how many facts it has."""

    id: ForestId
    owner: str
    state: str
    rules: Rules = field(default_factory=dict)
    facts: int = 0


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session of a source."""

    id: SessionId
    external_id: str
    turns: int
    cells: int


@dataclass(frozen=True, slots=True)
class NamedSession:
    """The session that a source's session becomes, and the name that the caller's id gets there."""

    source: SessionId
    target: SessionId
    name: str


@dataclass(frozen=True, slots=True)
class Overlap:
    """A session that the target has already, under the id that a source's session would get."""

    source: SessionId
    target: SessionId
    turns: int
    """How many the target has."""
    cells: int
    differs: bool
    """Some turn that both have is another one."""


@dataclass(frozen=True, slots=True)
class StoredCell:
    """A cell as merging sees it; the lowest free numbers for what was extracted from it, and for corrections."""

    id: CellId
    session_id: SessionId
    ordinal: int
    window: int
    first_turn: int
    last_turn: int
    char_start: int
    start: int
    end: int
    """Times in microseconds."""
    settled: bool
    """Extracted and placed: what is attached to it stays attached."""
    next_item: int
    next_correction: int


@dataclass(frozen=True, slots=True)
class CellCopy:
    """What a cell becomes in the target. ``cut``: the target has its first turns already, in a cell of its own."""

    source: StoredCell
    target: CellId
    session_id: SessionId
    ordinal: int
    window: int
    first_turn: int
    cut: bool


@dataclass(frozen=True, slots=True)
class CutText:
    """What is left of a cell that was cut; times in microseconds."""

    cell: CellId
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class StoredItem:
    """A candidate and the fact it is attached to; what it says, when it is a correction that has no fact yet."""

    cell_id: CellId
    item: int
    turns: tuple[int, ...]
    fact_id: FactId | None
    pending: Statement | None = None


@dataclass(frozen=True, slots=True)
class ItemCopy:
    """What a candidate becomes in the target; ``fact_id`` is the target's."""

    cell_id: CellId
    item: int
    new_cell: CellId
    new_item: int
    session_id: SessionId
    fact_id: FactId | None


@dataclass(frozen=True, slots=True)
class StoredFact:
    """A fact: what it says, the key and the interval of its leaves (microseconds), and what became of it."""

    id: FactId
    statement: Statement
    text_hash: bytes
    key: Key
    start: int
    end: int
    pinned: bool
    superseded: bool
    superseded_by: FactId | None


@dataclass(frozen=True, slots=True)
class FactCopy:
    """A fact of the source, the target's, and the target's successor of it if it was corrected."""

    source: FactId
    target: FactId
    superseded_by: FactId | None


@dataclass(frozen=True, slots=True)
class StoredScope:
    """A scope; ``total`` is the vector sum of a scene, times are microseconds."""

    id: TreeId
    kind: TreeKind
    key: str
    state: ScopeState
    k: int
    head: TreeHead | None
    domain: str
    total: Vectors | None
    start: int | None
    end: int | None


@dataclass(frozen=True, slots=True)
class ScopeCopy:
    """A scope that the target lacks: made after the source's; without a head it is a candidate."""

    source: TreeId
    target: TreeId
    key: str
    label: str | None
    """None: the source's."""
    session_id: SessionId | None
    head: TreeHead | None
    dirty: bool


@dataclass(frozen=True, slots=True)
class HeadChange:
    """A tree whose structure was replaced."""

    head: TreeHead
    dirty: bool


@dataclass(frozen=True, slots=True)
class SceneSum:
    """A united scene's vector sum and the time it spans (microseconds)."""

    tree_id: TreeId
    total: Vectors
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class StoredMember:
    """A payload of a scope and the session that speaks for it."""

    tree_id: TreeId
    payload_id: PayloadId
    session_id: SessionId


@dataclass(frozen=True, slots=True)
class MemberCopy:
    """A payload that a scope of the target gets; its leaf, where that is known."""

    tree_id: TreeId
    payload_id: PayloadId
    session_id: SessionId
    leaf_id: NodeId | None


@dataclass(frozen=True, slots=True)
class ValueConflict:
    """Two facts about one attribute of one subject that give it different values for the same time (microseconds)."""

    subject: str
    attribute: str
    source_fact: FactId
    source_text: str
    source_value: str
    target_fact: FactId
    target_text: str
    target_value: str
    since: int


class MergeRows(ReduceRows, Protocol):
    """Rows of one transaction of a merge."""

    @property
    def tasks(self) -> MaintenanceRows:
        """Task rows of the same transaction."""
        ...

    def unhurried(self) -> None:
        """Let the statements of this transaction take as long as their rows need."""
        ...

    def undo(self) -> None:
        """End the transaction as if nothing had been written."""
        ...

    def lock_all(self, forests: Sequence[ForestId], *, changing: bool = False) -> Mapping[ForestId, MergeForest]:
        """Become the only writer of these forests, in the order of ids; those that are there. ``changing`` is for who
        is going to change their states."""
        ...

    def forests(self, ids: Sequence[ForestId]) -> Sequence[MergeForest]:
        """These forests, as far as they exist, in the order of ids."""
        ...

    def found(self, owner: str, like: ForestId) -> ForestId:
        """A new hidden forest of an owner, in another one's time zone and with its rules; that of an unfinished merge
        again, if there is one."""
        ...

    def visible(self, owner: str) -> ForestId | None:
        """The forest that is an owner's memory."""
        ...

    def set_state(self, forest: ForestId, state: str) -> None:
        """Change a forest's state once no session is being accepted into it."""
        ...

    def contended(self, task: TaskId, sources: Sequence[ForestId], target: ForestId) -> bool:
        """Whether another merge has begun that moves one of these forests, or moves into one of the sources, or one of
        them is being built anew."""
        ...

    def progress(self, task: TaskId) -> Numbers:
        """How far a task has come, locked until this transaction ends. Empty for a task that is not stored."""
        ...

    def advance(self, task: TaskId, progress: Numbers) -> None:
        """Note how far a task has come, in this transaction."""
        ...

    def hold_cells(self, source: ForestId) -> None:
        """Keep workers from claiming or ending the extraction of a forest's cells until the transaction ends."""
        ...

    def sessions(self, forest: ForestId) -> Sequence[StoredSession]:
        """All sessions of a forest, by the caller's id."""
        ...

    def add_sessions(
        self, source: MergeForest, target: ForestId, names: Sequence[NamedSession]
    ) -> frozenset[SessionId]:
        """Copy session rows; the new ones among these, the others were there already."""
        ...

    def overlaps(self, names: Sequence[NamedSession]) -> Sequence[Overlap]:
        """The target's sessions of these names, locked, compared turn by turn."""
        ...

    def add_turns(self, firsts: Sequence[tuple[SessionId, SessionId, int]]) -> None:
        """Copy the turns of sessions (source, target) from an ordinal on."""
        ...

    def lengthen(self, sessions: Sequence[tuple[SessionId, SessionId, int]]) -> None:
        """Set the turn count of sessions (source, target) to the source's, and add so many cells; what was held open in
        the target is closed."""
        ...

    def add_speakers(self, source: ForestId, target: ForestId) -> None:
        """Copy who has spoken."""
        ...

    def cells(self, forest: ForestId) -> Sequence[StoredCell]:
        """All cells of a forest, by session and ordinal."""
        ...

    def cells_of(self, sessions: Sequence[SessionId]) -> Sequence[StoredCell]:
        """All cells of these sessions, by session and ordinal, locked."""
        ...

    def add_cells(self, target: ForestId, copies: Sequence[CellCopy]) -> None:
        """Copy cells with their state; one that is being worked on waits again. They are marked for indexing."""
        ...

    def cut_texts(self, copies: Sequence[CellCopy]) -> Sequence[CutText]:
        """The texts of copied cells from their first turn on."""
        ...

    def set_texts(self, texts: Sequence[CutText]) -> None:
        """Give cells another text."""
        ...

    def items(self, forest: ForestId) -> Sequence[StoredItem]:
        """All candidates of a forest, by cell and item."""
        ...

    def add_items(self, copies: Sequence[ItemCopy]) -> None:
        """Copy candidates, and attach those that have a fact."""
        ...

    def facts(self, forest: ForestId) -> Sequence[StoredFact]:
        """All facts of a forest, in the order in which they were made."""
        ...

    def facts_of(self, ids: Sequence[FactId]) -> Sequence[StoredFact]:
        """Those of these facts that exist."""
        ...

    def copy_facts(self, target: ForestId, copies: Sequence[FactCopy]) -> None:
        """Copy facts under their new ids, and mark them for indexing."""
        ...

    def take_corrections(self, copies: Sequence[FactCopy]) -> None:
        """Supersede facts of the target (``target``) that the source has in the same words and has corrected since they
        were last said, if their successors are there and hold; what is above them is to be summarized again."""
        ...

    def pin(self, facts: Sequence[FactId]) -> None:
        """Pin facts."""
        ...

    def value_conflicts(self, source: ForestId, target: ForestId, limit: int) -> tuple[int, Sequence[ValueConflict]]:
        """How many pairs of facts give one attribute of one subject different values for the same time; some of them.

        A state without a time of its own holds from when it was said until the next one of its chain in its forest.
        """
        ...

    def all_scopes(self, forest: ForestId) -> Sequence[StoredScope]:
        """Active and candidate scopes of a forest."""
        ...

    def scopes_of(self, ids: Sequence[TreeId]) -> Mapping[TreeId, StoredScope]:
        """Those of these scopes that exist."""
        ...

    def take_scenes(self, target: ForestId, count: int) -> int:
        """Take so many scene numbers; the first of them."""
        ...

    def nodes(self, forest: ForestId) -> Mapping[TreeId, Sequence[Node]]:
        """All nodes of a forest's trees."""
        ...

    def all_members(self, forest: ForestId) -> Sequence[StoredMember]:
        """All members of a forest's active and candidate scopes."""
        ...

    def copy_scopes(self, target: ForestId, copies: Sequence[ScopeCopy], quiet_s: float) -> None:
        """Copy scopes."""
        ...

    def copy_members(self, members: Sequence[MemberCopy]) -> None:
        """Note which scopes hold which payloads, and in which leaves; a member that is there keeps its session."""
        ...

    def lock_nodes_of(self, trees: Sequence[TreeId], nodes: Sequence[NodeId]) -> None:
        """Lock all nodes of these trees and these nodes, in the one order."""
        ...

    def clear_trees(self, trees: Sequence[TreeId]) -> None:
        """Take all nodes of these trees, and their points."""
        ...

    def add_nodes(self, nodes: Sequence[Node]) -> None:
        """Store nodes."""
        ...

    def copy_summaries(self, target: ForestId, renamed: Mapping[NodeId, NodeId]) -> None:
        """Copy what was made of nodes to their copies as it is, and mark those for indexing."""
        ...

    def set_heads(self, changes: Sequence[HeadChange], quiet_s: float) -> None:
        """Point trees to their new roots."""
        ...

    def set_scenes(self, sums: Sequence[SceneSum]) -> None:
        """Set what united scenes are about."""
        ...

    def copy_vectors(self, source: ForestId, target: ForestId) -> None:
        """Give the target the vectors of what it has taken over from the source; its own stay."""
        ...

    def copy_visits(self, source: ForestId, target: ForestId, renamed: Mapping[UUID, UUID]) -> None:
        """Add what was counted of items to what they became."""
        ...

    def vector_pages(self, forest: ForestId, model: str, size: int) -> Iterator[tuple[Sequence[FactId], Vectors]]:
        """Pages of a forest's live facts that have a vector, and those as rows of a matrix."""
        ...

    def fact_count(self, forest: ForestId) -> int:
        """How many facts a forest has."""
        ...

    def statements(self, ids: Sequence[FactId]) -> Mapping[FactId, Statement]:
        """What these facts say, as far as they exist and are not superseded."""
        ...


class MergeStore(Protocol):
    """Opens transactions of merges."""

    def merging(self, tenant: TenantId) -> AbstractContextManager[MergeRows]:
        """One transaction of a tenant."""
        ...
