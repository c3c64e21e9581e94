"""Merging forests that were written apart, against writing all their sessions into one forest one after the other."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.chaos.ground import Scene, ground
from benchmarks.harness import Report, Row, parser, say
from benchmarks.lives import Told, period
from memforest_core.client.api import MemForest

FORESTS = 8
SESSIONS = 70
"""In each forest: about 1,400 facts, as many as one of the paper's forests has (Table 10)."""
SEQUENTIAL = 8
"""Forests that are really written one after the other."""
LATENCY_S = 0.3
MOST_FACTS = 0.01
MOST_TREES = 0.08
LEAST = 2.4
"""The paper's speed-up at eight forests (Table 10)."""
WORKERS = 2
CONCURRENCY = 8
OPERATION_TIMEOUT_S = 900.0
ACTOR = "benchmark"
MEASURED = (
    "sequential_s: seconds until the sessions of the first n forests, sent to one owner forest by forest, are facts"
    " with summaries; merge_s: seconds from the request until n forests that stand apart are one, with its summaries."
    " Both with the same workers and a model server at the same latency, in databases of their own. facts, trees and"
    " llm_calls: of the merged forest and its merge; sequential_*: of the other one. Cached answers help neither."
    " extrapolated: only sequential_forests were written one after the other, sequential_s is their mean times n, and"
    " facts and trees are compared at the largest size that was written"
)
_COUNTS = """
    SELECT (SELECT count(*) FROM memforest.fact f WHERE f.forest_id = o.forest_id) AS facts,
           (SELECT count(*) FROM memforest.tree r WHERE r.forest_id = o.forest_id AND r.state = 'active') AS trees
      FROM memforest.forest o WHERE o.owner = :owner AND o.state = 'live'
"""


@dataclass(frozen=True, slots=True)
class Stand:
    """A forest at one moment: seconds, and what it took to get there."""

    seconds: float
    facts: int
    trees: int
    llm_calls: int


def written(forests: int, sessions: int, seed: int) -> list[list[Told]]:
    """The sessions of each forest: periods of one person's life, so that both ways tell of the same person."""
    return [list(period(number, sessions, seed)) for number in range(forests)]


def counted(scene: Scene, owner: str) -> tuple[int, int]:
    """Facts and active trees of an owner."""
    row = scene.running.rows(_COUNTS, owner=owner)[0]
    return int(row.facts), int(row.trees)


def calls(scene: Scene) -> int:
    """Requests that the model server has had."""
    return scene.running.control_model()["requests"]


def start(scene: Scene, workers: int) -> None:
    """Start the workers, all at once."""
    launched = [scene.running.launch_worker(concurrency=CONCURRENCY) for _ in range(workers)]
    for worker in launched:
        scene.running.await_worker(worker)


def enqueue(scene: Scene, owner: str, group: Sequence[Told]) -> None:
    """Send the sessions of one forest and wait until it is at rest."""
    scene.client.enqueue_many((owner, one.session_id, one.turns) for one in group)
    scene.client.flush(owner, OPERATION_TIMEOUT_S)


def sequential(scene: Scene, forests: Sequence[Sequence[Told]], workers: int) -> list[Stand]:
    """Write one forest after the other into one owner; how it stands after each."""
    start(scene, workers)
    before, spent, stands = calls(scene), 0.0, []
    for number, group in enumerate(forests, start=1):
        started = time.perf_counter()
        enqueue(scene, "all", group)
        spent += time.perf_counter() - started
        stands.append(Stand(spent, *counted(scene, "all"), calls(scene) - before))
        say(f"sequential, {number} forests: {stands[-1]}")
    return stands


def merged(scene: Scene, forests: Sequence[Sequence[Told]], sizes: Sequence[int], workers: int) -> list[Stand]:
    """Write the forests apart, then merge the first n into a new one, for each n."""
    start(scene, workers)
    for number, group in enumerate(forests):
        enqueue(scene, f"part-{number}", group)
    say(f"{len(forests)} forests stand apart")
    stands = []
    with MemForest.connect(scene.running.settings) as memory:
        for size in sizes:
            before, started = calls(scene), time.perf_counter()
            sources = [f"part-{number}" for number in range(size)]
            operation = memory.lifecycle.merge(sources, f"merged-{size}", keep_sources=True, actor=ACTOR)
            operation.wait(OPERATION_TIMEOUT_S)
            memory.flush(f"merged-{size}", OPERATION_TIMEOUT_S)
            seconds = time.perf_counter() - started
            stands.append(Stand(seconds, *counted(scene, f"merged-{size}"), calls(scene) - before))
            say(f"merged, {size} forests: {stands[-1]}")
    return stands


def continued_s(stands: Sequence[Stand], size: int) -> float:
    """Seconds that writing so many forests takes, or would take if each took as long as those that were written."""
    return stands[size - 1].seconds if size <= len(stands) else stands[-1].seconds / len(stands) * size


def main() -> None:
    """Run from the command line."""
    options = parser(__doc__ or "")
    options.add_argument("--forests", type=int, default=FORESTS, metavar="N", help="at most (default: %(default)s)")
    options.add_argument("--sessions", type=int, default=SESSIONS, metavar="N", help="in each (default: %(default)s)")
    options.add_argument(
        "--sequential",
        type=int,
        default=SEQUENTIAL,
        metavar="N",
        help="forests written one after the other; the seconds of more are extrapolated (default: %(default)s)",
    )
    options.add_argument("--sizes", type=int, nargs="+", metavar="N", help="forests merged (default: each up to all)")
    options.add_argument("--latency", type=float, default=LATENCY_S, metavar="S", help="of the model server")
    options.add_argument("--workers", type=int, default=WORKERS, metavar="N", help="processes (default: %(default)s)")
    options.add_argument("--trees", type=float, default=MOST_TREES, metavar="X", help="difference in trees allowed")
    options.add_argument("--least", type=float, default=LEAST, metavar="X", help="speed-up that the largest must reach")
    chosen = options.parse_args()
    report = Report(chosen.seed, chosen.json)
    forests = written(chosen.forests, chosen.sessions, chosen.seed)
    sizes = sorted(set(chosen.sizes or range(1, chosen.forests + 1)))
    if not 1 <= sizes[0] <= sizes[-1] <= chosen.forests or chosen.sequential < sizes[0]:
        options.error("--sizes are from 1 to --forests, and --sequential is at least the smallest of them")
    with ground([], chosen.seed) as place:
        with place.scene("sequential", latency_s=chosen.latency) as scene:
            one_by_one = sequential(scene, forests[: chosen.sequential], chosen.workers)
        with place.scene("apart", latency_s=chosen.latency) as scene:
            together = merged(scene, forests, sizes, chosen.workers)
    rows = [row(size, one_by_one, stand, chosen.seed) for size, stand in zip(sizes, together, strict=True)]
    largest = [number for number, size in enumerate(sizes) if size <= len(one_by_one)][-1]
    one, other = together[largest], one_by_one[sizes[largest] - 1]
    reached = {
        "speedup": float(str(rows[-1]["speedup"])) >= chosen.least,
        "facts": abs(one.facts / other.facts - 1) <= MOST_FACTS,
        "trees": abs(one.trees / other.trees - 1) <= chosen.trees,
    }
    measured = {
        "what": MEASURED,
        "latency_s": chosen.latency,
        "workers": chosen.workers,
        "concurrency": CONCURRENCY,
        "reached": reached,
    }
    report.end(rows, measured)
    sys.exit(0 if all(reached.values()) else 1)


def row(size: int, one_by_one: Sequence[Stand], merged_: Stand, seed: int) -> Row:
    """The figures of one size."""
    seconds = continued_s(one_by_one, size)
    made: Row = {
        "n": size,
        "seed": seed,
        "sequential_s": round(seconds, 1),
        "merge_s": round(merged_.seconds, 1),
        "speedup": round(seconds / merged_.seconds, 2),
        "extrapolated": size > len(one_by_one),
        "sequential_forests": f"{min(size, len(one_by_one))} of {size}",
        "facts": merged_.facts,
        "trees": merged_.trees,
        "llm_calls": merged_.llm_calls,
    }
    if size <= len(one_by_one):
        stand = one_by_one[size - 1]
        made |= {
            "sequential_facts": stand.facts,
            "sequential_trees": stand.trees,
            "sequential_llm_calls": stand.llm_calls,
        }
    return made


if __name__ == "__main__":
    main()
