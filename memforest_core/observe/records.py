"""Numbers of a running system: depths, ages, workers, counts, trees and their nodes, spending."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from memforest_core.domain.ids import NodeId, TenantId
from memforest_core.domain.pages import Document
from memforest_core.observe.reading.records import StoredTree, TreeNode
from memforest_core.work.messages import Queue


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
    """The size of a tenant or of one of its forests, and what is still to do."""

    sessions: int
    turns: int
    facts: int
    cells: Mapping[str, int]
    """By state: held, ready, running, extracted (not in the trees yet), placed, dead."""
    verbatim_cells: int
    """Stored word by word, because no model answer was usable."""
    indexed_cells: int
    """Cells with a vector in the index."""
    index_rows: Mapping[str, int]
    """By state: ready and running are behind, done are up to date, dead."""
    trees: int
    dirty_trees: int
    due_trees: int
    """Dirty trees whose refresh is due now."""
    dirty_nodes: int

    @property
    def cells_total(self) -> int:
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
class TreeOverview(StoredTree):
    """One active tree, and how much of it is to be refreshed."""

    scope_key: str = ""
    dirty_nodes: int = 0
    due_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class DrawnNode(TreeNode):
    """A node as it is drawn."""

    parent_id: NodeId | None
    dirty: bool
    session_id: str
    """The caller's session id of a leaf that is a cell; else empty."""


class CostBy(StrEnum):
    """What spending is summed by."""

    SESSION = "session"
    OWNER = "owner"
    STEP = "step"
    DAY = "day"
    HOUR = "hour"
    MODEL = "model"


KINDS: dict[Queue, tuple[str, ...]] = {
    Queue.EXTRACT: ("extract", "index_cell"),
    Queue.REDUCE: ("reduce",),
    Queue.REFRESH: ("refresh",),
    Queue.MAINTAIN: ("maintain", "index_fact", "index_node"),
}
"""The kinds of waiting work that another worker of a queue would take."""


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """Work of one tenant, kind and state that is under way or stuck."""

    tenant: TenantId
    kind: str
    """extract, reextract, reduce, refresh, maintain, webhook, or index_ and the kind of point."""
    state: str
    """held, ready, running or dead."""
    items: int
    oldest_s: float
    """Age of the oldest of them in seconds."""

    @property
    def dead(self) -> bool:
        """Whether it waits for a person."""
        return self.state == "dead"

    @property
    def dirty(self) -> bool:
        """Whether these are nodes that refresh has still to do."""
        return self.kind == "refresh" and not self.dead

    @property
    def behind(self) -> bool:
        """Whether these are rows that the vector index has not yet."""
        return self.kind.startswith("index_") and not self.dead

    @property
    def unextracted(self) -> bool:
        """Whether this counts towards what a tenant may have waiting."""
        return self.kind == "extract" and self.state == "ready"


@dataclass(frozen=True, slots=True)
class WorkerBeat:
    """A worker process and the seconds since its last heartbeat, on the database's clock."""

    name: str
    queues: tuple[str, ...]
    version: str
    silent_s: float
    alive: bool
    started_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Spent:
    """Model calls, failed ones too, and their cost in US dollars; ``cached_tokens`` are part of ``prompt_tokens``."""

    calls: int
    failed: int
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    cost_usd: float


@dataclass(frozen=True, slots=True)
class ModelCalls(Spent):
    """Model calls of one step by one model. Latencies are milliseconds."""

    step: str
    model: str
    latency_p50_ms: float
    latency_total_ms: float


@dataclass(frozen=True, slots=True)
class LoggedCall:
    """One model call as it was recorded: what it was for, how long it took and what it cost; none of its words."""

    id: int
    """Later calls have larger ones."""
    at: datetime
    """When it was recorded: after its answer, or its failure."""
    step: str
    """extract, summarize, browse, plan, answer, judge or embed."""
    model: str
    owner: str
    """Empty for calls that belong to none; of an owner who was deleted the forest's id."""
    session_id: str
    """The caller's session id, which calls of extraction have; else empty. Of a deleted session our own id."""
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    """Part of ``prompt_tokens``: what the provider's cache knew."""
    cost_usd: float
    latency_ms: float
    outcome: str
    """"ok" or the error's code."""


@dataclass(frozen=True, slots=True)
class CallFilter:
    """Which calls; None leaves one out of account."""

    owner: str | None = None
    session_id: str | None = None
    step: str | None = None
    outcome: str | None = None
    since: datetime | None = None
    """Included."""
    until: datetime | None = None
    """Not included."""


@dataclass(frozen=True, slots=True)
class SpentOn:
    name: str
    """The caller's name of it; empty for calls that belong to none."""
    owner: str
    """Of a session its owner; else empty."""
    spent: Spent


@dataclass(frozen=True, slots=True)
class SystemState:
    """The whole of a tenant at one moment, and the workers that serve all tenants."""

    schema_revision: str | None
    schema_needed: str
    workers: tuple[WorkerBeat, ...]
    owners: int
    totals: Totals
    troubles: tuple[Trouble, ...]
    model_calls: tuple[ModelCalls, ...]
    warnings: tuple[str, ...] = ()
    """Sentences: what works less well than it could, and what to set."""


@dataclass(frozen=True, slots=True)
class ForestState:
    """One owner's forest at one moment."""

    owner: str
    totals: Totals
    troubles: tuple[Trouble, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Overview(Document):
    """A tenant's work at one moment, and the workers that serve all tenants."""

    derived = ("dead", "dirty_nodes", "summaries_stale_s", "index_stale_s")

    at: datetime
    queues: tuple[QueueDepth, ...]
    workers: tuple[WorkerBeat, ...]
    last_minute: Spent
    """Model calls of the last 60 seconds."""
    today: Spent
    """Model calls since midnight UTC."""

    @property
    def dead(self) -> int:
        """Items that wait for a person."""
        return sum(depth.items for depth in self.queues if depth.dead)

    @property
    def dirty_nodes(self) -> int:
        """Nodes whose summary is behind, without dead ones."""
        return sum(depth.items for depth in self.queues if depth.dirty)

    @property
    def summaries_stale_s(self) -> float:
        """Age in seconds of the oldest change that no summary knows."""
        return max((depth.oldest_s for depth in self.queues if depth.dirty), default=0.0)

    @property
    def index_stale_s(self) -> float:
        """Age in seconds of the oldest row that is not in the vector index yet."""
        return max((depth.oldest_s for depth in self.queues if depth.behind), default=0.0)


@dataclass(frozen=True, slots=True)
class Costs:
    """Spending by one thing, and in all."""

    by: CostBy
    rows: tuple[SpentOn, ...]
    total: Spent
