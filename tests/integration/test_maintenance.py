"""Maintenance tasks as rows: requested once, claimed by one, resumed after a kill, separate by tenant."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial

import pytest

from memforest_core.domain.ids import LeaseToken, TenantId
from memforest_core.errors import IndexUnavailable, InvariantViolated, MemForestError, StoreUnavailable
from memforest_core.store.engine import tenant_transaction
from memforest_core.work.jobs import LeaseLimits, WorkKind
from memforest_core.work.records import Numbers, OperationTask, TaskId
from memforest_core.work.rows.operation_rows import ClaimedTask, OperationRows
from memforest_core.work.runner import MAX_ATTEMPTS, SHORTEST_WAIT_S, Handler, OperationRunner
from tests.harness.stack import Stack

KIND = "count"
LIMITS = LeaseLimits(dead_after_s=30.0, max_lost_leases=3)
EXPIRE = "UPDATE memforest.maintenance SET lease_until = clock_timestamp() WHERE state = 'running'"


class Killed(BaseException):
    """The process ends here; nothing after it is run."""


@contextmanager
def rows(pipeline: Stack, tenant: str | None = None) -> Iterator[OperationRows]:
    with tenant_transaction(pipeline.services.engine, TenantId(tenant or pipeline.tenant)) as connection:
        yield OperationRows(connection, TenantId(tenant or pipeline.tenant))


@pytest.fixture
def known(pipeline: Stack) -> Stack:
    """A tenant with an owner, and nothing left to do."""
    pipeline.execute("INSERT INTO memforest.tenant (tenant_id) VALUES ('default'), ('other')")
    return pipeline


def ask(pipeline: Stack, subject: str = "", kind: str = KIND, **arguments: int) -> TaskId:
    with rows(pipeline) as tasks:
        return tasks.enqueue(kind, subject, arguments)


def claim(pipeline: Stack, tenant: str | None = None, lease_s: float = 60.0) -> ClaimedTask | None:
    with rows(pipeline, tenant) as tasks:
        return tasks.claim((KIND,), pipeline.runtime.worker, lease_s)


def held(pipeline: Stack) -> ClaimedTask:
    found = claim(pipeline)
    assert found is not None
    return found


def seen(pipeline: Stack, task: TaskId) -> OperationTask:
    with rows(pipeline) as tasks:
        found = tasks.get(task)
    assert found is not None
    return found


def free(pipeline: Stack, max_lost: int = 3) -> int:
    """Free what was lost, as a round of the reconciler does."""
    with pipeline.services.jobs.upkeep(pipeline.tenant) as rows:
        return rows.free_lost(replace(LIMITS, max_lost_leases=max_lost))


def test_while_a_task_waits_or_runs_the_same_request_gets_that_task(known: Stack) -> None:
    first = ask(known, "a")
    assert ask(known, "a") == first
    assert ask(known, "b") != first
    token, running = held(known)
    assert running.id == first
    assert ask(known, "a") == first
    with rows(known) as tasks:
        assert tasks.finish(token)
    assert ask(known, "a") != first


def test_many_who_ask_at_once_get_the_same_task(known: Stack) -> None:
    start, found = threading.Barrier(6), list[TaskId]()

    def querying() -> None:
        start.wait()
        found.append(ask(known))

    threads = [threading.Thread(target=querying) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(found)) == 1 and len(found) == 6


def test_a_waiting_task_is_work_of_its_tenant_and_goes_to_one_worker(known: Stack) -> None:
    assert known.services.jobs.waiting(WorkKind.MAINTAIN) == []
    ask(known, to=3)
    assert known.services.jobs.waiting(WorkKind.MAINTAIN) == [known.tenant]

    _, taken = held(known)

    assert (taken.state, taken.attempts, taken.arguments) == ("running", 1, {"to": 3})
    assert claim(known) is None
    assert known.services.jobs.waiting(WorkKind.MAINTAIN) == []


def test_live_tasks_go_first_then_the_one_that_has_waited_longest(known: Stack) -> None:
    with rows(known) as tasks:
        tasks.enqueue(KIND, "bulk", {}, lane=1)
    ask(known, "older")
    ask(known, "newer")
    assert [held(known)[1].subject for _ in range(3)] == ["older", "newer", "bulk"]


def test_kinds_of_another_version_and_tasks_of_another_tenant_are_left_alone(known: Stack) -> None:
    ask(known, kind="of tomorrow")
    with rows(known, "other") as tasks:
        theirs = tasks.enqueue(KIND, "", {})
    assert claim(known) is None
    with rows(known) as tasks:
        assert tasks.get(theirs) is None
        assert [task.kind for task in tasks.list(("of tomorrow", KIND), 10)] == ["of tomorrow"]
    assert claim(known, "other") is not None


def test_progress_is_stored_under_the_lease_and_a_lost_lease_changes_nothing(known: Stack) -> None:
    """Given a task whose lease ended and that another took over, when the first comes back, then it is refused."""
    task = ask(known)
    slow, _ = held(known)
    with rows(known) as tasks:
        assert tasks.store_progress(slow, {"at": 1}, 60.0)
    known.execute(EXPIRE)
    assert known.services.jobs.lost(LIMITS) == [known.tenant]
    assert free(known) == 1
    quick, resumed = held(known)
    assert resumed.progress == {"at": 1}
    assert resumed.lost_leases == 1 and resumed.attempts == 1

    with rows(known) as tasks:
        assert not tasks.store_progress(slow, {"at": 99}, 60.0)
        assert not tasks.finish(slow)
        tasks.retry(slow, 5.0, True, "late", "Late.")
        tasks.bury(slow, "late", "Late.")
        tasks.hand_back(slow)
        assert tasks.store_progress(quick, {"at": 2}, 60.0)

    now = seen(known, task)
    assert (now.state, now.progress, now.error_code) == ("running", {"at": 2}, None)


def test_a_task_that_loses_its_workers_too_often_waits_for_a_person(known: Stack) -> None:
    task = ask(known)
    for _ in range(4):
        held(known)
        known.execute(EXPIRE)
        free(known)
    now = seen(known, task)
    assert (now.state, now.error_code, now.lost_leases) == ("dead", "lease_lost", 4)
    assert now.finished
    assert ask(known) != task


def test_a_delivery_whose_worker_is_lost_is_made_again_and_at_last_waits_for_a_person(known: Stack) -> None:
    endpoint = known.memory.webhooks.create("https://hooks.example.com/x").endpoint
    known.execute(
        """INSERT INTO memforest.webhook_delivery (tenant_id, delivery_id, endpoint_id, event, data, state, attempts)
           VALUES (:t, gen_random_uuid(), :e, 'operation.finished', '{}', 'ready', 0)""",
        t=known.tenant,
        e=endpoint.id,
    )
    for state in ("ready", "dead"):
        known.execute(
            "UPDATE memforest.webhook_delivery SET state = 'running', attempts = 1, worker_id = gen_random_uuid()"
        )
        assert known.services.jobs.lost(LIMITS) == [known.tenant]
        assert free(known, max_lost=1) == 1
        assert known.rows("SELECT state, attempts, worker_id FROM memforest.webhook_delivery") == [(state, 0, None)]


def count(_tenant: TenantId, task: OperationTask, progress: Numbers) -> Numbers | None:
    """Counts to three, one a step."""
    reached = int(progress.get("at", 0)) + 1
    return {"at": reached} if reached <= 3 else None


def run(known: Stack, handler: Handler, budget_s: float = 60.0) -> bool:
    """One run of the next task, which is due whenever it was given back for."""
    known.execute("UPDATE memforest.maintenance SET available_at = clock_timestamp() - interval '1 s'")
    ticks = iter(range(1_000))
    opened = partial(OperationRows.opened, known.services.engine)
    runner = OperationRunner(opened, {KIND: handler}, budget_s, random.Random(1), clock=lambda: float(next(ticks)))
    return runner.run_one(known.tenant, known.runtime.worker)


def test_past_its_budget_a_task_is_given_back_between_two_steps_without_an_attempt(known: Stack) -> None:
    """Given a budget of one step, then it takes a run for each step, goes on where it stopped, and counts no try."""
    task = ask(known)
    for at in (1, 2, 3):
        assert run(known, count, budget_s=0.5)
        now = seen(known, task)
        assert (now.state, now.progress, now.attempts) == ("ready", {"at": at}, 0)
    assert run(known, count, budget_s=0.5)
    assert (seen(known, task).state, run(known, count)) == ("done", False)


def test_who_lost_the_lease_changes_nothing_more(known: Stack) -> None:
    """Given a task taken over by another worker in the middle of a step, then what the step returns is dropped."""
    task = ask(known)

    def step(*_: object) -> Numbers | None:
        known.execute("UPDATE memforest.maintenance SET lease_token = gen_random_uuid()")
        return {"at": 99}

    run(known, step)

    assert (seen(known, task).state, seen(known, task).progress) == ("running", {})


@pytest.mark.parametrize(
    ("error", "raised", "code", "dead"),
    [
        (IndexUnavailable("away"), False, "index_unavailable", False),
        (StoreUnavailable("deadlock"), True, "store_unavailable", False),
        (InvariantViolated("damaged"), False, "invariant_violated", True),
        (MemForestError("unknown"), False, "memforest_error", True),
        (ZeroDivisionError(), True, "crashed", True),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_a_failing_task_waits_without_end_for_a_store_and_else_ends_after_its_attempts(
    known: Stack, error: Exception, raised: bool, code: str, dead: bool
) -> None:
    task = ask(known)

    def step(*_: object) -> Numbers | None:
        raise error

    for _ in range(MAX_ATTEMPTS):
        assert seen(known, task).state == "ready"
        with pytest.raises(type(error)) if raised else nullcontext():
            run(known, step)

    now = seen(known, task)
    assert (now.state, now.attempts, now.error_code) == (("dead", MAX_ATTEMPTS, code) if dead else ("ready", 0, code))
    if not dead:
        wait = "SELECT extract(epoch FROM available_at - clock_timestamp()) > :s - 1 FROM memforest.maintenance"
        assert known.rows(wait, s=SHORTEST_WAIT_S) == [(True,)]


def test_a_task_killed_in_any_step_is_resumed_and_each_step_is_done(known: Stack) -> None:
    """Given a task of ten steps and a process that is killed in every second of them, when others go on, then the
    steps are all done, those that were killed twice."""
    done: list[int] = []
    dying = True

    def step(tenant: TenantId, task: OperationTask, progress: Numbers) -> Numbers | None:
        nonlocal dying
        at = int(progress.get("at", 0)) + 1
        done.append(at)
        dying = not dying
        if dying:
            raise Killed
        return {"at": at} if at < 10 else None

    class Abrupt(OperationRunner):
        """A process that is killed runs no clean-up."""

        def _settle(self, tenant: TenantId, claim: ClaimedTask, error: MemForestError) -> None:
            return None

    task = ask(known)
    runner = Abrupt(partial(OperationRows.opened, known.services.engine), {KIND: step}, 60.0, random.Random(1))
    for _ in range(100):
        try:
            if not runner.run_one(known.tenant, known.runtime.worker):
                break
        except Killed:
            known.execute(EXPIRE)
            assert free(known, max_lost=100) == 1

    now = seen(known, task)
    assert now.state == "done" and now.finished_at is not None
    assert sorted(set(done)) == list(range(1, 11))
    assert done == sorted(done)


def test_the_database_refuses_what_the_state_machine_does_not_know(known: Stack) -> None:
    """Given a task that is done, then it can't be finished again under an old token, nor start without being claimed."""
    task = ask(known)
    token = held(known)[0]
    with rows(known) as tasks:
        assert tasks.finish(token)
        assert not tasks.finish(LeaseToken(token))
    assert seen(known, task).state == "done"
    with pytest.raises(Exception, match="cannot become running"):
        known.execute("UPDATE memforest.maintenance SET state = 'running'")
