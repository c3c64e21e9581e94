"""Rebuilds the index from the database: no language model, no embedding, queries go on meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.domain.operations import OperationKind
from memforest_core.errors import IndexUnavailable
from memforest_core.index.collection_rows import CollectionStore
from memforest_core.index.generations import parse_generation
from memforest_core.index.parity import Sweep
from memforest_core.index.rows import IndexStore
from memforest_core.index.vector_index import PointKind, VectorIndex
from memforest_core.store.owners import known
from memforest_core.work.messages import Queue, WakeUps
from memforest_core.work.records import Numbers, OperationTask, TaskId
from memforest_core.work.rows.operations import OperationStore

BATCH = 1_000
"""Rows marked in one transaction: their locks are held for some milliseconds."""
FOREST = "forest"

_MARK = "mark"
_SWEEP = "sweep"
_SWEPT = "swept"


class Rebuild(Sweep):
    """The steps of a rebuild task: mark all rows as behind, for the indexer to write, then sweep."""

    def step(self, tenant: TenantId, task: OperationTask, progress: Numbers) -> Numbers | None:
        """One batch. Raises StoreUnavailable, IndexUnavailable, InvalidSettings for another dimension."""
        forest = ForestId(UUID(str(task.arguments[FOREST]))) if FOREST in task.arguments else None
        match progress.get("phase"):
            case None:
                self.index.prepare()
                return {"phase": _MARK, "marked": 0, "lost": int(self.index.count(tenant, forest) == 0)}
            case "mark":
                return self._mark(tenant, forest, progress)
            case "sweep":
                after, last = self.swept(tenant, progress, whole=False, overtake=False)
                return dict(after) | {"phase": _SWEPT} if last else after
            case _:
                return None

    def _mark(self, tenant: TenantId, forest: ForestId | None, progress: Numbers) -> Numbers:
        after = UUID(str(progress["after"])) if progress.get("after") else None
        with self.store.indexing(tenant) as rows:
            last, marked = rows.mark_all(after, BATCH, forest, lost=bool(progress["lost"]))
        if last is None:
            return dict(progress) | {"phase": _SWEEP}
        return dict(progress) | {"after": str(last), "marked": int(progress["marked"]) + marked}


@dataclass(frozen=True, slots=True)
class IndexState:
    """The live collection at one moment, as one tenant sees it."""

    collection: str
    model: str
    dimension: int
    points: int | None
    """The tenant's points; None while the index is unavailable."""
    mark: str | None
    """The mark that the database knows."""
    agrees: bool | None
    """Whether the index has that mark; None while it is unavailable or nothing is marked yet."""
    behind: Mapping[str, int]
    """Rows that the index does not have as they are, by kind."""
    tasks: tuple[OperationTask, ...]
    """The newest rebuilds and comparisons."""


@dataclass(frozen=True, slots=True)
class IndexUpkeep:
    """Rebuilds of the index on request, and its state."""

    store: IndexStore
    collections: CollectionStore
    tasks: OperationStore
    index: VectorIndex
    wakeups: WakeUps

    def rebuild(self) -> dict[TenantId, TaskId]:
        """Request a rebuild of all points of all tenants; the task of each tenant. Raises StoreUnavailable."""
        return {tenant: self._request(tenant, None) for tenant in self.collections.tenants()}

    def rebuild_owner(self, tenant: TenantId, owner: str) -> dict[TenantId, TaskId]:
        """Request a rebuild of one owner's points. Raises NotFound, StoreUnavailable."""
        with self.store.indexing(tenant) as rows:
            forest = known(rows.find_forest(owner), owner)
        return {tenant: self._request(tenant, forest)}

    def _request(self, tenant: TenantId, forest: ForestId | None) -> TaskId:
        subject = str(forest or "")
        with self.tasks.transaction(tenant) as tasks:
            requested = {FOREST: subject} if forest else {}
            task = tasks.enqueue(OperationKind.REBUILD, subject, requested, lane=1, forest=forest)
        self.wakeups.send(Queue.MAINTAIN, tenant, str(task))
        return task

    def progress(self, requested: Mapping[TenantId, TaskId]) -> tuple[list[OperationTask], int]:
        """The tasks as they are, and how many rows of their tenants are behind. Raises StoreUnavailable."""
        found: list[OperationTask] = []
        behind = 0
        for tenant, task in requested.items():
            with self.tasks.transaction(tenant) as tasks:
                seen = tasks.get(task)
            if seen is not None:
                found.append(seen)
            behind += sum(self._behind(tenant).values())
        return found, behind

    def wake(self, tenants: Sequence[TenantId]) -> None:
        """Send a wake-up for each tenant, in case one was lost."""
        for tenant in tenants:
            self.wakeups.send(Queue.MAINTAIN, tenant, "rebuild")

    def state(self, tenant: TenantId) -> IndexState | None:
        """How the index is; None before there is a live collection. Raises StoreUnavailable."""
        stored = self.collections.live()
        if stored is None:
            return None
        points: int | None = None
        agrees: bool | None = None
        try:
            points = self.index.count(tenant)
            seen = parse_generation(self.index.read_mark())
            if stored.generation is not None:
                agrees = seen is not None and stored.generation in (seen.generation, seen.previous)
        except IndexUnavailable:
            points = None
        with self.tasks.transaction(tenant) as rows:
            tasks = rows.list((OperationKind.REBUILD, OperationKind.PARITY), 4)
        return IndexState(
            collection=stored.name,
            model=stored.model,
            dimension=stored.dimension,
            points=points,
            mark=str(stored.generation) if stored.generation else None,
            agrees=agrees,
            behind={kind.value: count for kind, count in self._behind(tenant).items()},
            tasks=tuple(tasks),
        )

    def _behind(self, tenant: TenantId) -> Mapping[PointKind, int]:
        with self.store.indexing(tenant) as rows:
            return rows.behind_by_kind()
