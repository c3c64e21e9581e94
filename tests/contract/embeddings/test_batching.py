"""Common batches: rows reach their callers, questions go first, failures reach everybody."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import numpy as np
from numpy.typing import NDArray

from memforest_core.errors import ModelUnavailable
from memforest_core.models.embedders.batching import Batches, Ids

Vector = NDArray[np.float32]


class Recorder:
    """Maps a token list to [its sum, its length]; the first run waits until it is let go."""

    def __init__(self) -> None:
        self.runs: list[list[Ids]] = []
        self.started = threading.Event()
        self.go = threading.Event()

    def __call__(self, batch: Sequence[Ids]) -> list[Vector]:
        self.runs.append(list(batch))
        self.started.set()
        assert self.go.wait(10)
        if any(-1 in ids for ids in batch):
            raise MemoryError
        return [np.array([sum(ids), len(ids)], dtype=np.float32) for ids in batch]


def batches(run: Recorder, *, batch_size: int = 8) -> Batches[Vector]:
    return Batches(run, rounding=4, threads=1, batch_size=batch_size, batch_tokens=64)


def waiting(shared: Batches[Vector]) -> int:
    return sum(map(len, shared._waiting.values()))


def settle(shared: Batches[Vector], count: int) -> None:
    pause = threading.Event()
    for _ in range(1000):
        if waiting(shared) == count:
            return
        pause.wait(0.005)
    raise AssertionError(f"{waiting(shared)} rows wait, not {count}")


def test_rows_come_back_in_order_from_batches_of_one_length() -> None:
    run = Recorder()
    run.go.set()
    tokens = [[n] * (n % 9 + 1) for n in range(40)]
    found = batches(run).rows(tokens, urgent=False)
    np.testing.assert_array_equal(found, [[sum(ids), len(ids)] for ids in tokens])
    for batch in run.runs:
        lengths = {-(-len(ids) // 4) * 4 for ids in batch}
        assert len(lengths) == 1
        assert len(batch) <= 8
        assert len(batch) * lengths.pop() <= 64


def test_callers_share_a_batch_and_questions_go_first() -> None:
    run = Recorder()
    shared = batches(run)
    with ThreadPoolExecutor(8) as threads:
        first = threads.submit(shared.rows, [[1]], urgent=False)
        assert run.started.wait(5)
        stored = [threads.submit(shared.rows, [[n, n]], urgent=False) for n in range(4)]
        settle(shared, 4)
        question = threads.submit(shared.rows, [[7, 7, 7]], urgent=True)
        settle(shared, 5)
        run.go.set()
        assert [future.result()[0][0] for future in stored] == [0.0, 2.0, 4.0, 6.0]
        assert question.result()[0][0] == 21.0
        assert first.result()[0][0] == 1.0
    assert run.runs[0] == [[1]]
    assert run.runs[1] == [[7, 7, 7]]
    assert sorted(run.runs[2]) == [[0, 0], [1, 1], [2, 2], [3, 3]]
    assert len(run.runs) == 3


def test_few_rows_do_not_wait_for_many() -> None:
    """Given forty rows of one caller that wait, when one of another comes, then it is in the next run."""
    run = Recorder()
    shared = batches(run)
    with ThreadPoolExecutor(4) as threads:
        first = threads.submit(shared.rows, [[40]], urgent=False)
        assert run.started.wait(5)
        many = threads.submit(shared.rows, [[n] for n in range(40)], urgent=False)
        settle(shared, 40)
        few = threads.submit(shared.rows, [[50] * 2], urgent=False)
        settle(shared, 41)
        run.go.set()
        for each in (first, many, few):
            each.result(timeout=10)
    assert [50, 50] in run.runs[1]
    assert sum(map(len, run.runs)) == 42


def test_a_row_that_several_callers_want_at_once_runs_once() -> None:
    """Given a row that runs and two that wait, when others want them too, then each runs once and reaches everybody, at
    the first turn that one of its callers has; afterwards it runs again."""
    run = Recorder()
    shared = batches(run, batch_size=1)
    with ThreadPoolExecutor(8) as threads:
        first = threads.submit(shared.rows, [[1]], urgent=False)
        assert run.started.wait(5)
        many = threads.submit(shared.rows, [[2], [3], [4], [3]], urgent=False)
        settle(shared, 4)
        few = threads.submit(shared.rows, [[1], [3]], urgent=False)
        settle(shared, 6)
        question = threads.submit(shared.rows, [[3]], urgent=True)
        settle(shared, 7)
        run.go.set()
        found = [[row[0] for row in future.result(timeout=10)] for future in (first, many, few, question)]
    assert found == [[1], [2, 3, 4, 3], [1, 3], [3]]
    assert run.runs == [[[1]], [[3]], [[3]], [[2]], [[4]]]
    assert len(shared.rows([[3]], urgent=False)) == 1
    assert len(run.runs) == 6


def test_a_failed_run_fails_every_caller_in_it_and_nobody_else() -> None:
    """Given a run that failed, then its only caller gets the error, and callers that shared it one to try again."""
    run = Recorder()
    shared = batches(run)
    with ThreadPoolExecutor(8) as threads:
        first = threads.submit(shared.rows, [[1]], urgent=False)
        assert run.started.wait(5)
        broken = [threads.submit(shared.rows, [[n]], urgent=False) for n in (-1, 2)]
        settle(shared, 2)
        other = threads.submit(shared.rows, [[3] * 5], urgent=False)
        settle(shared, 3)
        run.go.set()
        assert first.result()[0][0] == 1.0
        assert other.result()[0][0] == 15.0
        errors = [future.exception(timeout=5) for future in broken]
        alone = threads.submit(shared.rows, [[-1], [-1, 4]], urgent=False).exception(timeout=5)
    assert [(type(error), type(error and error.__cause__)) for error in errors] == [(ModelUnavailable, MemoryError)] * 2
    assert errors[0] is not errors[1]
    assert type(alone) is MemoryError


def test_nothing_in_nothing_out() -> None:
    assert batches(Recorder()).rows([], urgent=False) == []


class Slow(Recorder):
    """Each run takes long enough for the callers whose rows are done to ask again."""

    def __call__(self, batch: Sequence[Ids]) -> list[Vector]:
        threading.Event().wait(0.005)
        return super().__call__(batch)


def test_callers_of_another_length_who_never_pause_hold_nobody_up() -> None:
    run = Slow()
    run.go.set()
    shared, over, numbers = batches(run, batch_size=1), threading.Event(), count()

    def ask_repeatedly() -> None:
        while not over.is_set():
            shared.rows([[next(numbers)] for _ in range(3)], urgent=False)

    with ThreadPoolExecutor(5) as pool:
        busy = [pool.submit(ask_repeatedly) for _ in range(4)]
        assert run.started.wait(10)
        began = len(run.runs)
        found = pool.submit(shared.rows, [[1] * 8], urgent=False)
        try:
            assert [row.tolist() for row in found.result(timeout=20)] == [[8, 8]]
        finally:
            over.set()
        for each in busy:
            each.result(timeout=10)
    # Of each caller three rows may have come before it, and three more once those were done.
    at = next(place for place, batch in enumerate(run.runs) if len(batch[0]) == 8)
    assert at - began <= 40
