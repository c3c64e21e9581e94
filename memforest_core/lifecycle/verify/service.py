"""Checks one forest after the other, each in one snapshot, and its points; on request it repairs and checks again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.errors import IndexUnavailable
from memforest_core.index.collection_rows import CollectionStore
from memforest_core.index.rebuild import differing, missing_points
from memforest_core.index.records import PointRow
from memforest_core.index.rows import IndexRows, OpenIndexRows
from memforest_core.index.vector_index import PointKey, ScannedPoint, VectorIndex
from memforest_core.lifecycle.verify.records import Check, CheckResult, Found, Report, can_be_repaired
from memforest_core.lifecycle.verify.rows.snapshots import RepairRows, SnapshotRows, next_forests
from memforest_core.settings import Settings
from memforest_core.store.engine import Engine
from memforest_core.store.owners import ForestRows, known
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

    open_rows: OpenIndexRows
    index: VectorIndex
    deep: bool
    """Whether the contents of all points are compared, not only of a sample of each page."""

    def missing(self, tenant: TenantId, forest: ForestId | None) -> Iterator[tuple[int, list[Stray]]]:
        """Rows whose point is missing, old, or (where compared) another: how many rows of each page, and those."""
        after: UUID | None = None
        while True:
            with self.open_rows(tenant) as rows:
                page = rows.written_rows(after, PAGE, forest)
            if not page:
                return
            after = page[-1].id
            differ = differing(self.open_rows, self.index, tenant, page, self.deep)
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
        """A tenant's points without a row, or newer than their row ever was: how many of each page, and those."""
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
            with self.open_rows(tenant) as rows:
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
        with self.open_rows(tenant) as rows:
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
        with self.open_rows(tenant) as rows:
            # A row that was added while its point was deleted as an orphan needs the point back.
            rows.renew_points(orphans)
            return rows.overtake(ahead)

    def _row(self, tenant: TenantId, ids: Sequence[UUID]) -> dict[UUID, PointRow]:
        if not ids:
            return {}
        with self.open_rows(tenant) as rows:
            return rows.point_rows(ids)


FORESTS_AT_ONCE = 20
"""Forests that share a snapshot: small ones are many, and a long snapshot stops Postgres from cleaning up."""

PER_ROUND = 2_000
"""Violations of a check that are repaired in one round; the rest is found in the next."""

REPAIR_BATCH = 500
FRUITLESS_ROUNDS = 3
"""Rounds of repair after which no fewer violations are left: one repair may uncover the next, but not for ever."""

UNAVAILABLE = "the index is unavailable"
_NO_MEMORY = "There is no memory of {!r:.80}: nothing was ever enqueued for this owner."

_OF_INDEX = (Check.INDEX_POINTS, Check.ORPHAN_POINTS)
_OF_TENANTS = (Check.TASKS, Check.FORESTS)
_OF_FORESTS = tuple(check for check in Check if check not in (*_OF_INDEX, *_OF_TENANTS))


@dataclass(frozen=True, slots=True)
class Verification:
    """Checks what tenants have stored. Safe to run while everything else does."""

    engine: Engine
    index: VectorIndex
    budget_chars: int
    """The length of a summary."""
    tenant: TenantId
    """Checked where none is named."""
    deep: bool = False
    """Whether the contents of all points are compared, not only of some."""

    def run(self, tenant: TenantId | None = None, owner: str | None = None, repair: bool = False) -> Report:
        """Check all forests of a tenant, or one owner's. Raises NotFound, StoreUnavailable.

        With ``repair`` the violations reported are those that are left. An index that is unavailable is no error: its
        checks say so.
        """
        report = Report()
        self._run(report, tenant or self.tenant, owner, repair)
        return report

    def run_all(self, repair: bool = False) -> Report:
        """Check all tenants, one after the other. Raises StoreUnavailable."""
        report = Report()
        for tenant in CollectionStore(self.engine).tenants():
            self._run(report, tenant, None, repair)
        return report

    def _run(self, report: Report, tenant: TenantId, owner: str | None, repair: bool) -> None:
        only: ForestId | None = None
        if owner is not None:
            with ForestRows.opened(self.engine, tenant) as rows:
                only = known(rows.find_forest(owner), owner, _NO_MEMORY).id
        for forests in [[only]] if only is not None else self._groups(tenant):
            report.forests += len(forests)
            self._checks(report, tenant, forests, _OF_FORESTS, repair)
            with SnapshotRows.opened(self.engine, tenant, forests) as snapshot:
                report.dead.update(snapshot.dead())
        if only is None:
            self._checks(report, tenant, (), _OF_TENANTS, repair)
        for check in _OF_INDEX:
            try:
                self._index(report, tenant, only, check, repair)
            except IndexUnavailable:
                report.results[check].not_checked = UNAVAILABLE

    def _groups(self, tenant: TenantId) -> Iterator[Sequence[ForestId]]:
        after: ForestId | None = None
        while forests := next_forests(self.engine, tenant, after, FORESTS_AT_ONCE):
            yield forests
            after = forests[-1]

    def _checks(
        self, report: Report, tenant: TenantId, forests: Sequence[ForestId], checks: Sequence[Check], repair: bool
    ) -> None:
        seen = self._check_once(tenant, forests, checks)
        fruitless = 0
        while repair and fruitless < FRUITLESS_ROUNDS:
            todo = {
                check: [each for each in result.examples if can_be_repaired(check, each)]
                for check, result in seen.items()
            }
            if not any(todo.values()):
                break
            before = sum(result.violations for result in seen.values())
            for check, found in todo.items():
                for start in range(0, len(found), REPAIR_BATCH):
                    report.results[check].repaired += self._repair(tenant, check, found[start : start + REPAIR_BATCH])
            seen = self._check_once(tenant, forests, checks)
            fewer = sum(result.violations for result in seen.values()) < before
            fruitless = 0 if fewer else fruitless + 1
        for check, result in seen.items():
            report.results[check].checked += result.checked
            report.results[check].add_violations(result.kinds, result.examples)

    def _check_once(
        self, tenant: TenantId, forests: Sequence[ForestId], checks: Sequence[Check]
    ) -> dict[Check, CheckResult]:
        """One result for each check, with at most ``PER_ROUND`` examples."""
        seen: dict[Check, CheckResult] = {}
        with SnapshotRows.opened(self.engine, tenant, forests) as rows:
            for check in checks:
                result = seen[check] = CheckResult(check, rows.checked(check))
                stale = check is Check.SUMMARIES
                for found in rows.stale_summaries(self.budget_chars) if stale else rows.violations(check):
                    result.kinds[found.what] += 1
                    if len(result.examples) < PER_ROUND:
                        result.examples.append(found)
        return seen

    @repeated
    def _repair(self, tenant: TenantId, check: Check, found: Sequence[Found]) -> int:
        with RepairRows.opened(self.engine, tenant) as rows:
            return rows.repair(check, found)

    def _index(self, report: Report, tenant: TenantId, forest: ForestId | None, check: Check, repair: bool) -> None:
        """Repair while checking: what was repaired is not counted as a violation, and is not re-checked."""
        points = PointsCheck(partial(IndexRows.opened, self.engine), self.index, self.deep)
        result = report.results[check]
        pages, repair_points = points.missing(tenant, forest), points.mark_missing
        if check is Check.ORPHAN_POINTS:
            # Points are scanned by tenant: for one forest that is only worth it when it has more points than rows.
            scanned = forest is None or points.surplus(tenant, forest)
            pages, repair_points = points.strays(tenant) if scanned else iter(()), points.remove_strays
        for checked, found in pages:
            result.checked += checked
            if repair and found:
                result.repaired += repair_points(tenant, found)
            else:
                result.add_violations(Counter(each.what for each in found), found)


def open_verification(engine: Engine, index: VectorIndex, settings: Settings, *, deep: bool = False) -> Verification:
    """Verification over a connection pool and an index, which stay the caller's to close."""
    return Verification(engine, index, settings.refresh.budget_chars, TenantId(settings.tenant), deep=deep)
