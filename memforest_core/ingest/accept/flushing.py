"""Waiting: until a session has reached a stage, or a forest has nothing left to do."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from memforest_core.domain.ids import ForestId, SessionId, TenantId
from memforest_core.domain.turns import checked_name
from memforest_core.errors import NotFound
from memforest_core.ingest.accept.progress_rows import ProgressRows
from memforest_core.ingest.accept.records import Backlog, SessionProgress, Stage
from memforest_core.store.deadlines import within
from memforest_core.store.engine import Engine
from memforest_core.store.owners import NO_OWNER, known
from memforest_core.store.repeating import repeated
from memforest_core.work.jobs import WorkError
from memforest_core.work.messages import Queue, WakeUps
from memforest_core.work.rows.pace import MODEL_SLOW
from memforest_core.work.waiting import LEAST_POLL_S, Steps, WaitTimeout, polled, timely

T = TypeVar("T")

FIRST_PAUSE_S = 0.02
LONGEST_PAUSE_S = 0.1
FACTS_PAUSE_S = 0.05
"""The longest pause of who waits for facts: a poll counts a session's cells and no more."""
NUDGE_S = 1.0
"""How often a waiting caller wakes workers again, in case a message was lost."""

_ORDER = [Stage.ACCEPTED, Stage.RAW, Stage.FACTS, Stage.SUMMARIES]


class Flushing:
    """Waits for work that workers do, and makes it due."""

    def __init__(self, engine: Engine, wakeups: WakeUps) -> None:
        self._engine = engine
        self._wakeups = wakeups

    def wait_session(
        self,
        tenant: TenantId,
        owner: str,
        progress: Callable[[], SessionProgress],
        last_error: Callable[[], WorkError | None],
        stage: Stage,
        timeout_s: float,
    ) -> Steps[SessionProgress]:
        """Wait until a session has reached ``stage``. Raises WaitTimeout after ``timeout_s`` seconds."""
        found = timely(progress, timeout_s)
        unextracted = unplaced = 0

        def reached() -> SessionProgress | None:
            nonlocal found, unextracted, unplaced
            if stage is Stage.FACTS:
                # Which trees are dirty costs ten times as much to find out.
                unextracted, unplaced = self._unplaced(tenant, found.session_id)
                if unextracted or unplaced:
                    return None
            found = progress()
            return found if _ORDER.index(found.stage) >= _ORDER.index(stage) else None

        waits = _poll(
            reached,
            lambda: self._nudge(tenant, owner, found.session_id if stage is Stage.SUMMARIES else None, stage),
            timeout_s,
            # Workers were woken when the session was accepted: for facts nothing else has to be made due.
            *((FACTS_PAUSE_S, NUDGE_S) if stage is Stage.FACTS else (LONGEST_PAUSE_S, FIRST_PAUSE_S)),
            soon=lambda: unplaced > 0 and not unextracted,
        )
        if (yield from waits) is None:
            found, error = timely(progress, 0.0), timely(last_error, 0.0)
            raise WaitTimeout(
                f"The session is at stage {found.stage.value} after {timeout_s:g} s: {_advice(error)}", last_error=error
            )
        return found

    def flush(self, tenant: TenantId, owner: str, timeout_s: float) -> Steps[Backlog]:
        """Close open cells and wait until everything accepted for the owner is placed, refreshed and indexed. Raises
        InvalidInput, NotFound, WaitTimeout."""
        owner = checked_name(owner, "owner")
        forest = timely(lambda: self._closed(tenant, owner), timeout_s)
        left = Backlog(1, 0, 0)

        def drained() -> Backlog | None:
            nonlocal left
            with ProgressRows.opened(self._engine, tenant) as rows:
                left = rows.backlog(forest)
            return left if left.done else None

        waits = _poll(drained, lambda: self._nudge(tenant, owner, None, Stage.SUMMARIES), timeout_s)
        if (yield from waits) is None:
            with within(LEAST_POLL_S), ProgressRows.opened(self._engine, tenant) as rows:
                error = rows.forest_error(forest)
            raise WaitTimeout(
                f"After {timeout_s:g} s the owner still has {left.cells} cells, {left.trees} trees and"
                f" {left.points} index rows to do: {_advice(error)}",
                last_error=error,
            )
        return left

    def flush_all(self, tenant: TenantId, owners: Sequence[str], timeout_s: float) -> Steps[None]:
        """Flush owners, all together in so many seconds; those without a memory are left out. Raises WaitTimeout for
        the first that is not done."""
        deadline = time.monotonic() + timeout_s
        for owner in owners:
            with suppress(NotFound):
                timely(partial(self._closed, tenant, owner), deadline - time.monotonic())
                timely(partial(self._nudge, tenant, owner, None, Stage.SUMMARIES), deadline - time.monotonic())
        for owner in owners:
            with suppress(NotFound):
                yield from self.flush(tenant, owner, max(0.0, deadline - time.monotonic()))

    @repeated
    def _unplaced(self, tenant: TenantId, session: SessionId) -> tuple[int, int]:
        with ProgressRows.opened(self._engine, tenant) as rows:
            return rows.unplaced(session)

    @repeated
    def _closed(self, tenant: TenantId, owner: str) -> ForestId:
        """The owner's forest, with its open cells closed."""
        with ProgressRows.opened(self._engine, tenant) as rows:
            forest = known(rows.find_forest(owner), owner, NO_OWNER)
            rows.release_held(forest)
        return forest

    @repeated
    def _nudge(self, tenant: TenantId, owner: str, session: SessionId | None, stage: Stage) -> None:
        """Wake every queue that the wait depends on; waiting for summaries makes their trees due now."""
        queues = [Queue.EXTRACT, Queue.REDUCE]
        if stage is Stage.SUMMARIES:
            with ProgressRows.opened(self._engine, tenant) as rows:
                forest = rows.find_forest(owner)
                if forest is not None:
                    rows.make_due(forest, session)
            queues += [Queue.REFRESH, Queue.MAINTAIN]
        for queue in queues:
            self._wakeups.send(queue, tenant, "wait")


def _poll(
    poll: Callable[[], T | None],
    nudge: Callable[[], None],
    timeout_s: float,
    longest_s: float = LONGEST_PAUSE_S,
    first_nudge_s: float = FIRST_PAUSE_S,
    soon: Callable[[], bool] = lambda: False,
) -> Steps[T | None]:
    nudges: dict[str, Any] = {"nudge": nudge, "nudge_s": NUDGE_S, "first_nudge_s": first_nudge_s, "soon": soon}
    return polled(poll, timeout_s, FIRST_PAUSE_S, longest_s=longest_s, **nudges)


def _advice(error: WorkError | None) -> str:
    if error is None:
        return "no try has failed; memforest status shows whether workers run and what they do."
    return error.message if error.code == MODEL_SLOW else f"its last try failed [{error.code}]. {error.message}"
