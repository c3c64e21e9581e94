"""Quotas: how much of a tenant's work may wait, and how many turns may be stored in a day."""

from __future__ import annotations

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
"""How many seconds a count of waiting cells is used."""
TURNS_S = 5.0
"""How many seconds a count of the day's turns is used."""
NEAR = 0.9
"""Above this share of a limit no earlier count is used: each call counts."""
BACKFILL_SHARE = 0.8
"""What a bulk import may take of the queue: the rest is for live sessions."""
DAY_S = 86_400.0
RETRY_S = 5.0
"""Seconds until a retry while the drain rate of the queue is not known."""
LONGEST_RETRY_S = 300.0
LONGEST_DAY_RETRY_S = 3_600.0
DRAIN_S = 1.0
"""A drain rate is measured over at least this long..."""
DRAIN_MEMORY_S = 30.0
"""...and at most about this long."""
MAX_TENANTS = 10_000
"""Tenants whose counts are cached; with more, all counts are dropped and made again."""

Result = TypeVar("Result")


@dataclass(slots=True)
class _Depth:
    """Cells that wait, with those that this process has added since they were counted."""

    waiting: int
    at: float
    limits: TenantLimits
    since: float
    """When the measurement of the drain began, with..."""
    then: int | None
    """...so many cells waiting (None: not counted to the end), and..."""
    added: int = 0
    """...so many added here since."""

    def drained_per_s(self) -> float | None:
        """How many cells a second left the queue, as far as this process knows."""
        if self.then is None or self.at - self.since < DRAIN_S:
            return None
        rate = (self.then + self.added - self.waiting) / (self.at - self.since)
        return rate if rate > 0 else None


@dataclass(slots=True)
class _Day:
    """Turns stored within a day, with those that this process has added since they were counted."""

    turns: int
    oldest_s: float
    at: float


@dataclass(slots=True)
class Quotas:
    """Counts per tenant, each used for a few seconds. Limits are soft: processes do not see what others accept within
    that time, and a session that begins under a limit is stored whole."""

    settings: AcceptSettings
    clock: Callable[[], float]
    """Monotonic seconds."""
    _depths: dict[TenantId, _Depth] = field(default_factory=dict)
    _days: dict[TenantId, _Day] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def check(self, rows: AcceptRows, tenant: TenantId, lane: Lane) -> None:
        """Raise QuotaExceeded if the tenant may not store anything new in this lane now."""
        now = self.clock()
        share = 1.0 if lane is Lane.LIVE else BACKFILL_SHARE
        depth = self._depth(rows, tenant, share, now)
        self._check_depth(depth, lane, share)
        per_day = depth.limits.max_turns_per_day or self.settings.max_turns_per_day
        if per_day is not None:
            self._check_day(self._day(rows, tenant, per_day, now), per_day)

    def note(self, tenant: TenantId, cells: int, turns: int) -> None:
        """Count what was just accepted here."""
        with self._lock:
            depth, day = self._depths.get(tenant), self._days.get(tenant)
            if depth is not None:
                depth.waiting += cells
                depth.added += cells
            if day is not None:
                day.turns += turns

    def forget(self, tenant: TenantId) -> None:
        """Count again at the next call: the limits have changed."""
        with self._lock:
            self._depths.pop(tenant, None)
            self._days.pop(tenant, None)

    def quota(self, rows: AcceptRows) -> Quota:
        """The limits in force and what is used of them, counted now."""
        own = rows.limits()
        most, per_day = self._most(own), own.max_turns_per_day or self.settings.max_turns_per_day
        return Quota(own, most, per_day, rows.waiting_cells(most + 1)[0], rows.stored_turns(DAY_S)[0])

    def _most(self, limits: TenantLimits) -> int:
        return limits.max_waiting_cells or self.settings.max_waiting_cells

    def _depth(self, rows: AcceptRows, tenant: TenantId, share: float, now: float) -> _Depth:
        with self._lock:
            known = self._depths.get(tenant)
        if known is not None and now - known.at < DEPTH_S and known.waiting <= NEAR * share * self._most(known.limits):
            return known
        limits = rows.limits()
        waiting, complete = rows.waiting_cells(self._most(limits) + 1)
        counted = waiting if complete else None
        fresh = _Depth(waiting, now, limits, now, counted)
        with self._lock:
            measuring = known is not None and now - known.since < DRAIN_MEMORY_S
            if known is not None and measuring and known.then is not None and counted is not None:
                fresh.since, fresh.then, fresh.added = known.since, known.then, known.added
            if len(self._depths) >= MAX_TENANTS:
                self._depths.clear()
            self._depths[tenant] = fresh
        return fresh

    def _check_depth(self, depth: _Depth, lane: Lane, share: float) -> None:
        allowed = int(share * self._most(depth.limits)) or 1
        if depth.waiting < allowed:
            return
        rate = depth.drained_per_s()
        wait = RETRY_S if rate is None else (depth.waiting - allowed + 1) / rate
        wait = min(max(wait, 1.0), LONGEST_RETRY_S)
        whom = "" if lane is Lane.LIVE else " for a backfill"
        raise QuotaExceeded(
            f"About {depth.waiting} cells of the tenant wait for extraction and {allowed} may{whom}: send it again in"
            f" {wait:.0f} s.",
            retry_after=wait,
        )

    def _day(self, rows: AcceptRows, tenant: TenantId, per_day: int, now: float) -> _Day:
        with self._lock:
            known = self._days.get(tenant)
        if known is not None and now - known.at < TURNS_S and known.turns <= NEAR * per_day:
            return known
        fresh = _Day(*rows.stored_turns(DAY_S), now)
        with self._lock:
            if len(self._days) >= MAX_TENANTS:
                self._days.clear()
            self._days[tenant] = fresh
        return fresh

    @staticmethod
    def _check_day(day: _Day, per_day: int) -> None:
        if day.turns < per_day:
            return
        wait = min(max(DAY_S - day.oldest_s, 1.0), LONGEST_DAY_RETRY_S)
        raise QuotaExceeded(
            f"The tenant stored {day.turns} turns within 24 hours and may store {per_day}: send it again in"
            f" {wait:.0f} s.",
            retry_after=wait,
        )


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
