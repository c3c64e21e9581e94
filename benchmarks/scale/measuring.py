"""What an operation costs at a size and at a tenth of it."""

from __future__ import annotations

import math
import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil

from benchmarks.harness import Row, say
from benchmarks.write_path import counting
from tests.harness.stack import Stack

READ_NOW_S = 0.02
FLOORS = {"seconds": 0.25, "resident_mb": 0.0, "disk_mb": 32.0, "statements": 50.0, "facts": math.inf}
"""Below these a figure is not judged: noise of the machine, a table's first pages, a round more or less. Facts are what
was made, not what it cost."""


@dataclass(frozen=True, slots=True)
class Cost:
    """One operation at one size."""

    seconds: float
    resident_mb: float
    """The most that this process held meanwhile: clients, workers' loops, the vector engine; not Postgres."""
    disk_mb: float
    """What the database and the index grew by."""
    statements: float
    facts: float
    """How many more there were afterwards."""

    def values(self) -> Mapping[str, float]:
        """By name."""
        return asdict(self)


Costs = Mapping[str, Cost]
"""By operation, in the order in which they were done."""


@dataclass(slots=True)
class Meter:
    """Measures the operations of one run, one after the other."""

    running: Stack
    index: Path
    costs: dict[str, Cost] = field(default_factory=dict)

    @contextmanager
    def of(self, operation: str) -> Iterator[None]:
        """Measure what the block does."""
        before, facts = disk_mb(self.running, self.index), self._facts()
        with counting() as sent, _peak() as peak:
            started = time.perf_counter()
            yield
            seconds = time.perf_counter() - started
        grown = disk_mb(self.running, self.index) - before
        made = self._facts() - facts
        self.costs[operation] = Cost(seconds, peak[0] / 1e6, grown, sum(sent.by_kind.values()), made)

    def _facts(self) -> int:
        return int(self.running.rows("SELECT count(*) FROM memforest.fact")[0][0])


def disk_mb(running: Stack, index: Path) -> float:
    """The database, and the blocks of the index's files (which have holes)."""
    size = running.rows("SELECT pg_database_size(current_database())")[0][0]
    blocks = sum(path.stat().st_blocks for path in index.rglob("*") if path.is_file())
    return (int(size) + 512 * blocks) / 1e6


@contextmanager
def _peak() -> Iterator[list[int]]:
    """One number: the most resident bytes of this process."""
    process, done = psutil.Process(), threading.Event()
    peak = [process.memory_info().rss]

    def check_now() -> None:
        while not done.wait(READ_NOW_S):
            peak[0] = max(peak[0], process.memory_info().rss)

    thread = threading.Thread(target=check_now, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


def n_log_n(small: int, large: int) -> float:
    """How many times more n log n is at the large size."""
    return large * math.log(large) / (small * math.log(max(small, 2)))


def grown(name: str, scenario: Callable[[int, int], Costs], size: int, seed: int) -> tuple[Costs, Costs]:
    """The costs of a scenario at a tenth of its size and at its size, each in a process of its own."""
    found = []
    for each in (max(1, size // 10), size):
        started = time.monotonic()
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as own:
            found.append(own.submit(scenario, each, seed).result())
        say(f"{name}, {each:,}: {time.monotonic() - started:.1f} s")
    return found[0], found[1]


def rows(name: str, size: int, fewer: Costs, more: Costs, slack: float) -> list[Row]:
    """One row for each operation: its cost, and how much faster than the size it grew from a tenth."""
    small = max(1, size // 10)
    most = slack * n_log_n(small, size) * small / size
    made: list[Row] = []
    for operation, cost in more.items():
        whole, less = cost.values(), fewer[operation].values()
        growth = {
            each: round(value / less[each] * small / size, 3)
            for each, value in whole.items()
            if less[each] > 0 and value > FLOORS[each]
        }
        made.append(
            {
                "scenario": name,
                "operation": operation,
                "n": size,
                **{each: round(value, 3) for each, value in whole.items()},
                "tenth": {each: round(value, 3) for each, value in less.items()},
                "growth": growth,
                "most": round(most, 3),
                "within": all(each <= most for each in growth.values()),
            }
        )
    return made
