"""How long a recall in embedding mode takes as forests grow: alone, with others, and first; without the embedding."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import Database, Report, Row, database, parser, say
from benchmarks.recall_latency.measuring import (
    Measured,
    Questions,
    alone,
    at_once,
    collection,
    first_of_forests,
    first_of_process,
    maintained,
    recalled,
    service_of,
)
from benchmarks.recall_latency.processes import filled, in_processes
from benchmarks.recall_latency.world import DIMENSION, TENANT
from memforest_core.index.vector_index import VectorIndex
from memforest_core.lifecycle.verify.service import Verification
from memforest_core.recall.service import RecallService
from memforest_core.settings import RefreshSettings

SIZES = (1_000, 10_000, 100_000)
FORESTS = 1_000
FOREST_FACTS = 100
"""In each of many forests."""
QUESTIONS = 200
WARM_UP = 40
TURN = 20
"""Questions to one forest before the next has its turn: one at a time each would find the processor's caches full of
the others', which takes up to half as long again."""
CALLERS = 20
PROCESSES = 2
VERIFIED = 2_000
"""Facts up to which ``verify`` looks at what was filled in: it takes seconds per thousand."""
MOST = 2.0
"""Times the p50 of the smallest forest that the p50 of the largest may take."""
MEASURED = (
    "milliseconds of RecallService.recall in embedding mode, k=10, without the stage that embeds the question, one"
    " question at a time, to the single forests by turns; real Postgres and the Qdrant engine in this process, both"
    " with this row's forests alone. A"
    " fact is said by one turn, two turns are a cell, twenty a session; trees and summaries as refresh leaves them"
    " without a model. cpu_ms: CPU of the asking thread (mean). round_trips: vector searches of one recall (median)."
    " parts_ms: means of the stages and the rest, together mean_ms. forests_cold: forests that nobody asked before."
    " graphs_s: seconds that were waited, after the recalls that warm up, for graphs of large forests."
    " at_once: callers in one process, each asking again when it is answered, after two questions beforehand."
    " in_processes: the same callers in two processes, which ask the index at the socket of the one that owns it."
    " process_cold: a new process opens its"
    " stores and recalls twice"
)


def verify(running: Database, index: VectorIndex) -> None:
    """What was filled in must be what the pipeline leaves. Ends the program when it is not."""
    report = Verification(running.service, index, RefreshSettings().budget_chars, TENANT).run()
    broken = {check.check.value: check.violations for check in report.checks if check.violations}
    if broken:
        raise SystemExit(f"What was filled in is not what the pipeline leaves: {broken}")


@dataclass(frozen=True, slots=True)
class Size:
    """A forest, or many, filled in and open; ``row`` gets what is measured."""

    running: Database
    index: VectorIndex
    requested: Questions
    service: RecallService
    row: Row


@contextmanager
def opened(facts: int, forests: int, options: argparse.Namespace) -> Iterator[Size]:
    """Fill two new stores, ask until the caches of the process are filled, and at the end measure a new process."""
    with database() as running, tempfile.TemporaryDirectory(prefix="memforest-bench-index-") as directory:
        requested = filled(running, Path(directory), facts, forests, WARM_UP + options.questions, options.seed)
        with collection(Path(directory)) as index:
            if facts <= VERIFIED:
                verify(running, index)
            service = service_of(running.service, index, requested)
            row: Row = {"facts": facts, "forests": forests, "n": options.questions, "seed": options.seed}
            if forests > 1:
                row["forests_cold"] = first_of_forests(service, requested[:WARM_UP])
            for owner, one in requested[:WARM_UP]:
                recalled(service, owner, one.text)
            row["graphs_s"] = round(maintained(index), 1)
            yield Size(running, index, requested, service, row)
        row["process_cold"] = first_of_process(running.service.url, Path(directory), requested[:2])
    say("  ".join(f"{name}={value}" for name, value in row.items()))


def measure(sizes: Sequence[Size], options: argparse.Namespace) -> None:
    """Questions one at a time, some to each size by turns, so that a slow minute of the machine is all of theirs; then
    what many callers get, of each size by itself."""
    described: list[list[Measured]] = [[] for _ in sizes]
    for first in range(WARM_UP, WARM_UP + options.questions, TURN):
        for size, measured in zip(sizes, described, strict=True):
            measured += [recalled(size.service, owner, one.text) for owner, one in size.requested[first : first + TURN]]
    for size, measured in zip(sizes, described, strict=True):
        size.row.update(alone(measured))
        size.row["at_once"] = at_once(size.service, size.requested, options.callers)
        size.row["in_processes"] = in_processes(
            size.running.service.url, size.index, size.requested, options.callers, PROCESSES
        )


def main() -> None:
    """Run from the command line."""
    options = parser(__doc__ or "")
    options.add_argument(
        "--sizes",
        type=lambda text: [int(part) for part in text.split(",")],
        default=SIZES,
        metavar="N,N",
        help="facts in one forest (default: 1000,10000,100000)",
    )
    options.add_argument(
        "--forests", type=int, default=FORESTS, metavar="N", help="forests in one collection, 0 for no such row"
    )
    options.add_argument("--questions", type=int, default=QUESTIONS, metavar="N", help="recalls measured per row")
    options.add_argument(
        "--callers", type=int, default=CALLERS, metavar="N", help="recalls at once (default: %(default)s)"
    )
    options.add_argument(
        "--most", type=float, default=MOST, metavar="X", help="largest p50 by smallest allowed (default: %(default)s)"
    )
    chosen = options.parse_args()
    report = Report(chosen.seed, chosen.json)
    with ExitStack() as stack:
        sizes = [stack.enter_context(opened(size, 1, chosen)) for size in chosen.sizes]
        measure(sizes, chosen)
    rows = of_sizes = [size.row for size in sizes]
    if chosen.forests:
        with opened(chosen.forests * FOREST_FACTS, chosen.forests, chosen) as many:
            measure([many], chosen)
        rows = [*of_sizes, many.row]
    measured = {
        "what": MEASURED,
        "dimension": DIMENSION,
        "warm_up": WARM_UP,
        "ratio": round(ratio(of_sizes), 2),
        "most": chosen.most,
    }
    report.end(rows, measured)
    sys.exit(0 if ratio(of_sizes) <= chosen.most else 1)


def ratio(rows: Sequence[Row]) -> float:
    """The p50 of the largest forest by that of the smallest."""
    small, large = (extreme(rows, key=lambda row: int(str(row["facts"]))) for extreme in (min, max))
    return float(str(large["p50_ms"])) / float(str(small["p50_ms"]))


if __name__ == "__main__":
    main()
