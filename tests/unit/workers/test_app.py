"""Tasks: what leaves them is a name or a code, never what an exception says."""

from __future__ import annotations

import traceback
from typing import cast

import pytest

from memforest_core.errors import StoreUnavailable
from memforest_core.work.messages import TASK_NAMES, Queue
from memforest_workers.app import TaskFailed, create_app
from memforest_workers.runtime import Runtime

SECRET = "Bob's bank card is 4711"


class Failing:
    """A runtime whose work ends with one error, whatever the queue."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def work(self, *_: object) -> int:
        raise self._error


@pytest.mark.parametrize("queue", Queue)
@pytest.mark.parametrize(
    ("error", "name"), [(ValueError(SECRET), "ValueError"), (StoreUnavailable(SECRET), "store_unavailable")]
)
def test_a_failed_task_shows_the_kind_of_its_error_and_nothing_else(queue: Queue, error: Exception, name: str) -> None:
    """Given an error whose message quotes a conversation, then Flower's traceback shows only what kind it was."""
    app = create_app(lambda: cast(Runtime, Failing(error)), broker_url="memory://")
    task = app.tasks[TASK_NAMES[queue]]

    with pytest.raises(TaskFailed) as caught:
        task("tenant", "ref")

    shown = "".join(traceback.format_exception(caught.value))
    assert str(caught.value) == name
    assert SECRET not in shown


def test_logs_that_nobody_configured_tell_where_it_crashed_and_nothing_that_was_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Given a program that embeds a node and leaves logs as they come, which print what variables hold, then a crash
    is logged by its kind and place alone."""
    app = create_app(lambda: cast(Runtime, Failing(ValueError(SECRET))), broker_url="memory://")
    with pytest.raises(TaskFailed):
        app.tasks[TASK_NAMES[Queue.EXTRACT]]("tenant", "ref")
    reported = "".join(capsys.readouterr())
    assert "task_crashed" in reported and "ValueError" in reported and "test_app.py" in reported
    assert SECRET not in reported


def test_system_exit_ends_the_process() -> None:
    app = create_app(lambda: cast(Runtime, Failing(cast(Exception, SystemExit(3)))), broker_url="memory://")

    with pytest.raises(SystemExit):
        app.tasks[TASK_NAMES[Queue.EXTRACT]]("tenant")
