"""Checks one forest after the other, each in one snapshot; on request it repairs what is derived and checks again."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.errors import IndexUnavailable
from memforest_core.index.rows import IndexStore
from memforest_core.index.vector_index import VectorIndex
from memforest_core.lifecycle.verify.point_checks import PointsCheck, Stray
from memforest_core.lifecycle.verify.records import Check, CheckResult, Found, Report, can_be_repaired
from memforest_core.lifecycle.verify.rows.snapshots import VerifyStore
from memforest_core.settings import Settings
from memforest_core.store.engine import Engine
from memforest_core.store.owners import known
from memforest_core.store.repeating import repeated

FORESTS_AT_ONCE = 20
"""Forests that share a snapshot: small ones are many, and a long snapshot stops Postgres from cleaning up."""

PER_ROUND = 2_000
"""Violations of a check that are repaired in one round; the rest is found in the next."""

REPAIR_BATCH = 500
FRUITLESS_ROUNDS = 3
"""Rounds of repair after which no fewer violations are left: one repair may uncover the next, but not for ever."""

DELETIONS_S = 20.0
POLL_S = 0.2

UNAVAILABLE = "the index is unavailable"
_NO_MEMORY = "There is no memory of {!r:.80}: nothing was ever enqueued for this owner."

_OF_INDEX = (Check.INDEX_POINTS, Check.ORPHAN_POINTS)
_OF_TENANTS = (Check.TASKS, Check.FORESTS)
_OF_FORESTS = tuple(check for check in Check if check not in (*_OF_INDEX, *_OF_TENANTS))


@dataclass(frozen=True, slots=True)
class Verification:
    """Checks what tenants have stored. Safe to run while everything else does."""

    store: VerifyStore
    rows: IndexStore
    index: VectorIndex
    budget_chars: int
    """The length of a summary."""
    tenant: TenantId
    """Checked where none is named."""
    deep: bool = False
    """Whether the contents of all points are compared, not only of some."""

    @property
    def _points(self) -> PointsCheck:
        return PointsCheck(self.rows, self.index, self.deep)

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
        for tenant in self.store.tenants():
            self._run(report, tenant, None, repair)
        return report

    def _run(self, report: Report, tenant: TenantId, owner: str | None, repair: bool) -> None:
        only: ForestId | None = None
        if owner is not None:
            with self.rows.indexing(tenant) as rows:
                only = known(rows.find_forest(owner), owner, _NO_MEMORY)
        for forests in [[only]] if only is not None else self._groups(tenant):
            report.forests += len(forests)
            self._checks(report, tenant, forests, _OF_FORESTS, repair)
            with self.store.snapshot(tenant, forests) as snapshot:
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
        while forests := self.store.forests(tenant, after, FORESTS_AT_ONCE):
            yield forests
            after = forests[-1]

    def _checks(
        self, report: Report, tenant: TenantId, forests: Sequence[ForestId], checks: Sequence[Check], repair: bool
    ) -> None:
        seen = self._check_once(tenant, forests, checks)
        fruitless = 0
        while repair and fruitless < FRUITLESS_ROUNDS and (todo := _repairable(seen)):
            before = sum(result.violations for result in seen.values())
            for check, found in todo.items():
                report.results[check].repaired += self._repair(tenant, check, found)
            if Check.TURNS in todo:
                self._await_deletions(tenant)
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
        with self.store.snapshot(tenant, forests) as rows:
            for check in checks:
                result = seen[check] = CheckResult(check, rows.checked(check))
                stale = check is Check.SUMMARIES
                for found in rows.stale_summaries(self.budget_chars) if stale else rows.violations(check):
                    result.kinds[found.what] += 1
                    if len(result.examples) < PER_ROUND:
                        result.examples.append(found)
        return seen

    def _repair(self, tenant: TenantId, check: Check, found: Sequence[Found]) -> int:
        starts = range(0, len(found), REPAIR_BATCH)
        return sum(self._repair_batch(tenant, check, found[start : start + REPAIR_BATCH]) for start in starts)

    def _await_deletions(self, tenant: TenantId) -> None:
        """Give workers time to complete the deletions that were requested; without workers they stay violations."""
        until = time.monotonic() + DELETIONS_S
        while self.store.completing(tenant) and time.monotonic() < until:
            time.sleep(POLL_S)

    @repeated
    def _repair_batch(self, tenant: TenantId, check: Check, found: Sequence[Found]) -> int:
        with self.store.repairing(tenant) as rows:
            return rows.repair(check, found)

    def _index(self, report: Report, tenant: TenantId, forest: ForestId | None, check: Check, repair: bool) -> None:
        """Repair while checking: what was repaired is not counted as a violation, and is not re-checked."""
        result = report.results[check]
        for checked, found in self._pages(tenant, forest, check):
            result.checked += checked
            if repair and found:
                missing = check is Check.INDEX_POINTS
                repair_points = self._points.mark_missing if missing else self._points.remove_strays
                result.repaired += repair_points(tenant, found)
            else:
                result.add_violations(Counter(each.what for each in found), found)

    def _pages(self, tenant: TenantId, forest: ForestId | None, check: Check) -> Iterator[tuple[int, list[Stray]]]:
        if check is Check.INDEX_POINTS:
            return self._points.missing(tenant, forest)
        # Points are scanned by tenant: for one forest that is only worth it when it has more points than rows.
        if forest is not None and not self._points.surplus(tenant, forest):
            return iter(())
        return self._points.strays(tenant)


def _repairable(seen: Mapping[Check, CheckResult]) -> dict[Check, list[Found]]:
    chosen = {check: [each for each in found.examples if can_be_repaired(check, each)] for check, found in seen.items()}
    return {check: found for check, found in chosen.items() if found}


def open_verification(engine: Engine, index: VectorIndex, settings: Settings, *, deep: bool = False) -> Verification:
    """Verification over a connection pool and an index, which stay the caller's to close."""
    store, rows, tenant = VerifyStore(engine), IndexStore(engine), TenantId(settings.tenant)
    return Verification(store, rows, index, settings.refresh.budget_chars, tenant, deep=deep)
