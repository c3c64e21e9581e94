"""Seconds of each operation on one person's memory: writing, refresh, merge, erasure, export and import.

An embedded node with the offline model and the public interface only, so that two commits can be compared by turns.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.harness import Report, Row, parser, say
from benchmarks.lives import Described, period
from memforest_core.client.api import MemForest

ACTOR = "benchmark"
TIMEOUT_S = 900.0
MEASURED = (
    "medians of rounds, each with owners of its own; facts_s: until the sessions of two owners are facts; refresh_s:"
    " until their summaries are current after that; merge_s: both into a third one, with its summaries; erase_s: one"
    " session of it, until the receipt and the new summaries; export_s and import_s: a bundle of it"
)


def timed(memory: MemForest, number: int, sessions: int, seed: int, place: Path) -> Iterator[tuple[str, float]]:
    """The seconds of each operation of one round."""
    owners = [f"first-{number}", f"second-{number}"]
    lives = {owner: list(period(2 * number + place_, sessions, seed)) for place_, owner in enumerate(owners)}
    merged, bundle = f"merged-{number}", place / f"{number}.memforest"

    def write() -> None:
        for owner, life in lives.items():
            for one in life[:-1]:
                memory.ingest(owner, one.session_id, one.turns, wait="none")
            memory.ingest(owner, life[-1].session_id, life[-1].turns, wait="facts", timeout_s=TIMEOUT_S)

    def refresh() -> None:
        for owner in owners:
            memory.flush(owner, TIMEOUT_S)

    def merge() -> None:
        memory.lifecycle.merge(owners, merged, actor=ACTOR).wait(TIMEOUT_S)
        memory.flush(merged, TIMEOUT_S)

    def erase() -> None:
        chosen: Described = lives[owners[0]][0]
        memory.lifecycle.forget(merged, session=chosen.session_id, actor=ACTOR).wait(TIMEOUT_S)
        memory.flush(merged, TIMEOUT_S)

    def export() -> None:
        memory.lifecycle.export(merged, bundle, actor=ACTOR)

    def import_() -> None:
        memory.lifecycle.import_(bundle, owner=f"imported-{number}", actor=ACTOR)
        memory.flush(f"imported-{number}", TIMEOUT_S)

    steps: dict[str, Callable[[], None]] = {
        "facts_s": write,
        "refresh_s": refresh,
        "merge_s": merge,
        "erase_s": erase,
        "export_s": export,
        "import_s": import_,
    }
    for name, step in steps.items():
        started = time.perf_counter()
        step()
        yield name, time.perf_counter() - started


def main() -> None:
    """Run and print."""
    options = parser(__doc__ or "")
    options.add_argument("--sessions", type=int, default=20, help="of each owner (default: %(default)s)")
    options.add_argument("--rounds", type=int, default=5, help="that are timed (default: %(default)s)")
    chosen = options.parse_args()
    report = Report(chosen.seed, chosen.json)
    spent: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="memforest-bench-") as directory:
        place = Path(directory)
        with MemForest.embedded(place / "node") as memory:
            for number in range(chosen.rounds):
                for name, seconds in timed(memory, number, chosen.sessions, chosen.seed, place):
                    spent[name].append(seconds)
                say(f"round {number + 1}: " + "  ".join(f"{name} {each[-1]:.2f}" for name, each in spent.items()))
    row: Row = {"n": chosen.rounds, "sessions": chosen.sessions}
    row |= {name: round(statistics.median(each), 3) for name, each in spent.items()}
    report.end([row], {"what": MEASURED})


if __name__ == "__main__":
    main()
