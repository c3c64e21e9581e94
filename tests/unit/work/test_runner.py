"""Steps of maintenance tasks: stored one by one, given back, tried again, or given up."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest

from memforest_core.domain.ids import LeaseToken, TenantId, WorkerId
from memforest_core.errors import IndexUnavailable, InvariantViolated, MemForestError, StoreUnavailable
from memforest_core.work.records import ClaimedTask, Numbers, OperationTask, TaskId
from memforest_core.work.runner import MAX_ATTEMPTS, SHORTEST_WAIT_S, Handler, OperationRunner

ACME = TenantId("acme")
WORKER = WorkerId(UUID(int=7))


@dataclass
class OneTask:
    """A store of one task in memory, by the rules of the port."""

    state: str = "ready"
    progress: Numbers = field(default_factory=dict)
    attempts: int = 0
    delay_s: float = 0.0
    code: str | None = None
    stored: list[Numbers] = field(default_factory=list)
    token: LeaseToken | None = None

    @contextmanager
    def transaction(self, tenant: TenantId) -> Iterator[OneTask]:
        yield self

    def enqueue(self, kind: str, subject: str, arguments: Numbers, lane: int = 0) -> TaskId:
        self.state = "ready"
        return TaskId(UUID(int=1))

    def claim(self, kinds: Sequence[str], worker: WorkerId, lease_s: float) -> ClaimedTask | None:
        if self.state != "ready":
            return None
        self.state, self.attempts, self.token = "running", self.attempts + 1, LeaseToken(uuid4())
        return ClaimedTask(self.token, self._task())

    def store_progress(self, token: LeaseToken, progress: Numbers, lease_s: float) -> bool:
        if token != self.token:
            return False
        self.progress = progress
        self.stored.append(progress)
        return True

    def finish(self, token: LeaseToken) -> bool:
        return self._end(token, "done")

    def retry(self, token: LeaseToken, delay_s: float, counts: bool, code: str, text: str) -> None:
        if self._end(token, "ready"):
            self.delay_s, self.code, self.attempts = delay_s, code, self.attempts - (not counts)

    def hand_back(self, token: LeaseToken) -> None:
        if self._end(token, "ready"):
            self.attempts -= 1

    def bury(self, token: LeaseToken, code: str, text: str) -> None:
        if self._end(token, "dead"):
            self.code = code

    def release_sources(self) -> None:
        """One task has no sources."""

    def get(self, task: TaskId) -> OperationTask | None:
        return self._task()

    def list(self, kinds: Sequence[str], limit: int) -> Sequence[OperationTask]:
        return [self._task()]

    def _end(self, token: LeaseToken, state: str) -> bool:
        if token != self.token:
            return False
        self.state, self.token = state, None
        return True

    def _task(self) -> OperationTask:
        now = datetime(2023, 5, 8, tzinfo=UTC)
        return OperationTask(
            TaskId(UUID(int=1)),
            "count",
            "",
            {"to": 3},
            self.progress,
            self.state,
            self.attempts,
            0,
            now,
            None,
            None,
            None,
        )


def count(tenant: TenantId, task: OperationTask, progress: Numbers) -> Numbers | None:
    """Counts to the argument, one a step."""
    reached = int(progress.get("at", 0)) + 1
    return {"at": reached} if reached <= int(task.arguments["to"]) else None


def service(
    store: OneTask, handler: Handler = count, *, budget_s: float = 60.0, step_s: float = 0.0
) -> OperationRunner:
    """A service whose clock goes on by ``step_s`` with each look at it."""
    ticks = iter(range(10_000))
    handlers: Mapping[str, Handler] = {"count": handler}
    return OperationRunner(store.transaction, handlers, budget_s, random.Random(1), clock=lambda: next(ticks) * step_s)


def failing(error: BaseException) -> Handler:
    def step(tenant: TenantId, task: OperationTask, progress: Numbers) -> Numbers | None:
        raise error

    return step


def test_each_step_is_stored_and_the_last_one_ends_the_task() -> None:
    store = OneTask()

    assert service(store).run_one(ACME, WORKER)

    assert store.stored == [{"at": 1}, {"at": 2}, {"at": 3}]
    assert store.state == "done"
    assert not service(store).run_one(ACME, WORKER)


def test_a_task_goes_on_where_it_stopped() -> None:
    store = OneTask(progress={"at": 2})
    service(store).run_one(ACME, WORKER)
    assert store.stored == [{"at": 3}]


def test_past_its_budget_a_task_is_given_back_between_two_steps_without_an_attempt() -> None:
    """Given a budget of one step, then it takes a run for each step, and no attempt is counted."""
    store = OneTask()
    runner = service(store, budget_s=0.5, step_s=1.0)

    runs = 0
    while store.state == "ready":
        runner.run_one(ACME, WORKER)
        runs += 1

    assert (runs, store.state, store.attempts) == (4, "done", 1)
    assert store.stored == [{"at": 1}, {"at": 2}, {"at": 3}]


def test_who_lost_the_lease_changes_nothing_more() -> None:
    """Given a task taken over by another worker in the middle of a step, then what the step returns is dropped."""
    store = OneTask()
    taken = LeaseToken(uuid4())

    def step(tenant: TenantId, task: OperationTask, progress: Numbers) -> Numbers | None:
        store.token = taken
        return {"at": 99}

    service(store, step).run_one(ACME, WORKER)

    assert (store.stored, store.state, store.token) == ([], "running", taken)


@pytest.mark.parametrize("times", [1, 20])
def test_waiting_for_an_unavailable_index_counts_no_attempt(times: int) -> None:
    store = OneTask()
    for _ in range(times):
        service(store, failing(IndexUnavailable("away"))).run_one(ACME, WORKER)
    assert (store.state, store.attempts, store.code) == ("ready", 0, "index_unavailable")
    assert store.delay_s >= SHORTEST_WAIT_S


@pytest.mark.parametrize("error", [InvariantViolated("damaged"), MemForestError("unknown")])
def test_a_permanent_error_ends_in_dead_after_its_attempts(error: MemForestError) -> None:
    store = OneTask()
    for _ in range(MAX_ATTEMPTS):
        assert store.state == "ready"
        service(store, failing(error)).run_one(ACME, WORKER)
    assert (store.state, store.code) == ("dead", error.code)


def test_a_bug_counts_against_the_task_and_is_raised() -> None:
    store = OneTask(attempts=0)
    for _ in range(MAX_ATTEMPTS):
        with pytest.raises(ZeroDivisionError):
            service(store, failing(ZeroDivisionError())).run_one(ACME, WORKER)
    assert (store.state, store.code) == ("dead", "crashed")


def test_a_step_that_the_store_refused_for_now_is_given_back_and_the_error_raised() -> None:
    store = OneTask()
    with pytest.raises(StoreUnavailable):
        service(store, failing(StoreUnavailable("deadlock"))).run_one(ACME, WORKER)
    assert (store.state, store.attempts, store.code) == ("ready", 0, "store_unavailable")


def test_a_finished_task_is_distinguished_from_one_that_goes_on() -> None:
    task = OneTask().list((), 1)[0]
    assert [replace(task, state=state).finished for state in ("held", "ready", "running", "done", "dead")] == [
        False,
        False,
        False,
        True,
        True,
    ]
