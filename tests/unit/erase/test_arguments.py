"""A request to erase comes back from its task row as it was."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest

from memforest_core.domain.ids import FactId, ForestId, SessionId
from memforest_core.domain.operation_rules import OperationKind
from memforest_core.errors import InvariantViolated
from memforest_core.lifecycle.erase.records import Scope, Target, arguments_of, scope_of
from memforest_core.work.records import Numbers, OperationTask, TaskId

FOREST = ForestId(UUID(int=1))
SESSION = SessionId(UUID(int=2))
SINCE = datetime(2023, 5, 8, 12, 30, 15, 250, tzinfo=UTC)


def task(arguments: Numbers, forest: ForestId | None = FOREST) -> OperationTask:
    return OperationTask(
        id=TaskId(uuid4()),
        kind=OperationKind.ERASE,
        subject="",
        arguments=arguments,
        progress={},
        state="ready",
        attempts=0,
        lost_leases=0,
        created_at=SINCE,
        finished_at=None,
        error_code=None,
        error_text=None,
        forest_id=forest,
        actor="tester",
    )


@pytest.mark.parametrize(
    "scope",
    [
        Scope(Target.TURNS, FOREST, session=SESSION, ordinals=(0, 1, 2, 7, 9, 10)),
        Scope(Target.SESSION, FOREST, session=SESSION),
        Scope(Target.FACT, FOREST, fact=FactId(UUID(int=3))),
        Scope(Target.RANGE, FOREST, since=SINCE),
        Scope(Target.RANGE, FOREST, until=SINCE),
        Scope(Target.SPEAKER, FOREST, speaker="ab" * 32),
        Scope(Target.OWNER, FOREST),
    ],
)
def test_a_target_is_stored_whole(scope: Scope) -> None:
    arguments = arguments_of(scope)
    assert scope_of(task(arguments)) == scope
    assert all(isinstance(value, str | int) for value in arguments.values())


def test_ordinals_that_an_earlier_version_wrote_as_spans_are_read() -> None:
    assert scope_of(task({"target": "turns", "turns": "0-2,7,9-10"})).ordinals == (0, 1, 2, 7, 9, 10)


def test_a_task_that_names_nothing_erases_nothing() -> None:
    for damaged in (task({}), task({"target": "owner"}, forest=None)):
        with pytest.raises(InvariantViolated):
            scope_of(damaged)
