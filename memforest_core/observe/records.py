"""What looking inside needs from the store: counts, workers, trees and their nodes; nothing is changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from memforest_core.domain.ids import NodeId, TreeId
from memforest_core.domain.scopes import TreeKind


@dataclass(frozen=True, slots=True)
class WorkerSeen:
    """A worker process and how long it has been silent, on the database's clock."""

    name: str
    queues: tuple[str, ...]
    started_at: datetime
    silent_s: float
    alive: bool


@dataclass(frozen=True, slots=True)
class Trouble:
    """Work of one kind that failed for one reason: it is ``dead``, or ``waiting`` for its next try."""

    kind: str
    """cell or index row."""
    state: str
    """dead or waiting."""
    code: str
    reason: str
    """The last error's sentence; never conversation text."""
    count: int


@dataclass(frozen=True, slots=True)
class Totals:
    """How much a tenant, or one of its forests, holds and has still to do."""

    sessions: int
    turns: int
    facts: int
    cells: Mapping[str, int]
    """By state: held, ready, running, extracted (not in the trees yet), placed, dead."""
    verbatim_cells: int
    """Kept word by word, because no model answer was usable."""
    indexed_cells: int
    """Whose vectors are in the index."""
    index_rows: Mapping[str, int]
    """By state: ready and running are behind, done are up to date, dead."""
    trees: int
    dirty_trees: int
    due_trees: int
    """Dirty trees whose refresh is due now."""
    dirty_nodes: int

    @property
    def cells_total(self) -> int:
        """All cells."""
        return sum(self.cells.values())

    @property
    def cells_extracted(self) -> int:
        """Cells that a window's extraction has finished, in the trees or not yet."""
        return self.cells.get("extracted", 0) + self.cells.get("placed", 0)

    @property
    def settled(self) -> bool:
        """Whether everything that can be done is done."""
        finished = self.cells.get("placed", 0) + self.cells.get("dead", 0)
        behind = self.index_rows.get("ready", 0) + self.index_rows.get("running", 0)
        return finished == self.cells_total and self.dirty_trees == 0 and behind == 0


@dataclass(frozen=True, slots=True)
class ModelCalls:
    """Model calls of one step by one model. Costs are US dollars, latencies milliseconds."""

    step: str
    model: str
    calls: int
    failed: int
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    cost_usd: float
    latency_p50_ms: float
    latency_total_ms: float


@dataclass(frozen=True, slots=True)
class TreeOverview:
    """One active tree. Times are those of its leaves, None while none is known."""

    id: TreeId
    kind: TreeKind
    label: str
    scope_key: str
    k: int
    leaves: int
    height: int
    """The root's level; leaves are level 0."""
    start: datetime | None
    end: datetime | None
    dirty_nodes: int
    due_at: datetime | None


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A node as it is drawn."""

    id: NodeId
    parent_id: NodeId | None
    level: int
    start: datetime | None
    end: datetime | None
    leaves: int
    dirty: bool
    text: str
    """A leaf's fact or cell text; an internal node's summary, empty before its first refresh."""
    source: str
    """How the text was made: fact, cell, or the summary's source."""
    session_id: str
    """The caller's session id of a leaf that is a cell; else empty."""
