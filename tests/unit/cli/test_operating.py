"""What commands share that ask for an operation."""

from __future__ import annotations

import getpass
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import UUID

import pytest

from memforest_core.cli.toolkit import operating
from memforest_core.errors import InvalidInput
from memforest_core.lifecycle.rebuild.cli import parsed_rules
from memforest_core.work.records import OperationTask, TaskId

TASK = TaskId(UUID(int=7))


@dataclass
class Followed:
    """An operation that is seen twice on its way."""

    progress: list[Mapping[str, str | int]]
    id: TaskId = TASK
    kind: str = "merge"
    waited: list[float] = field(default_factory=list)

    def _task(self, progress: Mapping[str, str | int], state: str) -> OperationTask:
        moment = datetime(2024, 5, 1, tzinfo=UTC)
        return OperationTask(TASK, self.kind, "", {}, progress, state, 1, 0, moment, None, None, None)

    def state(self) -> OperationTask:
        return self._task(self.progress[0], "ready")

    def wait(self, timeout_s: float, watch: Callable[[OperationTask], None]) -> Mapping[str, str | int]:
        self.waited.append(timeout_s)
        for progress in self.progress:
            watch(self._task(progress, "running"))
        return self.progress[-1]


def test_the_actor_is_the_user_of_this_machine_unless_named() -> None:
    assert operating.Run().requester == f"cli:{getpass.getuser()}"
    assert operating.Run(actor="ops").requester == "ops"


@pytest.mark.parametrize("as_json", [True, False])
def test_a_program_has_to_say_yes(as_json: bool) -> None:
    """Given no terminal, then what can't be undone is refused without --yes."""
    with pytest.raises(InvalidInput, match="--yes"):
        operating.Run(yes=False, as_json=as_json).confirm("Delete?")
    operating.Run(yes=True, as_json=as_json).confirm("Delete?")


def test_an_operation_is_followed_to_its_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    followed = Followed([{"phase": "copying", "done": 1, "total": 3, "after": "x"}, {"phase": "done", "facts": 12}])

    shown = operating.Run(timeout=5.0, as_json=True).follow(followed, "merging")

    assert shown == {"phase": "done", "facts": 12} and followed.waited == [5.0]
    printed = json.loads(capsys.readouterr().out)
    assert printed == {
        "operation": str(TASK),
        "kind": "merge",
        "state": "done",
        "numbers": {"phase": "done", "facts": 12},
    }


def test_without_waiting_the_operation_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    followed = Followed([{}])
    operating.Run(no_wait=True, as_json=True).follow(followed, "merging")
    assert json.loads(capsys.readouterr().out) == {"operation": str(TASK), "kind": "merge", "state": "ready"}
    operating.Run(no_wait=True).follow(followed, "merging")
    assert str(TASK) in capsys.readouterr().out
    assert followed.waited == []


def test_rules_are_typed_as_name_and_number() -> None:
    assert parsed_rules(["session_k=4", "scene_assign = 0.65"]) == {"session_k": 4.0, "scene_assign": 0.65}


@pytest.mark.parametrize("wrong", ["session_k", "session_k=", "session_k=four"])
def test_a_rule_without_a_number_says_what_to_give(wrong: str) -> None:
    with pytest.raises(InvalidInput, match="session_k=4"):
        parsed_rules([wrong])
