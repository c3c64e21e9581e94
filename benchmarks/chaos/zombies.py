"""SIGSTOP at seeded points of extract, reduce, refresh and index, beyond the lease, then SIGCONT: any harm done?"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from benchmarks.chaos.killing import place
from benchmarks.harness import Report, Row, parser, say
from tests.harness.kill_zombies import STAGES, Calm, Outcome, ZombieArena, drawn

POINTS = 20
PROCESSES = 2
SHOWN = 3
MEASURED = (
    "a process works on a new session and gets SIGSTOP at an event (a statement, a commit, a write of the index) of one"
    " stage; another one finds its leases lost, does the work, and in two of three points deletes that session, or its"
    " owner; then the first one gets SIGCONT, goes on and works to rest. A transaction that stands still is ended by"
    " Postgres. differing: points after which rows, trees, summaries or points are others than without the first"
    " process; unclean: points after which memforest verify, a receipt or the audit complains; unreached: runs that"
    " ended before the event; heard: faults that the process met when it went on; replay: events for --at"
)


def broken(outcome: Outcome) -> bool:
    """Whether a point is one to replay; if so, says what is wrong."""
    if outcome.kept:
        return False
    stop = outcome.stop
    say(f"{stop.stage} --at {stop.at}, meanwhile {stop.meanwhile}: stopped before: {outcome.what}; {outcome.heard}")
    for line in [*outcome.differing[:SHOWN], *outcome.unclean[:SHOWN]]:
        say(f"    {line:.600}")
    return True


def run(ground: ZombieArena, calm: Calm, stage: str, points: int, at: int | None, seed: int) -> Row:
    """One stage: stop a process at each of its points."""
    started = time.monotonic()
    stops = [stop for stop in drawn(calm, points, seed, [stage]) if at is None or stop.at == at]
    outcomes = list(ground.stops(calm, stops))
    heard = sum((Counter(each.heard) for each in outcomes), Counter[str]())
    row: Row = {
        "stage": stage,
        "points": len(outcomes),
        "events": len(calm.events[stage]),
        "differing": sum(bool(each.differing) for each in outcomes),
        "unclean": sum(bool(each.unclean) for each in outcomes),
        "unreached": sum(not each.stopped for each in outcomes),
        "heard": dict(heard),
        "seconds": round(time.monotonic() - started, 1),
        "replay": [each.stop.at for each in outcomes if broken(each)],
    }
    say("  ".join(f"{key}={value}" for key, value in row.items()))
    return row


def stages(text: str) -> list[str]:
    """Stages from a list with commas."""
    wanted = text.split(",")
    if unknown := [name for name in wanted if name not in STAGES]:
        raise argparse.ArgumentTypeError(f"there is no stage {unknown[0]}; there are {', '.join(STAGES)}")
    return wanted


def main() -> None:
    """Run from the command line; exit code 1 when an end was another."""
    options = parser(__doc__ or "")
    options.add_argument("--points", type=int, default=POINTS, metavar="N", help="of each stage (default: %(default)s)")
    options.add_argument("--stage", type=stages, default=list(STAGES), metavar="A,B", help="which (default: all)")
    options.add_argument("--at", type=int, metavar="N", help="only this one of the chosen events: replays it")
    options.add_argument("--processes", type=int, default=PROCESSES, metavar="N", help="at a time (%(default)s)")
    asked = options.parse_args()
    report = Report(asked.seed, asked.json)
    started = time.monotonic()
    with place(ZombieArena, asked.processes) as ground:
        calm = ground.calm_session(ground.grown())
        for line in calm.unclean:
            say(f"without disturbance: {line:.600}")
        rows = [run(ground, calm, stage, asked.points, asked.at, asked.seed) for stage in asked.stage]
    report.end(rows, {"what": MEASURED, "seconds": round(time.monotonic() - started, 1)})
    sys.exit(1 if calm.unclean or any(row["differing"] or row["unclean"] for row in rows) else 0)


if __name__ == "__main__":
    main()
