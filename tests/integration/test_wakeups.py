"""Wake-ups follow the backlog: as many loops start as there are windows, before the first answer has come."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from memforest_core.domain.ids import TenantId, WorkerId
from memforest_core.index.service import Indexer
from memforest_core.index.vector_index import PointKind
from memforest_core.ingest.extract.proposer import OfflineProposer
from memforest_core.models.calls import Embedder
from memforest_core.work.jobs import WorkKind
from memforest_core.work.messages import TASK_NAMES, Queue
from memforest_core.work.publishing import CeleryWakeUps
from memforest_workers.app import create_app
from memforest_workers.runtime import Runtime
from tests.harness.sayings import said
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack, stack
from tests.harness.timing import until

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


def test_what_waits_at_the_start_is_worked_on_at_once(
    servers: SessionServers, tmp_path: Path, embedder: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given windows whose wake-ups an earlier worker took, when a worker starts, then the reconciler's first round is not
    waited for."""
    woken: list[str] = []

    def send(_: CeleryWakeUps, queue: str, *_rest: object) -> bool:
        woken.append(queue)
        return True

    with stack(servers, tmp_path, embedder=embedder, worker={"reconcile_s": 3_600}) as pipeline:
        pipeline.memory.client.enqueue("bob", "s1", said("I moved to Davis."))
        monkeypatch.setattr(CeleryWakeUps, "send", send)
        pipeline.runtime.start()
        try:
            until(lambda: Queue.EXTRACT in woken, MEET_S)
        finally:
            pipeline.runtime.stop()


def test_no_task_waits_for_raw_cells_vectors(pipeline: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a long import whose raw cells are being embedded, then windows are extracted and maintenance goes on."""
    begun, go, run_one = threading.Event(), threading.Event(), Indexer.run_one

    def slowly(indexer: Indexer, tenant: TenantId, worker: WorkerId, kinds: Any, *lease: Any) -> int:
        if PointKind.CELL in kinds:
            begun.set()
            assert go.wait(MEET_S)
        return run_one(indexer, tenant, worker, kinds, *lease)

    monkeypatch.setattr(Indexer, "run_one", slowly)
    pipeline.memory.client.enqueue("bob", "s1", said("I moved to Davis.", "How nice."))
    pipeline.runtime.start()
    try:
        assert pipeline.runtime.extract() == 1
        assert begun.wait(MEET_S)
        pipeline.runtime.maintain()
        unseen = "SELECT count(*) FROM memforest.index_row WHERE kind = 'cell' AND indexed_version < version"
        assert pipeline.rows(unseen)[0][0] == 1
        go.set()
        until(lambda: pipeline.rows(unseen)[0][0] == 0, MEET_S)
    finally:
        go.set()
        pipeline.runtime.stop()
