"""Quotas: how much of a tenant's work may wait, and how many turns may be stored in a day."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import TypeVar

from memforest_core.domain.ids import TenantId
from memforest_core.errors import QuotaExceeded
from memforest_core.ingest.accept.records import Quota, TenantLimits
from memforest_core.ingest.accept.rows import AcceptRows
from memforest_core.settings import AcceptSettings
from memforest_core.work.jobs import Lane
from memforest_core.work.waiting import Steps

DEPTH_S = 1.0
"""How many seconds counts are used."""
NEAR = 0.9
"""Above this share of a limit no earlier count is used: each call counts."""
BACKFILL_SHARE = 0.8
"""What a bulk import may take of the queue: the rest is for live sessions."""
DAY_S = 86_400.0
RETRY_S = (5.0, 15.0)
"""Seconds until a retry while the queue is full, at random between these: not all clients come back together."""
LONGEST_DAY_RETRY_S = 3_600.0
MAX_TENANTS = 10_000
"""Tenants whose counts are cached; with more, all counts are dropped and made again."""

Result = TypeVar("Result")


@dataclass(slots=True)
class _Used:
    """A tenant's waiting cells and turns of the day, with those that this process has added since they were counted."""

    limits: TenantLimits
    at: float
    waiting: int
    turns: int
    oldest_s: float


@dataclass(slots=True)
class Quotas:
    """Counts per tenant, each used for a moment. Limits are soft: processes do not see what others accept within
    that time, and a session that begins under a limit is stored whole."""

    settings: AcceptSettings
    clock: Callable[[], float]
    """Monotonic seconds."""
    _used: dict[TenantId, _Used] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def check(self, rows: AcceptRows, tenant: TenantId, lane: Lane) -> None:
        """Raise QuotaExceeded if the tenant may not store anything new in this lane now."""
        share, whom = (1.0, "") if lane is Lane.LIVE else (BACKFILL_SHARE, " for a backfill")
        used = self._counted(rows, tenant, share)
        most, per_day = self._limits(used.limits)
        allowed = int(share * most) or 1
        if used.waiting >= allowed:
            wait = random.uniform(*RETRY_S)  # noqa: S311 - jitter, no secret
            raise QuotaExceeded(
                f"About {used.waiting} cells of the tenant wait for extraction and {allowed} may{whom}: send it again"
                f" in {wait:.0f} s.",
                retry_after=wait,
            )
        if per_day is not None and used.turns >= per_day:
            wait = min(max(DAY_S - used.oldest_s, 1.0), LONGEST_DAY_RETRY_S)
            raise QuotaExceeded(
                f"The tenant stored {used.turns} turns within 24 hours and may store {per_day}: send it again in"
                f" {wait:.0f} s.",
                retry_after=wait,
            )

    def note(self, tenant: TenantId, cells: int, turns: int) -> None:
        """Count what was just accepted here."""
        with self._lock:
            used = self._used.get(tenant)
            if used is not None:
                used.waiting += cells
                used.turns += turns

    def forget(self, tenant: TenantId) -> None:
        """Count again at the next call: the limits have changed."""
        with self._lock:
            self._used.pop(tenant, None)

    def quota(self, rows: AcceptRows) -> Quota:
        """The limits in force and what is used of them, counted now."""
        own = rows.limits()
        most, per_day = self._limits(own)
        return Quota(own, most, per_day, rows.waiting_cells(most + 1), rows.stored_turns(DAY_S)[0])

    def _limits(self, own: TenantLimits) -> tuple[int, int | None]:
        most = own.max_waiting_cells or self.settings.max_waiting_cells
        return most, own.max_turns_per_day or self.settings.max_turns_per_day

    def _counted(self, rows: AcceptRows, tenant: TenantId, share: float) -> _Used:
        with self._lock:
            known, now = self._used.get(tenant), self.clock()
        if known is not None and now - known.at < DEPTH_S:
            most, per_day = self._limits(known.limits)
            if known.waiting <= NEAR * share * most and (per_day is None or known.turns <= NEAR * per_day):
                return known
        limits = rows.limits()
        most, per_day = self._limits(limits)
        turns = (0, 0.0) if per_day is None else rows.stored_turns(DAY_S)
        fresh = _Used(limits, now, rows.waiting_cells(most + 1), *turns)
        with self._lock:
            if len(self._used) >= MAX_TENANTS:
                self._used.clear()
            self._used[tenant] = fresh
        return fresh


def when_there_is_room(attempt: Callable[[], Result], timeout_s: float, clock: Callable[[], float]) -> Steps[Result]:
    """What ``attempt`` returns, tried again as long as a quota refuses it; after ``timeout_s`` raises QuotaExceeded."""
    deadline = clock() + timeout_s
    while True:
        try:
            return attempt()
        except QuotaExceeded as refused:
            left = deadline - clock()
            if left <= 0:
                raise
            wait_s = min(refused.retry_after, left)
        yield wait_s
