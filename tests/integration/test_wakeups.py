"""Wake-ups follow the backlog: as many loops start as there are windows, before the first answer has come."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from memforest_core.ingest.extract.proposer import OfflineProposer
from memforest_core.work.jobs import WorkKind
from memforest_core.work.messages import TASK_NAMES, Queue
from memforest_workers.app import create_app
from memforest_workers.runtime import Runtime
from tests.harness.sayings import said
from tests.harness.stack import Stack

MEET_S = 60.0
"""Far longer than it takes; only a failure waits for it."""


@pytest.mark.parametrize("windows", [1, 2, 12])
def test_as_many_loops_are_at_work_at_once_as_windows_wait(
    pipeline: Stack, monkeypatch: pytest.MonkeyPatch, windows: int
) -> None:
    """Given idle threads and one wake-up, then each window is with a loop of its own before any has its answer, and no
    loop is woken for nothing."""
    for number in range(windows):
        pipeline.memory.client.enqueue(f"owner {number}", "s1", said("I moved to Davis.", "How nice."))
    meeting = threading.Barrier(windows)
    propose = OfflineProposer.propose

    def together(*arguments: Any) -> Any:
        meeting.wait(MEET_S)
        return propose(*arguments)

    monkeypatch.setattr(OfflineProposer, "propose", together)
    started: list[Future[int]] = []
    with ThreadPoolExecutor(windows + 4) as threads:

        def wake(_: Runtime, queue: Queue, *_ids: object) -> None:
            if queue is Queue.EXTRACT:
                started.append(threads.submit(pipeline.runtime.extract))

        monkeypatch.setattr(Runtime, "wake", wake)
        pipeline.runtime.wake(Queue.EXTRACT, pipeline.tenant)
        while any(not each.done() for each in list(started)):
            for each in list(started):
                each.result(2 * MEET_S)
    assert [each.result() for each in started] == [1] * windows


def test_a_look_that_uses_up_no_turn_leaves_the_order_of_tenants(pipeline: Stack) -> None:
    pipeline.memory.client.enqueue("bob", "s1", said("I moved to Davis."))
    jobs = pipeline.services.jobs
    named = dict(jobs._named)
    assert jobs.next_waiting(WorkKind.EXTRACT, 1, turn=False) == [pipeline.tenant]
    assert jobs._named == named


def test_a_tasks_result_says_how_many_rows_it_did(pipeline: Stack) -> None:
    """As Flower shows it, with no text."""
    pipeline.memory.client.enqueue("bob", "s1", said("I moved to Davis.", "How nice.", "I bought a kayak.", "Great."))
    tasks = create_app(lambda: pipeline.runtime).tasks

    def result(queue: Queue) -> str:
        return str(tasks[TASK_NAMES[queue]].apply(kwargs={"tenant": pipeline.tenant}).result)

    assert result(Queue.EXTRACT) == "1 windows"
    assert result(Queue.REDUCE) == "2 cells"
    pipeline.execute("UPDATE memforest.tree SET due_at = now() WHERE due_at IS NOT NULL")
    number, _, what = result(Queue.REFRESH).partition(" ")
    assert (int(number) > 0, what) == (True, "nodes")
    assert result(Queue.EXTRACT) == "0 windows"
