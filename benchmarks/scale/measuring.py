"""What an operation costs, what that is against a tenth of the size, and what it would be where time is too short."""

from __future__ import annotations

import math
import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil

from benchmarks.harness import Row, say
from benchmarks.support.stack import Stack
from benchmarks.write_path import counting

LOOK_S = 0.02
PROBE = 10
"""The smallest size that is worth measuring below a tenth."""
FLOORS = {"seconds": 0.25, "resident_mb": 0.0, "disk_mb": 32.0, "statements": 50.0}
"""Below these a figure is not judged: noise of the machine, a table's first pages, a round more or less."""


@dataclass(frozen=True, slots=True)
class Cost:
    """One operation at one size."""

    seconds: float
    resident_mb: float
    """The most that this process held meanwhile: clients, workers' loops, the vector engine; not Postgres."""
    disk_mb: float
    """What the database and the index grew by."""
    statements: float

    def values(self) -> Mapping[str, float]:
        """By name."""
        return asdict(self)


Costs = Mapping[str, Cost]
"""By operation, in the order in which they were done."""
Scenario = Callable[[int, int], Costs]
"""Does everything at one size (with one seed); in a process of its own, so that memory tells of this size alone."""


@dataclass(slots=True)
class Meter:
    """Measures the operations of one run, one after the other."""

    running: Stack
    index: Path
    costs: dict[str, Cost] = field(default_factory=dict)

    @contextmanager
    def of(self, operation: str) -> Iterator[None]:
        """Measure what the block does."""
        before = disk_mb(self.running, self.index)
        with counting() as sent, _peak() as peak:
            started = time.perf_counter()
            yield
            seconds = time.perf_counter() - started
        grown = disk_mb(self.running, self.index) - before
        self.costs[operation] = Cost(seconds, peak[0] / 1e6, grown, sum(sent.by_kind.values()))


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

    def look() -> None:
        while not done.wait(LOOK_S):
            peak[0] = max(peak[0], process.memory_info().rss)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


def n_log_n(small: int, large: int) -> float:
    """How many times more n log n is at the large size."""
    return large * math.log(large) / (small * math.log(max(small, 2)))


@dataclass(frozen=True, slots=True)
class Grown:
    """The costs of one scenario at the sizes that were run."""

    runs: Sequence[tuple[int, Costs]]
    """Sizes, rising."""

    def at(self, size: int, operation: str) -> tuple[Mapping[str, float], bool]:
        """What an operation costs at a size, and whether that is extrapolated from the last two that were run."""
        measured = dict(self.runs)
        if size in measured:
            return measured[size][operation].values(), False
        (small, fewer), (large, more) = self.runs[-2:]
        return {
            name: extrapolated(size, (small, fewer[operation].values()[name]), (large, value))
            for name, value in more[operation].values().items()
        }, True


def extrapolated(size: int, fewer: tuple[int, float], more: tuple[int, float]) -> float:
    """A line or a power law through two points (size, value), whichever is higher: a line where most is a fixed cost.

    A value that fell or was not there stays as it is.
    """
    (small, low), (large, high) = fewer, more
    if low <= 0 or high <= low:
        return high
    exponent = math.log(high / low) / math.log(large / small)
    line = high + (high - low) / (large - small) * (size - large)
    return max(line, high * math.pow(size / large, exponent))


def grown(name: str, scenario: Scenario, size: int, seed: int, limit_s: float) -> Grown:
    """Run a scenario at a tenth of its size and at its size, while that fits into the limit of seconds.

    A hundredth is tried first. A size fits if it would still end in time with n log n; where the next one does not, the
    last one is doubled as often as it fits. Two sizes are always run.
    """
    runs: list[tuple[int, Costs]] = []
    took: list[tuple[int, float]] = []

    def run(next_: int) -> None:
        started = time.monotonic()
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as own:
            runs.append((next_, own.submit(scenario, next_, seed).result()))
        took.append((next_, time.monotonic() - started))
        say(f"{name}, {next_:,}: {took[-1][1]:.1f} s")

    def fits(next_: int) -> bool:
        return sum(seconds for _, seconds in took) + expected_s(took, next_) <= limit_s

    for target in (*([size // 100] if size // 100 >= PROBE else []), size // 10, size):
        while runs and not fits(target):
            double = 2 * runs[-1][0]
            if len(runs) > 1 and not fits(double):
                return Grown(runs)
            run(min(double, target))
        if not runs or runs[-1][0] < target:
            run(target)
    return Grown(runs)


def expected_s(took: Sequence[tuple[int, float]], size: int) -> float:
    """What a size will take: n log n from the first (size, seconds), and along the line through the last two."""
    last, seconds = took[-1]
    if len(took) == 1:
        return seconds * n_log_n(last, size)
    before, fewer = took[-2]
    slope = max(0.0, seconds - fewer) / (last - before)
    return seconds + slope * (size - last) * math.log(size) / math.log(last)


def rows(name: str, size: int, found: Grown, slack: float) -> list[Row]:
    """One row for each operation: its cost, that at a tenth, and how much faster than the size it grew."""
    most = slack * n_log_n(size // 10, size) / 10
    made: list[Row] = []
    for operation in found.runs[0][1]:
        whole, guessed = found.at(size, operation)
        tenth, tenth_guessed = found.at(size // 10, operation)
        growth = {
            each: round(value / tenth[each] / 10, 3)
            for each, value in whole.items()
            if tenth[each] > 0 and value > FLOORS[each]
        }
        made.append(
            {
                "scenario": name,
                "operation": operation,
                "n": size,
                **{each: round(value, 3) for each, value in whole.items()},
                "tenth": {each: round(value, 3) for each, value in tenth.items()},
                "growth": growth,
                "most": round(most, 3),
                "within": all(each <= most for each in growth.values()),
                "measured_to": found.runs[-1][0],
                "extrapolated": guessed or tenth_guessed,
            }
        )
    return made
