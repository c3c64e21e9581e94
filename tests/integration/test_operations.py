"""Operations: requested with a row and an entry in the audit, followed to their end, and separated by tenant."""

from __future__ import annotations

import re
from collections.abc import Callable
from uuid import uuid4

import pytest
import sqlalchemy as sa
from sqlalchemy import exc

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.domain.operation_rules import OperationKind
from memforest_core.errors import ForestFrozen, InvalidInput, NotFound
from memforest_core.store.engine import tenant_transaction
from memforest_core.store.owners import find_forest, lock_forests, set_forest_state
from memforest_core.work.operations import Operations
from memforest_core.work.records import Numbers, OperationTask, TaskId
from memforest_core.work.waiting import OperationFailed, WaitTimeout, waited
from tests.harness.stack import Stack

KIND = OperationKind.RETAIN
SAID = [{"role": "user", "content": "I moved to Quito.", "timestamp": "2024-05-01T10:00:00Z"}]


class Scripted:
    """A handler that takes three steps, or fails in the second."""

    def __init__(self) -> None:
        self.fails = False
        self.steps: list[Numbers] = []

    def step(self, tenant: TenantId, task: OperationTask, progress: Numbers) -> Numbers | None:
        self.steps.append(progress)
        done = int(progress.get("done", 0))
        if self.fails and done == 1:
            raise InvalidInput("There are no such facts.")
        return None if done == 3 else {"phase": "counting", "done": done + 1, "total": 3}


@pytest.fixture
def scripted(pipeline: Stack) -> Scripted:
    handler = Scripted()
    pipeline.services.maintenance.tasks._handlers[KIND] = handler.step
    pipeline.services.producer.acceptance.enqueue(pipeline.tenant, "ada", "s-1", SAID)
    return handler


def operations(pipeline: Stack) -> Operations:
    return pipeline.services.operations


def forest(pipeline: Stack, owner: str = "ada") -> ForestId:
    return operations(pipeline).find_forest(pipeline.tenant, owner)


def ask(pipeline: Stack, **arguments: int) -> TaskId:
    return operations(pipeline).ask(
        pipeline.tenant, KIND, forest(pipeline), arguments, actor="ops@example.org", owner="ada"
    )


def test_an_operation_is_a_row_with_its_forest_and_actor(pipeline: Stack, scripted: Scripted) -> None:
    task = ask(pipeline, limit=7)

    found = operations(pipeline).get(pipeline.tenant, task)
    assert (found.kind, found.forest_id, found.actor, found.arguments, found.state) == (
        KIND,
        forest(pipeline),
        "ops@example.org",
        {"limit": 7},
        "ready",
    )
    assert ask(pipeline, limit=7) == task
    assert ask(pipeline, limit=8) != task


def test_it_is_followed_to_its_end(pipeline: Stack, scripted: Scripted) -> None:
    task = ask(pipeline)
    seen: list[int] = []
    with pytest.raises(WaitTimeout, match="still ready"):
        waited(operations(pipeline).wait_steps(pipeline.tenant, task, 0.0))

    pipeline.runtime.maintain()

    watch: Callable[[OperationTask], None] = lambda one: seen.append(int(one.progress["done"]))  # noqa: E731
    ended = waited(operations(pipeline).wait_steps(pipeline.tenant, task, 5.0, watch))
    assert (ended.state, ended.progress, seen) == ("done", {"phase": "counting", "done": 3, "total": 3}, [3])
    assert [one.id for one in operations(pipeline).list(pipeline.tenant)] == [task]


def test_one_that_was_given_up_says_why(pipeline: Stack, scripted: Scripted) -> None:
    scripted.fails = True
    task = ask(pipeline)
    pipeline.runtime.maintain()

    with pytest.raises(OperationFailed, match=r"There are no such facts. \[invalid_input\]"):
        waited(operations(pipeline).wait_steps(pipeline.tenant, task, 5.0))
    assert [entry.outcome for entry in operations(pipeline).audit(pipeline.tenant)] == ["dead", "requested"]


def test_the_audit_has_the_actor_the_request_and_the_outcome(pipeline: Stack, scripted: Scripted) -> None:
    task = ask(pipeline, limit=7)
    pipeline.runtime.maintain()

    done, requested = operations(pipeline).audit(pipeline.tenant, "ada")
    assert (requested.actor, requested.action, requested.outcome, requested.detail) == (
        "ops@example.org",
        KIND,
        "requested",
        {"limit": 7},
    )
    assert (done.outcome, done.detail["done"], done.task_id, done.forest_id) == ("done", 3, task, forest(pipeline))
    assert requested.at is not None and done.at is not None and requested.at <= done.at
    assert operations(pipeline).audit(pipeline.tenant, "nobody") == []
    assert operations(pipeline).audit(TenantId("other"), "ada") == []
    assert len(operations(pipeline).audit(pipeline.tenant, action=KIND, operation=task)) == 2


def test_the_audit_stores_no_name_of_an_owner(pipeline: Stack, scripted: Scripted) -> None:
    ask(pipeline)
    (row,) = pipeline.rows("SELECT a::text AS whole FROM memforest.audit a")
    assert not re.search(r"\bada\b", row.whole), row.whole


@pytest.mark.parametrize(
    "change", ["UPDATE memforest.audit SET actor = 'nobody'", "DELETE FROM memforest.audit", "TRUNCATE memforest.audit"]
)
def test_nobody_can_change_the_audit(pipeline: Stack, scripted: Scripted, change: str) -> None:
    """Given an entry, then neither the service nor the owner of the tables can change or remove it."""
    ask(pipeline)
    with pytest.raises(exc.ProgrammingError, match="can only be added"):
        pipeline.execute(change)
    with pytest.raises(exc.ProgrammingError, match="permission denied"), pipeline.services.engine.begin() as connection:
        connection.execute(sa.text(change))
    assert pipeline.rows("SELECT count(*) FROM memforest.audit")[0][0] == 1


@pytest.mark.parametrize("actor", ["", "  ", "x" * 600])
def test_an_actor_has_a_name(pipeline: Stack, scripted: Scripted, actor: str) -> None:
    with pytest.raises(InvalidInput, match="actor"):
        operations(pipeline).ask(pipeline.tenant, KIND, forest(pipeline), {}, actor=actor)
    assert pipeline.counts()["maintenance"] == pipeline.counts()["audit"] == 0


def test_unknown_owners_and_operations_are_not_found(pipeline: Stack, scripted: Scripted) -> None:
    with pytest.raises(NotFound, match="'nobody' has no memory yet"):
        forest(pipeline, "nobody")
    with pytest.raises(NotFound, match="no operation"):
        operations(pipeline).get(pipeline.tenant, TaskId(uuid4()))


def test_what_is_hidden_or_going_is_nobodys(pipeline: Stack, scripted: Scripted) -> None:
    """Given a forest that is being deleted, then its owner has none, and a session begins a new one."""
    old = forest(pipeline)
    with tenant_transaction(pipeline.services.engine, pipeline.tenant) as connection:
        assert set_forest_state(connection, pipeline.tenant, old, "gone")
    assert not pipeline.memory.recall("ada", "Where does she live?").owner_known

    pipeline.memory.enqueue("ada", "s-1", SAID)

    assert forest(pipeline) != old
    with tenant_transaction(pipeline.services.engine, pipeline.tenant) as connection:
        states = lock_forests(connection, pipeline.tenant, [old, forest(pipeline)])
    assert sorted(states.values()) == ["gone", "live"]


def test_a_frozen_forest_answers_and_takes_nothing(pipeline: Stack, scripted: Scripted) -> None:
    with tenant_transaction(pipeline.services.engine, pipeline.tenant) as connection:
        set_forest_state(connection, pipeline.tenant, forest(pipeline), "frozen")
        found = find_forest(connection, pipeline.tenant, "ada")
    assert found is not None and found.frozen

    with pytest.raises(ForestFrozen, match="being merged") as refused:
        pipeline.memory.enqueue("ada", "s-2", SAID)
    with pytest.raises(ForestFrozen):
        pipeline.memory.append("ada", "s-1", SAID[0])
    assert refused.value.retry_after > 0
    assert pipeline.counts()["session"] == 1
    assert pipeline.memory.recall("ada", "Quito").evidence
