"""One thread of a process indexes raw cells, and no committed cell is overlooked."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from memforest_core.domain.ids import TenantId
from memforest_core.errors import StoreUnavailable
from memforest_workers.runtime import RawCells

BATCH = 3
ACME, BETA = TenantId("acme"), TenantId("beta")


class Rows:
    """Cells by tenant, indexed in batches; ``during`` runs within the next one."""

    def __init__(self) -> None:
        self.left: dict[TenantId, int] = {}
        self.during: Callable[[], None] = lambda: None
        self.woken: list[TenantId] = []
        self.raw = RawCells(self._index, BATCH, self.woken.append)

    def _index(self, tenant: TenantId) -> int:
        done = min(BATCH, self.left.get(tenant, 0))
        self.left[tenant] = self.left.get(tenant, 0) - done
        during, self.during = self.during, lambda: None
        during()
        return done

    def elsewhere(self, call: Callable[[TenantId], int | bool | None], tenant: TenantId = ACME) -> int | bool | None:
        """What another thread gets."""
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(call, tenant).result()


@pytest.fixture
def rows() -> Rows:
    return Rows()


def test_a_batch_is_indexed(rows: Rows) -> None:
    rows.left[ACME] = 4
    assert [rows.raw.index(ACME) for _ in range(3)] == [3, 1, 0]
    assert rows.woken == []


def test_others_go_on_while_a_thread_is_at_it(rows: Rows) -> None:
    """Given a thread in a batch, when others index before a window, then they get nothing and ask for nothing."""
    seen: list[object] = []
    rows.during = lambda: seen.append(rows.elsewhere(rows.raw.index))
    assert rows.raw.index(ACME) == 0
    assert (seen, rows.woken) == ([None], [])


def test_cells_that_came_during_a_batch_get_a_wake_up(rows: Rows) -> None:
    """Given cells that come during a batch, when the re-checks find the batch running, then one message is sent for
    each tenant, after the batch."""

    def come() -> None:
        rows.left.update({ACME: 1, BETA: 1})
        for tenant in (ACME, BETA, ACME):
            assert rows.elsewhere(rows.raw.index_rest, tenant) is False
        assert rows.woken == []

    rows.during = come
    assert rows.raw.index(ACME) == 0
    assert sorted(rows.woken) == [ACME, BETA]
    assert rows.raw.index_rest(ACME) and rows.raw.index_rest(BETA)
    assert rows.left == {ACME: 0, BETA: 0}
    assert len(rows.woken) == 2


def test_a_last_look_does_one_batch(rows: Rows) -> None:
    rows.left[ACME] = 4
    assert rows.raw.index_rest(ACME)
    assert (rows.left[ACME], rows.woken) == (1, [ACME])
    assert rows.raw.index_rest(ACME)
    assert (rows.left[ACME], rows.woken) == (0, [ACME])
    assert not rows.raw.index_rest(ACME)


def test_a_batch_that_fails_leaves_the_place_to_others(rows: Rows) -> None:
    def fail() -> None:
        rows.elsewhere(rows.raw.index_rest)
        raise StoreUnavailable("away")

    rows.during = fail
    with pytest.raises(StoreUnavailable):
        rows.raw.index(ACME)
    assert rows.woken == [ACME]
    assert rows.raw.index(ACME) == 0


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
