"""What the reducer needs from the store: waiting cells, facts to compare with, scopes and trees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from memforest_core.domain.facts import Candidate, Fact, Statement
from memforest_core.domain.ids import CellId, FactId, ForestId, PayloadId, SessionId, TenantId, TreeId
from memforest_core.domain.scopes import ScopeState, TreeKind
from memforest_core.memtree import Key, Node, TreeHead
from memforest_core.models.calls import CallRecord, OwnText, Vectors
from memforest_core.store.removal import RemovalRows

Rules = Mapping[str, float]
"""Branching factors and thresholds of one forest, under the names they have in the settings."""

HELD = "held"
"""Beside the rules of a hidden forest: its trees are not refreshed until whoever builds it says so."""


@dataclass(frozen=True, slots=True)
class WaitingCandidate:
    """A candidate with the vectors of its text and of its routing text.

    None for one that is missing: something with the same text was erased while it was extracted. It is embedded again.
    """

    candidate: Candidate
    vector: Vectors | None
    routing_vector: Vectors | None


@dataclass(frozen=True, slots=True)
class WaitingCell:
    """An extracted cell that is not in the trees yet."""

    id: CellId
    session_id: SessionId
    session_label: str
    ordinal: int
    first_turn: int
    char_start: int
    time_start: datetime
    time_end: datetime
    candidates: tuple[WaitingCandidate, ...]
    trace: str | None = None
    """The W3C traceparent that its session was accepted under."""
    again: bool = False
    """It was in the trees before: what it said then is to be replaced."""


@dataclass(frozen=True, slots=True)
class WaitingForest:
    """A forest with extracted cells, and which."""

    forest_id: ForestId
    owner: str
    cells: tuple[CellId, ...]
    extracted_at: Mapping[CellId, datetime]
    """When each was extracted: tells whether it is still the extraction that was seen."""


@dataclass(frozen=True, slots=True)
class ReduceBatch:
    """Waiting cells of one forest."""

    forest_id: ForestId
    owner: str
    cells: tuple[WaitingCell, ...]
    rules: Rules = field(default_factory=dict)
    """Where the forest's differ from the settings."""
    held: bool = False
    """The forest is being built beside a live one: its summaries wait until it is whole."""


@dataclass(frozen=True, slots=True)
class KnownFact:
    """A stored fact and the vector of its text."""

    id: FactId
    statement: Statement
    vector: Vectors


@dataclass(frozen=True, slots=True)
class Attachment:
    """A candidate of a cell, and the fact it belongs to."""

    cell_id: CellId
    session_id: SessionId
    item: int
    turn_ordinals: tuple[int, ...]
    fact_id: FactId


@dataclass(frozen=True, slots=True)
class SceneState:
    """A scene scope as stored: the sum of its vectors, its size, and the time it spans."""

    id: TreeId
    domain: str
    total: Vectors
    size: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ScopeDraft:
    """A scope to create or update; ``centroid`` is the vector sum of a scene."""

    id: TreeId
    kind: TreeKind
    key: str
    label: str
    k: int
    session_id: SessionId | None = None
    domain: str = ""
    centroid: Vectors | None = None
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class ScopeHead:
    """A stored scope: its state and, when active, its tree."""

    id: TreeId
    kind: TreeKind
    key: str
    state: ScopeState
    head: TreeHead | None


@dataclass(frozen=True, slots=True)
class Member:
    """A payload of a scope and the session it came from."""

    tree_id: TreeId
    payload_id: PayloadId
    session_id: SessionId


class ReduceRows(RemovalRows, Protocol):
    """Rows of one reducing transaction."""

    def waiting(self, limit: int) -> WaitingForest | None:
        """Extracted cells of one forest that nobody holds, at most ``limit``: live ones first, then by session."""
        ...

    def load(self, waiting: WaitingForest, model: str) -> ReduceBatch:
        """The waiting cells with their candidates that have no fact yet, and vectors. Raises InvariantViolated on a
        damaged one."""
        ...

    def put_vectors(self, model: str, vectors: Mapping[OwnText, Vectors]) -> None:
        """Store vectors; the caller holds the forest."""
        ...

    def record_calls(self, calls: Sequence[CallRecord], forest: ForestId) -> None:
        """Account for model calls."""
        ...

    def hand_back(self, cells: Sequence[CellId]) -> None:
        """Let the reducer place what of these extracted cells is attached to no fact."""
        ...

    def lock_forest(self, forest: ForestId) -> bool:
        """Become the forest's only writer until the transaction ends; False when somebody else is."""
        ...

    def still_waiting(self, batch: ReduceBatch) -> frozenset[CellId]:
        """Which cells of the batch have not been placed meanwhile, and say what they said when they were loaded."""
        ...

    def people(self, forest: ForestId) -> tuple[frozenset[str], frozenset[str]]:
        """Names of the owner, and of all human speakers, as they appear in the turns."""
        ...

    def stored_facts(self, ids: Sequence[FactId]) -> frozenset[FactId]:
        """Which of these facts exist."""
        ...

    def known_facts(self, ids: Sequence[FactId], model: str) -> list[KnownFact]:
        """Those of the stored facts that are not superseded, with their vectors."""
        ...

    def unseen_facts(self, forest: ForestId, limit: int, model: str) -> list[KnownFact]:
        """The newest facts of a forest that the vector index does not hold yet."""
        ...

    def add_facts(
        self,
        forest: ForestId,
        facts: Sequence[Fact],
        keys: Mapping[FactId, Key],
        subjects: Mapping[FactId, str],
    ) -> None:
        """Store new facts and mark them for indexing; ``subjects`` are normalized names."""
        ...

    def add_occurrences(self, attachments: Sequence[Attachment]) -> None:
        """Store provenance; a link that exists already stays."""
        ...

    def revive(self, said: Mapping[FactId, datetime]) -> None:
        """Facts that were said (again, and when last): who says something after it was corrected has changed his mind,
        and it is superseded no longer."""
        ...

    def scopes(self, ids: Sequence[TreeId]) -> dict[TreeId, ScopeHead]:
        """Stored scopes among these."""
        ...

    def scenes(self, forest: ForestId) -> list[SceneState]:
        """All live scene scopes of a forest."""
        ...

    def next_scene(self, forest: ForestId) -> int:
        """A number that no scene of the forest has had."""
        ...

    def put_scopes(self, forest: ForestId, drafts: Sequence[ScopeDraft]) -> None:
        """Create scopes as candidates, or update their centroid and span."""
        ...

    def add_members(self, members: Sequence[Member]) -> None:
        """Note which scopes hold which payloads; the leaf comes with ``write_trees``."""
        ...

    def evidence(self, ids: Sequence[TreeId]) -> dict[TreeId, tuple[int, int]]:
        """(facts, distinct sessions) that speak for each scope."""
        ...

    def members(self, ids: Sequence[TreeId]) -> dict[TreeId, list[tuple[PayloadId, Key, int, int]]]:
        """The facts of each scope: payload, leaf key, start and end in microseconds."""
        ...

    def load_paths(self, wanted: Sequence[tuple[TreeId, Key]]) -> dict[TreeId, list[Node]]:
        """For each tree the nodes that inserting these keys touches: the level-1 node that each key
        descends to, its ancestors, and all children of those."""
        ...

    def move_members(self, absorbed: TreeId, kept: TreeId) -> None:
        """The members of a scope become those of the kept one; its tree ends with ``write_trees``."""
        ...

    def set_placed(self, cells: Sequence[CellId]) -> list[float]:
        """The cells are in the trees; how old they are in seconds, apart from those extracted again."""
        ...

    def bury_cell(self, waiting: WaitingForest, code: str, text: str) -> bool:
        """Dead-letter the one extracted cell of ``waiting``, which can't be placed.

        False, and nothing is changed, when somebody else writes the forest, or the cell was placed, erased or extracted
        anew since it was seen: then the verdict is about what is no more.
        """
        ...

    def delay_forest(self, forest: ForestId, delay_s: float) -> None:
        """Look at this forest again later, if cells of it still wait."""
        ...


class ReduceStore(Protocol):
    """Opens reducing transactions."""

    def reducing(self, tenant: TenantId) -> AbstractContextManager[ReduceRows]:
        """One transaction of a tenant."""
        ...
