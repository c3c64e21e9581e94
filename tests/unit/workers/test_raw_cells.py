"""One thread of a process indexes raw cells, and no committed cell is overlooked."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from memforest_core.domain.ids import TenantId
from memforest_core.errors import StoreUnavailable
from memforest_workers.runtime import RawCells

BATCH = 3
ACME = TenantId("acme")


def test_a_batch_is_indexed_by_one_thread_while_others_go_on() -> None:
    """Given a thread in a batch that then fails, then another gets nothing before its window, and the rest after."""
    left, seen = {ACME: 4}, list[int]()

    def index(tenant: TenantId) -> int:
        if not seen:
            with ThreadPoolExecutor(1) as pool:
                seen.append(pool.submit(raw.index, tenant).result())
            raise StoreUnavailable("away")
        done = min(BATCH, left[tenant])
        left[tenant] -= done
        return done

    woken: list[TenantId] = []
    raw = RawCells(index, BATCH, woken.append)
    with pytest.raises(StoreUnavailable):
        raw.index(ACME)
    assert seen == [0]
    assert raw.index_rest(ACME)
    assert (left[ACME], woken) == (1, [ACME])
    assert raw.index_rest(ACME) and not raw.index_rest(ACME)
    assert woken == [ACME]


def test_the_thread_that_is_at_it_wakes_those_who_came_for_the_rest() -> None:
    """Given a slow batch, when a task of another thread ends, then it does not wait, and a wake-up follows the batch."""
    woken: list[TenantId] = []

    def index(_: TenantId) -> int:
        with ThreadPoolExecutor(1) as pool:
            assert not pool.submit(raw.index_rest, ACME).result(timeout=1)
        assert woken == []
        return 1

    raw = RawCells(index, BATCH, woken.append)
    assert raw.index(TenantId("beta")) == 1
    assert woken == [ACME]


def test_no_cell_is_overlooked_by_many_threads() -> None:
    """Given threads that commit a cell and look, when messages are answered by another look, then all are indexed."""
    left, lock, messages = [0], threading.Lock(), threading.Semaphore(0)

    def index(_: TenantId) -> int:
        with lock:
            done = min(BATCH, left[0])
            left[0] -= done
        return done

    raw = RawCells(index, BATCH, lambda _: messages.release())

    def come() -> None:
        for _ in range(300):
            with lock:
                left[0] += 1
            raw.index_rest(ACME)

    with ThreadPoolExecutor(6) as pool:
        for each in [pool.submit(come) for _ in range(6)]:
            each.result()
    while messages.acquire(blocking=False):
        raw.index_rest(ACME)
    assert left == [0]
