"""One thread of a process indexes raw cells, no task waits for it, and no committed cell is overlooked."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from structlog.testing import capture_logs

from memforest_core.domain.ids import TenantId
from memforest_workers.runtime import RawCells

BATCH = 3
ACME, BETA = TenantId("acme"), TenantId("beta")


def test_nobody_waits_for_a_batch_and_tenants_take_turns() -> None:
    """Given a batch that hangs, when tasks come for their tenants, then they go on, and each tenant has its turn."""
    left, order, go = {ACME: 7, BETA: 4}, list[TenantId](), threading.Event()

    def index(tenant: TenantId) -> int:
        assert go.wait(10)
        order.append(tenant)
        done = min(BATCH, left[tenant])
        left[tenant] -= done
        return done

    raw = RawCells(index, BATCH)
    for each in (ACME, BETA, BETA):
        raw.index(each)
    assert order == []
    go.set()
    raw.join(10)
    assert order == [ACME, BETA, ACME, BETA, ACME]
    assert left == {ACME: 0, BETA: 0}


def test_after_a_bug_the_next_call_indexes() -> None:
    """Given a batch that a bug ended, when the next task comes, then the rest is indexed; the log names the bug."""
    seen: list[TenantId] = []

    def index(tenant: TenantId) -> int:
        seen.append(tenant)
        if len(seen) == 1:
            raise ZeroDivisionError
        return 0

    raw = RawCells(index, BATCH)
    with capture_logs() as logged:
        for _ in range(2):
            raw.index(ACME)
            raw.join(10)
    assert seen == [ACME, ACME]
    assert [(each["event"], each["exception"]) for each in logged] == [("task_crashed", "ZeroDivisionError")]


def test_no_cell_is_overlooked_by_many_threads() -> None:
    """Given threads that commit a cell and look, then all are indexed, without another message."""
    left, lock = [0], threading.Lock()

    def index(_: TenantId) -> int:
        with lock:
            done = min(BATCH, left[0])
            left[0] -= done
        return done

    raw = RawCells(index, BATCH)

    def come() -> None:
        for _ in range(300):
            with lock:
                left[0] += 1
            raw.index(ACME)

    with ThreadPoolExecutor(6) as pool:
        for each in [pool.submit(come) for _ in range(6)]:
            each.result()
    raw.join(10)
    assert left == [0]
