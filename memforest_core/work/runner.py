"""Runs maintenance tasks step by step; another worker can continue after the last step whose progress was stored."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import Enum

from memforest_core.domain.ids import LeaseToken, TenantId, WorkerId
from memforest_core.errors import CallerError, MemForestError, StoreUnavailable
from memforest_core.store.repeating import repeated
from memforest_core.work.jobs import CRASHED, Verdict, WorkState, backoff, decide
from memforest_core.work.records import CANCELLED, AuditEntry, ClaimedTask, Numbers, OperationTask
from memforest_core.work.rows.operation_rows import OpenTasks, OperationRows
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


class _End(Enum):
    DONE = "done"
    LOST = "lost"
    BUDGET = "budget"


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
        started, settled, outcome = self._clock(), False, CRASHED
        try:
            outcome = self._steps(tenant, claim).value
            settled = True
        except StoreUnavailable as error:
            # If the store is unavailable for this too, the lease ends by itself, with the worker or its deadline.
            settled, outcome = True, error.code
            self._retry(tenant, claim.token, SHORTEST_WAIT_S, False, error.code, error.message)
            raise
        except MemForestError as error:
            self._decide(tenant, claim, error)
            settled, outcome = True, error.code
        finally:
            if not settled:
                self._crashed(tenant, claim)
            self._telemetry.worked(STEP, tenant, self._clock() - started, outcome)
        return True

    def _steps(self, tenant: TenantId, claim: ClaimedTask) -> _End:
        task = claim.task
        deadline = self._clock() + self._budget_s
        progress: Numbers | None = task.progress
        while progress is not None:
            # Somebody may cancel it between two steps.
            steps = self._handlers if task.cancelled_by is None else self._undo
            progress = repeated(steps[task.kind])(tenant, task, progress)
            stored = self._stored(tenant, claim, progress, self._clock() >= deadline)
            if isinstance(stored, _End):
                return stored
            task = stored
        return _End.DONE

    @repeated
    def _stored(
        self, tenant: TenantId, claim: ClaimedTask, progress: Numbers | None, late: bool
    ) -> _End | OperationTask:
        """Store what a step came to; how the work on the task ended, or the task as it is now, to go on."""
        with self._open_tasks(tenant) as rows:
            if progress is None:
                return self._finish(rows, claim)
            if not rows.store_progress(claim.token, progress, LEASE_S):
                return _End.LOST
            if late:
                rows.hand_back(claim.token)
                return _End.BUDGET
            return rows.get(claim.task.id) or claim.task

    @staticmethod
    def _finish(rows: OperationRows, claim: ClaimedTask) -> _End:
        """End the task, and say so in the audit when somebody had requested it."""
        if not rows.finish(claim.token):
            return _End.LOST
        ended = rows.get(claim.task.id)
        if ended is not None and ended.cancelled:
            rows.note(replace(outcome_of(ended, CANCELLED), actor=ended.cancelled_by or ended.actor))
        elif ended is not None and ended.actor:
            rows.note(outcome_of(ended, WorkState.DONE))
        return _End.DONE

    def _decide(self, tenant: TenantId, claim: ClaimedTask, error: MemForestError) -> None:
        """There is nothing to split and nothing to degrade to: such verdicts end the task too, as does what only the
        caller can fix."""
        if isinstance(error, CallerError):
            self._bury(tenant, claim, error.code, error.message)
            return
        tries, jitter = claim.task.attempts, self._rng.random()
        decision = decide(error, attempts=tries, max_attempts=MAX_ATTEMPTS, divisible=False, jitter=jitter)
        if decision.verdict is Verdict.RETRY:
            self._retry(tenant, claim.token, decision.delay_s, decision.counts, error.code, error.message)
        else:
            self._bury(tenant, claim, error.code, error.message)

    def _crashed(self, tenant: TenantId, claim: ClaimedTask) -> None:
        if claim.task.attempts >= MAX_ATTEMPTS:
            self._bury(tenant, claim, CRASHED, "It crashed; see the worker's log.")
        else:
            wait = backoff(claim.task.attempts, self._rng.random())
            self._retry(tenant, claim.token, wait, True, CRASHED, "See the worker's log.")

    @repeated
    def _retry(self, tenant: TenantId, token: LeaseToken, delay_s: float, counts: bool, code: str, text: str) -> None:
        with self._open_tasks(tenant) as rows:
            rows.retry(token, max(SHORTEST_WAIT_S, delay_s), counts, code, text)
        self._telemetry.retried(STEP, tenant, code)

    @repeated
    def _bury(self, tenant: TenantId, claim: ClaimedTask, code: str, text: str) -> None:
        """Give the task up, and say so in the audit, unless somebody else has it by now."""
        with self._open_tasks(tenant) as rows:
            if not rows.bury(claim.token, code, text):
                return
            if claim.task.actor:
                rows.note(outcome_of(claim.task, WorkState.DEAD))
        with self._open_tasks(tenant) as rows:
            rows.release_sources()
        self._telemetry.buried(STEP, tenant, code)
