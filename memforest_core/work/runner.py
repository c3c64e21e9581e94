"""Runs maintenance tasks step by step; another worker can continue after the last step whose progress was stored."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from memforest_core.domain.ids import LeaseToken, TenantId, WorkerId
from memforest_core.errors import CallerError, MemForestError, StoreUnavailable
from memforest_core.store.repeating import repeated
from memforest_core.work.jobs import CRASHED, Verdict, WorkState, decide
from memforest_core.work.records import CANCELLED, AuditEntry, Numbers, OperationTask
from memforest_core.work.rows.operation_rows import ClaimedTask, OpenTasks, OperationRows
from memforest_core.work.telemetry import SILENT, Telemetry

STEP = "maintain"
LEASE_S = 600.0
"""Renewed with each step. Most take a second or two, the switch at the end of a merge as long as its rows need. A lease
ends with its worker's heartbeat too, so a crash costs seconds."""
SHORTEST_WAIT_S = 2.0
"""Before a task that met an unavailable store is tried again: its attempts don't grow, so its back-off does not."""
MAX_ATTEMPTS = 5

Handler = Callable[[TenantId, OperationTask, Numbers], Numbers | None]
"""One step of a task from its last stored progress: the progress after it, or None when the task is done.

A step commits what it does and can be repeated: the progress is stored after it, in a transaction of its own.
"""


def outcome_of(task: OperationTask, outcome: str) -> AuditEntry:
    """The audit's entry on how a task ended: its last progress."""
    return AuditEntry(task.actor, task.kind, outcome, task.forest_id, task_id=task.id, detail=task.progress)


class OperationRunner:
    """Claims tasks and takes their steps. Thread-safe."""

    def __init__(
        self,
        open_tasks: OpenTasks,
        handlers: Mapping[str, Handler],
        budget_s: float,
        rng: random.Random,
        telemetry: Telemetry = SILENT,
        clock: Callable[[], float] = time.monotonic,
        undo: Mapping[str, Handler] | None = None,
    ) -> None:
        """``budget_s``: after so many seconds a task is given back between two steps, so that others have a turn.

        ``undo`` takes the steps of tasks that were cancelled.
        """
        self._open_tasks = open_tasks
        self._undo = dict(undo or {})
        self._handlers = dict(handlers)
        self._budget_s = budget_s
        self._rng = rng
        self._telemetry = telemetry
        self._clock = clock

    def run_one(self, tenant: TenantId, worker: WorkerId) -> bool:
        """Work on the tenant's next task, to its end or for the budget; whether there was one. Raises StoreUnavailable
        only."""
        with self._open_tasks(tenant) as rows:
            claim = rows.claim(tuple(self._handlers), worker, LEASE_S)
        if claim is None:
            return False
        started, outcome = self._clock(), CRASHED
        try:
            outcome = self._steps(tenant, claim)
        except MemForestError as error:
            outcome = error.code
            # If the store is unavailable for this too, the lease ends by itself, with the worker or its deadline.
            self._settle(tenant, claim, error)
            if isinstance(error, StoreUnavailable):
                raise
        finally:
            if outcome == CRASHED:
                self._settle(tenant, claim, MemForestError("It crashed; see the worker's log.", code=CRASHED))
            self._telemetry.worked(STEP, tenant, self._clock() - started, outcome)
        return True

    def _steps(self, tenant: TenantId, claim: ClaimedTask) -> str:
        token, task = claim
        deadline = self._clock() + self._budget_s
        progress: Numbers | None = task.progress
        while progress is not None:
            # Somebody may cancel it between two steps.
            steps = self._handlers if task.cancelled_by is None else self._undo
            progress = repeated(steps[task.kind])(tenant, task, progress)
            stored = self._stored(tenant, token, task, progress, self._clock() >= deadline)
            if isinstance(stored, str):
                return stored
            task = stored
        return "done"

    @repeated
    def _stored(
        self, tenant: TenantId, token: LeaseToken, task: OperationTask, progress: Numbers | None, late: bool
    ) -> str | OperationTask:
        """Store what a step came to; how the work on the task ended, or the task as it is now, to go on."""
        with self._open_tasks(tenant) as rows:
            if progress is None:
                return self._finish(rows, token, task)
            if not rows.store_progress(token, progress, LEASE_S):
                return "lost"
            if late:
                rows.hand_back(token)
                return "budget"
            return rows.get(task.id) or task

    @staticmethod
    def _finish(rows: OperationRows, token: LeaseToken, task: OperationTask) -> str:
        """End the task, and say so in the audit when somebody had requested it."""
        if not rows.finish(token):
            return "lost"
        ended = rows.get(task.id)
        if ended is not None and ended.cancelled:
            rows.note(replace(outcome_of(ended, CANCELLED), actor=ended.cancelled_by or ended.actor))
        elif ended is not None and ended.actor:
            rows.note(outcome_of(ended, WorkState.DONE))
        return "done"

    @repeated
    def _settle(self, tenant: TenantId, claim: ClaimedTask, error: MemForestError) -> None:
        """Give the task back for a later try, or give it up and say so in the audit, unless somebody else has it by
        now. There is nothing to split and nothing to degrade to: such verdicts end it, as does what only the caller can
        fix."""
        token, task = claim
        jitter = self._rng.random()
        decision = decide(error, attempts=task.attempts, max_attempts=MAX_ATTEMPTS, divisible=False, jitter=jitter)
        with self._open_tasks(tenant) as rows:
            if decision.verdict is Verdict.RETRY and not isinstance(error, CallerError):
                delay_s = max(SHORTEST_WAIT_S, decision.delay_s)
                rows.retry(token, delay_s, decision.counts, error.code, error.message)
                self._telemetry.retried(STEP, tenant, error.code)
                return
            if not rows.bury(token, error.code, error.message):
                return
            if task.actor:
                rows.note(outcome_of(task, WorkState.DEAD))
        with self._open_tasks(tenant) as rows:
            rows.release_sources()
        self._telemetry.buried(STEP, tenant, error.code)
