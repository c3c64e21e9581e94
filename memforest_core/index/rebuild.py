"""Makes index rows and points agree, page by page, and rebuilds the index from the database: no language model, no
embedding, queries go on meanwhile."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.domain.operation_rules import OperationKind
from memforest_core.errors import IndexUnavailable
from memforest_core.index.collection_rows import CollectionStore
from memforest_core.index.generations import WHOLE, parse_generation
from memforest_core.index.records import PointRow, texts_of
from memforest_core.index.rows import OpenIndexRows
from memforest_core.index.vector_index import PointKey, PointKind, ScannedPoint, VectorIndex
from memforest_core.store.owners import known
from memforest_core.work.messages import Queue, WakeUps
from memforest_core.work.records import Numbers, OperationTask, TaskId
from memforest_core.work.rows.operation_rows import OpenTasks

PAGE = 500
"""Points or rows compared in one step."""

SAMPLE = 25
"""Rows of a page whose points are compared, chosen at random: damage meets many points at once."""

_POINTS, _ROWS = "points", "rows"
_MARK, _SWEEP, _SWEPT = "mark", "sweep", "swept"


def unequal(points: Sequence[ScannedPoint], rows: Mapping[UUID, PointRow]) -> tuple[list[PointKey], dict[UUID, int]]:
    """Of a page of points: orphans, which have no row in their forest or one that is cold; and by their rows the
    versions of points that are newer than what these know to be written, without those that are deleted anyway."""
    orphans: list[PointKey] = []
    ahead: dict[UUID, int] = {}
    for point in points:
        row = rows.get(point.id)
        if row is None or row.cold or row.forest_id != point.forest_id:
            orphans.append(point.key)
        elif not row.deleted and point.version > row.indexed_version:
            ahead[point.id] = point.version
    return orphans, ahead


def missing_points(rows: Sequence[PointRow], found: Mapping[UUID, int]) -> list[PointRow]:
    """The rows whose point is missing or older than they saw written."""
    return [row for row in rows if found.get(row.id, 0) < row.indexed_version]


def differing(
    open_rows: OpenIndexRows, index: VectorIndex, tenant: TenantId, rows: Sequence[PointRow], deep: bool = False
) -> list[PointRow]:
    """Those of a sample of these rows, or of all, whose point has their version and other contents; looked at twice,
    because both change meanwhile. An embedded index with such a point sets its files aside.

    Raises StoreUnavailable, IndexUnavailable.
    """
    chosen = rows if deep or len(rows) <= SAMPLE else random.sample(rows, SAMPLE)
    wrong = frozenset(row.id for row in chosen)
    for _ in range(2):
        if wrong:
            with open_rows(tenant) as reading:
                model, written = reading.written_points(wrong)
                if model is None:
                    return []
                vectors = reading.known_vectors(model, texts_of(written))
            known = [each for each in written if each.vector is not None or each.own_text in vectors]
            wrong = index.differing([each.point(tenant, vectors) for each in known])
    if wrong:
        index.set_aside()
    return [row for row in chosen if row.id in wrong]


@dataclass(frozen=True, slots=True)
class Sweep:
    """Deletes points that have no row; one page at a time."""

    open_rows: OpenIndexRows
    collections: CollectionStore
    index: VectorIndex

    def swept(self, tenant: TenantId, progress: Numbers, *, whole: bool, overtake: bool) -> tuple[Numbers, bool]:
        """Compare the next page of the tenant's points: progress after it, and whether it was the last.

        ``whole``: of all points, those of tenants that the database does not know included. ``overtake``: also give
        rows a higher version than points that are ahead of them.
        """
        cursor = str(progress.get("cursor", "")) or None
        page = self.index.scan(cursor, PAGE, None if whole else tenant)
        mine = [point for point in page.points if point.tenant == tenant]
        with self.open_rows(tenant) as rows:
            orphans, ahead = unequal(mine, rows.point_rows([point.id for point in mine]))
        unknown: list[PointKey] = []
        if whole:
            # Read after the page: a tenant comes before its points.
            tenants = set(self.collections.tenants())
            unknown = [point.key for point in page.points if point.tenant not in tenants]
        self.index.delete([*orphans, *unknown])
        raised = 0
        with self.open_rows(tenant) as rows:
            if overtake:
                raised = rows.overtake(ahead)
            # A row that was added while its point was deleted as an orphan needs the point back.
            rows.renew_points([key.id for key in orphans])
        after = dict(progress) | {
            "cursor": page.cursor or "",
            "points": int(progress.get("points", 0)) + len(page.points),
            "deleted": int(progress.get("deleted", 0)) + len(orphans) + len(unknown),
            "overtaken": int(progress.get("overtaken", 0)) + raised,
        }
        return after, page.cursor is None


class Parity(Sweep):
    """The steps of a parity task: first the points are compared with their rows, then the rows with their points."""

    def step(self, tenant: TenantId, task: OperationTask, progress: Numbers) -> Numbers | None:
        """One page. Raises StoreUnavailable, IndexUnavailable."""
        if progress.get("phase", _POINTS) == _POINTS:
            whole = bool(task.arguments.get(WHOLE))
            after, last = self.swept(tenant, progress, whole=whole, overtake=True)
            return dict(after) | {"phase": _ROWS if last else _POINTS}
        return self._rows(tenant, progress)

    def _rows(self, tenant: TenantId, progress: Numbers) -> Numbers | None:
        after = UUID(str(progress["after"])) if progress.get("after") else None
        with self.open_rows(tenant) as rows:
            page = rows.written_rows(after, PAGE)
        if not page:
            return None
        # Of an index that is set aside all is missing; the next check of generations finds it without a mark.
        differing(self.open_rows, self.index, tenant, page)
        found = self.index.versions([row.key(tenant) for row in page])
        missing = missing_points(page, found)
        with self.open_rows(tenant) as rows:
            marked = rows.mark_missing(missing, found)
        return dict(progress) | {
            "after": str(page[-1].id),
            "rows": int(progress.get("rows", 0)) + len(page),
            "missing": int(progress.get("missing", 0)) + marked,
        }


BATCH = 1_000
"""Rows marked in one transaction: their locks are held for some milliseconds."""
FOREST = "forest"


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
        with self.open_rows(tenant) as rows:
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

    open_rows: OpenIndexRows
    collections: CollectionStore
    tasks: OpenTasks
    index: VectorIndex
    wakeups: WakeUps

    def rebuild(self) -> dict[TenantId, TaskId]:
        """Request a rebuild of all points of all tenants; the task of each tenant. Raises StoreUnavailable."""
        return {tenant: self._request(tenant, None) for tenant in self.collections.tenants()}

    def rebuild_owner(self, tenant: TenantId, owner: str) -> dict[TenantId, TaskId]:
        """Request a rebuild of one owner's points. Raises NotFound, StoreUnavailable."""
        with self.open_rows(tenant) as rows:
            forest = known(rows.find_forest(owner), owner)
        return {tenant: self._request(tenant, forest)}

    def _request(self, tenant: TenantId, forest: ForestId | None) -> TaskId:
        subject = str(forest or "")
        with self.tasks(tenant) as tasks:
            requested = {FOREST: subject} if forest else {}
            task = tasks.enqueue(OperationKind.REBUILD, subject, requested, lane=1, forest=forest)
        self.wakeups.send(Queue.MAINTAIN, tenant, str(task))
        return task

    def progress(self, requested: Mapping[TenantId, TaskId]) -> tuple[list[OperationTask], int]:
        """The tasks as they are, and how many rows of their tenants are behind. Raises StoreUnavailable."""
        found: list[OperationTask] = []
        behind = 0
        for tenant, task in requested.items():
            with self.tasks(tenant) as tasks:
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
        with self.tasks(tenant) as rows:
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
        with self.open_rows(tenant) as rows:
            return rows.behind_by_kind()
