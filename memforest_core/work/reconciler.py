"""The reconciler: frees lost leases, closes open cells past their time, wakes workers for work without a wake-up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from memforest_core.domain.ids import TenantId
from memforest_core.store.repeating import repeated
from memforest_core.work.jobs import LeaseLimits, WorkKind
from memforest_core.work.messages import Queue, WakeUps
from memforest_core.work.rows.job_rows import JobRows, JobStore
from memforest_core.work.rows.operation_rows import OperationRows

REDO_LIMIT = 100
REOPEN_LIMIT = 1_000
"""Windows reopened per tenant and round."""
WAKEUPS_PER_ROUND = 8
"""Messages sent per tenant and queue in one round: woken workers find the rest themselves."""

_QUEUES = {
    WorkKind.EXTRACT: Queue.EXTRACT,
    WorkKind.REDUCE: Queue.REDUCE,
    WorkKind.REFRESH: Queue.REFRESH,
    WorkKind.MAINTAIN: Queue.MAINTAIN,
}


@dataclass(frozen=True, slots=True)
class Round:
    """What one round of reconciliation did. ``mine`` is False when another worker had the round."""

    mine: bool
    freed: int = 0
    released: int = 0
    redone: int = 0
    reopened: int = 0
    woken: int = 0
    broker_unavailable: bool = False
    """There is work, but no wake-up could be sent."""


@dataclass(frozen=True, slots=True)
class Reconciler:
    """Runs in every worker process; a lock in the database lets one at a time do a round."""

    _jobs: JobStore
    _redo: Callable[[TenantId, int], int]
    """Marks at most so many of a tenant's degraded summaries dirty again; returns how many."""
    _wakeups: WakeUps
    _limits: LeaseLimits

    def run(self) -> Round:
        """One round, unless another worker does one now. Raises StoreUnavailable."""
        with self._jobs.reconciling() as mine:
            if not mine:
                return Round(mine=False)
            freed = released = redone = reopened = 0
            for tenant in self._jobs.lost(self._limits):
                freed += self._upkeep(tenant, lambda rows: rows.free_lost(self._limits))
                self._upkeep(tenant, lambda rows: rows.as_rows(OperationRows).release_sources())
            for tenant in self._jobs.waiting(WorkKind.HELD):
                released += self._upkeep(tenant, JobRows.release_held)
            for tenant in self._jobs.waiting(WorkKind.REDO):
                redone += self._redo(tenant, REDO_LIMIT)
            for tenant in self._jobs.waiting(WorkKind.REOPEN):
                reopened += self._upkeep(tenant, lambda rows: rows.reopen_verbatim(REOPEN_LIMIT))
            # Longer than the lease limit, so that a worker that was only slow can still come back.
            self._jobs.delete_dead(10 * self._limits.dead_after_s)
            woken, broker_unavailable = self.wake(*_QUEUES)
            return Round(True, freed, released, redone, reopened, woken, broker_unavailable)

    @repeated
    def _upkeep(self, tenant: TenantId, step: Callable[[JobRows], int]) -> int:
        with self._jobs.upkeep(tenant) as rows:
            return step(rows)

    def wake(self, *kinds: WorkKind) -> tuple[int, bool]:
        """Send wake-ups for tenants with claimable work of these kinds; how many, and whether there was work for which
        none could be sent. Raises StoreUnavailable."""
        sent = 0
        for kind in kinds:
            for tenant in self._jobs.next_waiting(kind, WAKEUPS_PER_ROUND):
                if not self._wakeups.send(_QUEUES[kind], tenant, "reconciler"):
                    return sent, True
                sent += 1
        return sent, False
