"""Compares index rows and points, page by page, while both change: what seems wrong is checked a second time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.index.rebuild import differing, missing_points
from memforest_core.index.records import PointRow
from memforest_core.index.rows import IndexStore
from memforest_core.index.vector_index import PointKey, ScannedPoint, VectorIndex
from memforest_core.lifecycle.verify.records import Found
from memforest_core.store.repeating import repeated

PAGE = 500
"""Rows or points compared at once."""

DIFFERS = "differs"


@dataclass(frozen=True, slots=True)
class Stray(Found):
    """A row whose point is missing or old, or a point without a row; ``key`` names the point."""

    key: PointKey


@dataclass(frozen=True, slots=True)
class PointsCheck:
    """Compares index rows with the index. Nothing locks both, so every finding is confirmed by a second check."""

    rows: IndexStore
    index: VectorIndex
    deep: bool
    """Whether the contents of all points are compared, not only of a sample of each page."""

    def missing(self, tenant: TenantId, forest: ForestId | None) -> Iterator[tuple[int, list[Stray]]]:
        """Rows whose point is missing or old, and those compared whose point has other contents: per page how many rows
        were checked, and those.

        Raises StoreUnavailable, IndexUnavailable.
        """
        after: UUID | None = None
        while True:
            with self.rows.indexing(tenant) as rows:
                page = rows.written_rows(after, PAGE, forest)
            if not page:
                return
            after = page[-1].id
            differ = differing(self.rows, self.index, tenant, page, self.deep)
            yield len(page), self._missing(tenant, page) + [Stray(row.id, DIFFERS, row.key(tenant)) for row in differ]

    def _missing(self, tenant: TenantId, page: Sequence[PointRow]) -> list[Stray]:
        first = missing_points(page, self.index.versions([row.key(tenant) for row in page]))
        if not first:
            return []
        # A row that changed meanwhile is marked as behind itself, and its point may be gone already.
        now = self._row(tenant, [row.id for row in first])
        unchanged = [row for row in first if now.get(row.id) == row]
        found = self.index.versions([row.key(tenant) for row in unchanged])
        return [
            Stray(row.id, "older" if row.id in found else "missing", row.key(tenant))
            for row in missing_points(unchanged, found)
        ]

    def strays(self, tenant: TenantId) -> Iterator[tuple[int, list[Stray]]]:
        """Points of a tenant without a row, or newer than their row ever was: per page how many, and those.

        Raises StoreUnavailable, IndexUnavailable.
        """
        cursor: str | None = None
        while True:
            page = self.index.scan(cursor, PAGE, tenant)
            yield len(page.points), self._strays(tenant, page.points)
            cursor = page.cursor
            if cursor is None:
                return

    def _strays(self, tenant: TenantId, points: Sequence[ScannedPoint]) -> list[Stray]:
        # Read after the points: a row is added before its point, and gets a new version before its point does.
        suspects = self._odd(tenant, {point.key: point.version for point in points})
        if not suspects:
            return []
        # A point is deleted before its row: a point that is still there has lost its row for another reason.
        return self._odd(tenant, self._still([stray.key for stray in suspects]))

    def _still(self, keys: Sequence[PointKey]) -> dict[PointKey, int]:
        versions = self.index.versions(keys)
        return {key: versions[key.id] for key in keys if key.id in versions}

    def _odd(self, tenant: TenantId, versions: Mapping[PointKey, int]) -> list[Stray]:
        rows = self._row(tenant, [key.id for key in versions])
        strays: list[Stray] = []
        for key, version in versions.items():
            row = rows.get(key.id)
            if row is None or row.forest_id != key.forest_id:
                strays.append(Stray(key.id, "no_row", key))
            elif row.cold and row.indexed_version == row.version:
                strays.append(Stray(key.id, "cold", key))
            elif version > row.version and not row.deleted:
                strays.append(Stray(key.id, "ahead", key))
        return strays

    def surplus(self, tenant: TenantId, forest: ForestId) -> bool:
        """Whether a forest has more points than its rows account for: some of them are strays."""
        points = self.index.count(tenant, forest)
        after: UUID | None = None
        while True:
            with self.rows.indexing(tenant) as rows:
                page = rows.point_ids(after, PAGE, forest)
            if not page:
                return points > 0
            after = page[-1]
            points -= len(self.index.versions([PointKey(tenant, forest, id_) for id_ in page]))

    def mark_missing(self, tenant: TenantId, found: Sequence[Stray]) -> int:
        """Mark rows as behind, so that the indexer writes their points; how many."""
        now = self._row(tenant, [each.id for each in found])
        versions = self.index.versions([row.key(tenant) for row in now.values()])
        missing = missing_points([row for row in now.values() if not row.deleted and not row.cold], versions)
        with self.rows.indexing(tenant) as rows:
            renewed = rows.renew_points([each.id for each in found if each.what == DIFFERS])
            return renewed + rows.mark_missing(missing, versions)

    def remove_strays(self, tenant: TenantId, found: Sequence[Stray]) -> int:
        """Delete points without a row, and raise rows above points that are ahead; how many."""
        versions = self._still([each.key for each in found])
        odd = self._odd(tenant, versions)
        orphans = [each.key for each in odd if each.what in ("no_row", "cold")]
        self.index.delete(orphans)
        ahead = {each.id: versions[each.key] for each in odd if each.what == "ahead"}
        return len(orphans) + self._raised(tenant, [key.id for key in orphans], ahead)

    @repeated
    def _raised(self, tenant: TenantId, orphans: Sequence[UUID], ahead: Mapping[UUID, int]) -> int:
        with self.rows.indexing(tenant) as rows:
            # A row that was added while its point was deleted as an orphan needs the point back.
            rows.renew_points(orphans)
            return rows.overtake(ahead)

    def _row(self, tenant: TenantId, ids: Sequence[UUID]) -> dict[UUID, PointRow]:
        if not ids:
            return {}
        with self.rows.indexing(tenant) as rows:
            return rows.point_rows(ids)
