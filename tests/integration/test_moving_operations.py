"""A tenant moves while operations are requested and workers run: none is lost, doubled, or left without an end."""

from __future__ import annotations

import random
import threading
import time

import pytest

from memforest_core.errors import CallerError, RetryableError
from memforest_workers.runtime import Runtime
from tests.harness.kill_mover import killed
from tests.harness.sayings import said
from tests.harness.stack import Stack
from tests.integration.test_moving import KILLED_AT, OWNERS, STORED, _address, _moved, other

__all__ = ["other"]
SEEDS = (1,)
PATIENCE_S = 90
UNFINISHED = """SELECT kind, state, count(*) FROM memforest.maintenance
    WHERE kind <> 'vacuum' AND state <> 'done' GROUP BY 1, 2"""


class Working(threading.Thread):
    """Workers of one database, until ``stop``."""

    def __init__(self, running: Stack) -> None:
        super().__init__()
        self.running, self.ended = running, threading.Event()

    def run(self) -> None:
        self.running.runtime.start()
        runtime = self.running.runtime
        while not self.ended.wait(0.02):
            for step in (runtime.extract, runtime.reduce, runtime.maintain):
                try:
                    step()
                except RetryableError:
                    self.ended.wait(0.1)
        runtime.stop()

    def stop(self) -> None:
        self.ended.set()
        self.join()


def _request(source: Stack, rng: random.Random, number: int, erased: set[tuple[str, str]]) -> None:
    owner, lifecycle = rng.choice(OWNERS), source.memory.lifecycle
    match rng.randrange(5):
        case 0 | 1:
            session = f"s{rng.randrange(max(1, number))}"
            lifecycle.forget(owner, session=session, actor="x")
            erased.add((owner, session))
        case 2:
            lifecycle.forget(owner, speaker="nobody" if rng.random() < 0.5 else "zoe", actor="x")
        case 3:
            lifecycle.forget(owner, since=1_600_000_000, until=1_600_000_900, actor="x")
        case _:
            lifecycle.set_policy(owner, max_facts=10_000, actor="x")
            lifecycle.apply_policy(owner, actor="x")


@pytest.mark.timeout(500)
@pytest.mark.parametrize("seed", SEEDS)
def test_operations_that_a_move_interrupts_all_end_in_the_other_database(
    pipeline: Stack, other: Stack, seed: int
) -> None:
    rng, stop = random.Random(seed), threading.Event()
    accepted: set[tuple[str, str]] = set()
    erased: set[tuple[str, str]] = set()

    def act() -> None:
        number = 0
        while not stop.wait(rng.random() * 0.1):
            owner, session = rng.choice(OWNERS), f"s{number}"
            try:
                pipeline.memory.enqueue(owner, session, said(f"I bought lamp number {number}.", "It is green."))
                accepted.add((owner, session))
                number += 1
                _request(pipeline, rng, number, erased)
            except (CallerError, RetryableError):
                pass

    callers = threading.Thread(target=act)
    workers = [Working(each) for each in (pipeline, other)]
    for each in (callers, *workers):
        each.start()
    try:
        while len(accepted) < 5:
            time.sleep(0.1)
        for words, count in rng.sample(KILLED_AT[:3], 2):
            assert killed(pipeline.settings.database, _address(other), pipeline.tenant, words, count), words
        for _ in range(5):
            try:
                _moved(pipeline, other)
                break
            except RetryableError:
                continue
        stop.set()
        callers.join()
        deadline = time.monotonic() + PATIENCE_S
        while other.rows(UNFINISHED) and time.monotonic() < deadline:
            other.hurry()
            time.sleep(0.2)
        assert [tuple(row) for row in other.rows(UNFINISHED)] == []
    finally:
        stop.set()
        callers.join()
        for worker in workers:
            worker.stop()
    other.runtime = Runtime(other.services, list(other.runtime.queues), name="after")
    other.drive()
    other.assert_verified()
    assert erased
    assert {(owner, session) for owner, session, _ in other.rows(STORED)} == accepted - erased
    assert not pipeline.counts()["turn"]
