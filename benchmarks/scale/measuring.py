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
from benchmarks.write_path import counting
from tests.harness.stack import Stack

LOOK_S = 0.02
PROBE = 10
"""The smallest size that is worth measuring below a tenth."""
FLOORS = {"seconds": 0.25, "resident_mb": 0.0, "disk_mb": 32.0, "statements": 50.0, "facts": math.inf}
"""Below these a figure is not judged: noise of the machine, a table's first pages, a round more or less. Facts are what
was made, not what it cost."""
STEP = 2
"""A next size is at least so many times the last one: less is not worth its time."""


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
    """Sizes, rising; a tenth of the largest is one of them."""

    @property
    def pair(self) -> tuple[tuple[int, Costs], tuple[int, Costs]]:
        """A tenth of the largest size that was run, and that size: what is judged, and continued to larger sizes."""
        size, costs = self.runs[-1]
        return (tenth(size), dict(self.runs)[tenth(size)]), (size, costs)

    def at(self, size: int, operation: str) -> Mapping[str, float]:
        """What an operation costs at a size; one that was not run is extrapolated from the pair."""
        measured = dict(self.runs)
        if size in measured:
            return measured[size][operation].values()
        (small, fewer), (large, more) = self.pair
        return {
            name: extrapolated(size, (small, fewer[operation].values()[name]), (large, value))
            for name, value in more[operation].values().items()
        }


def tenth(size: int) -> int:
    """What a size is compared with: at least one."""
    return max(1, size // 10)


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
    """Run a scenario at its size, or at the largest that fits into the limit of seconds, and at a tenth of that.

    It begins with a hundredth (``next_size``). A tenth of the first size is run whatever the limit.
    """
    runs: dict[int, Costs] = {}
    took: list[tuple[int, float]] = []

    def run(next_: int) -> None:
        started = time.monotonic()
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as own:
            runs[next_] = own.submit(scenario, next_, seed).result()
        took.append((next_, time.monotonic() - started))
        say(f"{name}, {next_:,}: {took[-1][1]:.1f} s")

    run(size // 100 if size // 100 >= PROBE else tenth(size))
    while (next_ := next_size(took, size, limit_s)) is not None:
        run(next_)
    largest = took[-1][0]
    if tenth(largest) not in runs:
        run(tenth(largest))
    return Grown(sorted(runs.items()))


def next_size(took: Sequence[tuple[int, float]], size: int, limit_s: float) -> int | None:
    """The largest size that fits into the limit with a tenth of it, at most ``size`` and ten times the last one.

    ``took`` are the sizes that were run, rising, with their seconds. A size fits if it would end in time with n log n.
    None where that is not well above the last one.
    """
    last, done = took[-1][0], {each for each, _ in took}

    def fits(next_: int) -> bool:
        new = [next_] if tenth(next_) in done else [next_, tenth(next_)]
        return sum(seconds for _, seconds in took) + sum(expected_s(took, each) for each in new) <= limit_s

    most = min(size, 10 * last)
    if most > last and fits(most):
        return most
    low, high = last, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low if low >= STEP * last else None


def expected_s(took: Sequence[tuple[int, float]], size: int) -> float:
    """What a size will take: n log n from the first (size, seconds), and along the line through the last two.

    A smaller size than the last one takes at most as long.
    """
    last, seconds = took[-1]
    if size <= last:
        return seconds
    if len(took) == 1:
        return seconds * n_log_n(last, size)
    before, fewer = took[-2]
    slope = max(0.0, seconds - fewer) / (last - before)
    return seconds + slope * (size - last) * math.log(size) / math.log(last)


def rows(name: str, size: int, found: Grown, slack: float) -> list[Row]:
    """One row for each operation: its cost, and how much faster than the size it grew from a tenth of what was run.

    What is judged was measured; only the cost at a size that was not run is extrapolated.
    """
    (small, fewer), (large, more) = found.pair
    most = slack * n_log_n(small, large) * small / large
    made: list[Row] = []
    for operation, measured in more.items():
        whole, less = found.at(size, operation), fewer[operation].values()
        growth = {
            each: round(value / less[each] * small / large, 3)
            for each, value in measured.values().items()
            if less[each] > 0 and whole[each] > FLOORS[each]
        }
        made.append(
            {
                "scenario": name,
                "operation": operation,
                "n": size,
                **{each: round(value, 3) for each, value in whole.items()},
                "measured_to": large,
                "measured": {each: round(value, 3) for each, value in measured.values().items()},
                "tenth": {each: round(value, 3) for each, value in less.items()},
                "growth": growth,
                "most": round(most, 3),
                "within": all(each <= most for each in growth.values()),
                "extrapolated": large < size,
            }
        )
    return made
