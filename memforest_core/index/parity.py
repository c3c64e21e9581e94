"""Makes index rows and points agree, page by page: finds what is missing in one of them, and which is older."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from memforest_core.domain.ids import TenantId
from memforest_core.index.collection_rows import CollectionStore
from memforest_core.index.contents import differing
from memforest_core.index.generations import WHOLE
from memforest_core.index.records import PointRow
from memforest_core.index.rows import IndexStore
from memforest_core.index.vector_index import PointKey, ScannedPoint, VectorIndex
from memforest_core.work.records import Numbers, OperationTask

PAGE = 500
"""Points or rows compared in one step."""

_POINTS = "points"
_ROWS = "rows"


@dataclass(frozen=True, slots=True)
class Unequal:
    """The points of a page that disagree with their rows."""

    orphans: tuple[PointKey, ...]
    """Points without a row in their forest, and those of cold rows."""
    ahead: Mapping[UUID, int]
    """Versions of points that are newer than what their row knows to be written."""


def unequal(points: Sequence[ScannedPoint], rows: Mapping[UUID, PointRow]) -> Unequal:
    """Compare a page of points with their rows; points that are to be deleted anyway are left out."""
    found = [(point, rows.get(point.id)) for point in points]
    orphans = tuple(point.key for point, row in found if row is None or row.cold or row.forest_id != point.forest_id)
    ahead = {
        point.id: point.version
        for point, row in found
        if row is not None
        and row.forest_id == point.forest_id
        and not row.deleted
        and not row.cold
        and point.version > row.indexed_version
    }
    return Unequal(orphans, ahead)


def missing_points(rows: Sequence[PointRow], found: Mapping[UUID, int]) -> list[PointRow]:
    """The rows whose point is missing or older than they saw written."""
    return [row for row in rows if found.get(row.id, 0) < row.indexed_version]


@dataclass(frozen=True, slots=True)
class Sweep:
    """Deletes points that have no row; one page at a time."""

    store: IndexStore
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
        with self.store.indexing(tenant) as rows:
            found = unequal(mine, rows.point_rows([point.id for point in mine]))
        gone = [*found.orphans, *self._of_unknown_tenants(page.points)] if whole else list(found.orphans)
        self.index.delete(gone)
        raised = 0
        with self.store.indexing(tenant) as rows:
            if overtake:
                raised = rows.overtake(found.ahead)
            # A row that was added while its point was deleted as an orphan needs the point back.
            rows.renew_points([key.id for key in found.orphans])
        after = dict(progress) | {
            "cursor": page.cursor or "",
            "points": int(progress.get("points", 0)) + len(page.points),
            "deleted": int(progress.get("deleted", 0)) + len(gone),
            "overtaken": int(progress.get("overtaken", 0)) + raised,
        }
        return after, page.cursor is None

    def _of_unknown_tenants(self, points: Sequence[ScannedPoint]) -> list[PointKey]:
        """Points of tenants that the database does not know. Read after the page: a tenant comes before its points."""
        known = set(self.collections.tenants())
        return [point.key for point in points if point.tenant not in known]


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
        with self.store.indexing(tenant) as rows:
            page = rows.written_rows(after, PAGE)
        if not page:
            return None
        # Of an index that is set aside all is missing; the next check of generations finds it without a mark.
        differing(self.store, self.index, tenant, page)
        found = self.index.versions([row.key(tenant) for row in page])
        missing = missing_points(page, found)
        with self.store.indexing(tenant) as rows:
            marked = rows.mark_missing(missing, found)
        return dict(progress) | {
            "after": str(page[-1].id),
            "rows": int(progress.get("rows", 0)) + len(page),
            "missing": int(progress.get("missing", 0)) + marked,
        }
