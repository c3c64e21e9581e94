"""kill -9 at seeded points of every operation; another process takes over: does it end the same?"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Sequence

from benchmarks.chaos.killing import place
from benchmarks.harness import Report, Row, parser, say
from tests.harness.kill_operations import REAL
from tests.harness.kill_points import Arena, Calm, Outcome, Prepared, chosen

POINTS = 50
PROCESSES = 2
SHOWN = 3
MEASURED = (
    "three small forests, offline extraction and summaries, real Postgres and the Qdrant engine. events: statements"
    " sent, commits (before and after) and index writes (before and after) from asking until everything is at rest, in"
    " a run that nobody disturbs; points: events at which the process got SIGKILL, each on a copy of its own, the first"
    " and the last commit always among them; another process then reconciles and works until everything is at rest."
    " differing: points after which rows, trees, summaries, points or files are others than after the calm run, ids and"
    " moments aside; unclean: points after which memforest verify or the audit complains; recounted: points whose"
    " receipt has other numbers (no failure); unreached: runs that ended before the event; seconds: of all points;"
    " replay: the numbers for --at"
)


def broken(outcome: Outcome) -> bool:
    """Whether a point is one to replay; if so, says what is wrong."""
    if outcome.kept:
        return False
    say(f"{outcome.operation} --at {outcome.at}: killed at: {outcome.what}")
    for line in [*outcome.differing[:SHOWN], *outcome.unclean[:SHOWN]]:
        say(f"    {line:.600}")
    return True


def played(ground: Arena, calm: Calm, ats: Sequence[int]) -> Row:
    """Kill at each of these points, and count."""
    started = time.monotonic()
    outcomes = list(ground.points(calm, ats))
    row: Row = {
        "operation": calm.operation,
        "points": len(outcomes),
        "events": len(calm.end.events),
        "differing": sum(bool(each.differing) for each in outcomes),
        "unclean": sum(bool(each.unclean) for each in outcomes) + bool(calm.end.unclean),
        "recounted": sum(bool(each.receipts) for each in outcomes),
        "unreached": sum(not each.killed for each in outcomes),
        "seconds": round(time.monotonic() - started, 1),
        "replay": [each.at for each in outcomes if broken(each)],
    }
    say("  ".join(f"{key}={value}" for key, value in row.items()))
    return row


def run(ground: Arena, grown: Prepared, name: str, points: int, at: int | None, seed: int) -> Row:
    """One operation: its calm run, then its points. Raises SystemExit for a point that there is not."""
    calm = ground.calm(name, grown)
    for line in calm.end.unclean:
        say(f"{name}, undisturbed: {line}")
    events = calm.end.events
    if at is not None and not 1 <= at <= len(events):
        raise SystemExit(f"{name} has events 1 to {len(events)}.")
    ats = [at] if at is not None else chosen(events, points, random.Random(f"{seed}/{name}"))
    return played(ground, calm, ats)


def names(text: str) -> list[str]:
    """Operations from a list with commas."""
    wanted = text.split(",")
    if unknown := [name for name in wanted if name not in REAL]:
        raise argparse.ArgumentTypeError(f"there is no operation {unknown[0]}; there are {', '.join(REAL)}")
    return wanted


def main() -> None:
    """Run from the command line; exit code 1 when an end was another."""
    options = parser(__doc__ or "")
    options.add_argument("--points", type=int, default=POINTS, metavar="N", help="of each (default: %(default)s)")
    options.add_argument("--operation", type=names, default=list(REAL), metavar="A,B", help="which (default: all)")
    options.add_argument("--at", type=int, metavar="N", help="only this event, from 1: replays one point")
    options.add_argument("--processes", type=int, default=PROCESSES, metavar="N", help="at a time (%(default)s)")
    asked = options.parse_args()
    report = Report(asked.seed, asked.json)
    started = time.monotonic()
    with place(Arena, asked.processes) as ground:
        grown = ground.grown()
        rows = [run(ground, grown, name, asked.points, asked.at, asked.seed) for name in asked.operation]
    report.end(rows, {"what": MEASURED, "seconds": round(time.monotonic() - started, 1)})
    sys.exit(1 if any(row["differing"] or row["unclean"] for row in rows) else 0)


if __name__ == "__main__":
    main()
