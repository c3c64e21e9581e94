"""kill -9 of operations alone and in pairs, and SIGSTOP beyond the lease: does each end as an undisturbed run?"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.harness import Report, Row, parser, say
from memforest_core.client.embedded.servers import EmbeddedServers
from tests.harness.kill_operations import REAL
from tests.harness.kill_runs import PAIRS, STAGES, WRITTEN, Arena, Point, arena, chosen, drawn_points, drawn_stops
from tests.harness.servers import SessionServers
from tests.harness.stack import make_template

POINTS = {"operations": 50, "pairs": 20, "zombies": 20}
SHOWN = 3
MEASURED = (
    "small forests, offline extraction and summaries, real Postgres and the Qdrant engine. events: statements, commits"
    " and index writes of a run that nobody disturbs. operations: a process gets SIGKILL at a point, another one takes"
    " over. pairs: two operations at once, or one and a writer; one of the two gets SIGKILL, a third one takes over;"
    " the end must be that of one after the other. zombies: a process gets SIGSTOP at a point of a stage, another one"
    " does the work, and the first goes on. differing: points after which rows, trees, summaries, points or files are"
    " others, ids and times excepted; unclean: points after which memforest verify, a receipt or the audit complains;"
    " unreached: runs that ended before the event; heard: faults"
    " that passed; replay: numbers for --at"
)


@contextmanager
def place(processes: int) -> Iterator[Arena]:
    """An arena on servers of its own; everything ends with the block."""
    with ExitStack() as undo:
        directory = Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="memforest-kill-")))
        embedded = undo.enter_context(EmbeddedServers.start(directory / "servers"))
        servers = SessionServers(embedded.postgres_url, embedded.broker_url, embedded.redis_url, embedded)
        make_template(servers)
        yield undo.enter_context(arena(servers, directory, processes))


def row(
    name: str, outcomes: Mapping[int, Any], unreached: int, calm: Sequence[str], started: float, **more: int
) -> Row:
    """The figures of one operation, pair or stage. ``outcomes`` by the number that replays each."""
    for line in calm:
        say(f"{name}, undisturbed: {line:.600}")
    for at, outcome in outcomes.items():
        if not outcome.sound:
            say(f"{name} --at {at}: {outcome}"[:600])
            for line in [*outcome.differing[:SHOWN], *outcome.unclean[:SHOWN]]:
                say(f"    {line:.600}")
    heard = sum((Counter(getattr(each, "heard", ())) for each in outcomes.values()), Counter[str]())
    made: Row = {
        "name": name,
        "points": len(outcomes),
        **more,
        "differing": sum(bool(each.differing) for each in outcomes.values()),
        "unclean": sum(bool(each.unclean) for each in outcomes.values()) + bool(calm),
        "unreached": unreached,
        "heard": dict(heard),
        "seconds": round(time.monotonic() - started, 1),
        "replay": [at for at, each in outcomes.items() if not each.sound],
    }
    say("  ".join(f"{key}={value}" for key, value in made.items()))
    return made


def operations(points: int, at: int | None, seed: int, processes: int, only: Sequence[str]) -> Iterator[Row]:
    """Each operation alone, killed at its points."""
    with place(processes) as ground:
        grown = ground.grown()
        for name in only or REAL:
            started, ends = time.monotonic(), ground.ends((name,), grown)
            events = ends.events["first"]
            wanted = chosen(events, points, random.Random(f"{seed}/{name}")) if at is None else [Point(at, at=at)]
            outcomes = {each.point.number: each for each in ground.outcomes(ends, wanted)}
            missed = sum(not each.hit for each in outcomes.values())
            yield row(name, outcomes, missed, ends.unclean, started, events=len(events))


def pairs(points: int, at: int | None, seed: int, processes: int, only: Sequence[str]) -> Iterator[Row]:
    """Two operations at once, or one and a writer. The first point is undisturbed."""
    with place(processes) as ground:
        grown = ground.grown()
        for pair in [*PAIRS, *WRITTEN]:
            name = "+".join(pair)
            if only and name not in only:
                continue
            started, ends = time.monotonic(), ground.ends(pair, grown)
            wanted = [point for point in drawn_points(ends, points, seed) if at in (None, point.number)]
            outcomes = {each.point.number: each for each in ground.outcomes(ends, wanted)}
            refused = sum(len(each.order) < len(ends.events) for each in outcomes.values())
            missed = sum(each.point.at is not None and not each.hit for each in outcomes.values())
            yield row(name, outcomes, missed, ends.unclean, started, refused=refused)


def zombies(points: int, at: int | None, seed: int, processes: int, only: Sequence[str]) -> Iterator[Row]:
    """A process that is stopped beyond its lease and goes on, at each stage."""
    with place(processes) as ground:
        ends = ground.ends_of_session(ground.grown())
        for stage in only or STAGES:
            started = time.monotonic()
            stops = [stop for stop in drawn_stops(ends, points, seed, [stage]) if at in (None, stop.at)]
            outcomes = {each.point.at or 0: each for each in ground.outcomes(ends, stops)}
            missed = sum(not each.hit for each in outcomes.values())
            yield row(stage, outcomes, missed, ends.unclean, started, events=len(ends.events[stage]))


KINDS = {"operations": operations, "pairs": pairs, "zombies": zombies}


def main() -> None:
    """Run from the command line; exit code 1 when an end was another."""
    options = parser(__doc__ or "")
    options.add_argument("kind", choices=KINDS)
    options.add_argument("--points", type=int, metavar="N", help=f"of each (default: {POINTS})")
    options.add_argument("--only", nargs="+", default=(), metavar="NAME", help="operations, pairs A+B or stages")
    options.add_argument("--at", type=int, metavar="N", help="only this point: replays it")
    options.add_argument("--processes", type=int, default=2, metavar="N", help="concurrently (default: %(default)s)")
    given = options.parse_args()
    report = Report(given.seed, given.json)
    points = given.points or POINTS[given.kind]
    rows = list(KINDS[given.kind](points, given.at, given.seed, given.processes, given.only))
    report.end(rows, {"what": MEASURED})
    sys.exit(1 if any(each["differing"] or each["unclean"] for each in rows) else 0)


if __name__ == "__main__":
    main()
