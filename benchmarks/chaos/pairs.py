"""Two operations at once, or one and a writer; a process gets kill -9 at a seeded point: is the end a right one?"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from benchmarks.chaos.killing import place
from benchmarks.harness import Report, Row, parser, say
from tests.harness.kill_operations import BESIDE
from tests.harness.kill_pairs import PAIRS, WRITTEN, Outcome, Pair, PairArena, drawn
from tests.harness.kill_points import Prepared
from tests.harness.kill_writers import WRITERS

POINTS = 20
PROCESSES = 2
SHOWN = 3
MEASURED = (
    "two operations on three small forests, each asked for and worked on by a process of its own; Postgres, and the"
    " Qdrant engine over HTTP, are shared. points: the first undisturbed, at each other one of the two gets SIGKILL at"
    " a random event (a statement, a commit, a write of the index), and a third process asks again and takes over."
    " differing: points after which rows, trees, summaries, points or files are others than after one operation after"
    " the other, in the order in which they were asked for (in any where they may run beside each other);"
    " unclean: points after which memforest verify, a receipt or"
    " the audit complains; unreached: runs that ended before the event; refused: points where one came too late and was"
    " refused, as it is in the serial run; heard: faults that passed (deadlocks and the like) and reached a process;"
    " replay: the numbers of points for --point. With a writer (appends: threads append to one session; late: a"
    " caller's own transaction that extends it commits during the operation) only the operation's process is killed;"
    " differing are points after which an accepted turn is lost, stored twice, cut or without a fact, or a deleted one"
    " is there"
)


def broken(outcome: Outcome) -> bool:
    """Whether a point is one to replay; if so, says what is wrong."""
    if outcome.kept:
        return False
    killed = f"{outcome.victim} killed at {outcome.at}" if outcome.killed else "nobody killed"
    order = ", ".join(outcome.order)
    say(f"{'+'.join(outcome.pair)} --point {outcome.number}: {killed}; asked: {order}; heard: {outcome.heard}")
    for line in [*outcome.differing[:SHOWN], *outcome.unclean[:SHOWN]]:
        say(f"    {line:.600}")
    return True


def run(ground: PairArena, grown: Prepared, pair: Pair, points: int, only: int | None, seed: int) -> Row:
    """One pair: one after the other in both orders, then its points."""
    started = time.monotonic()
    ends = ground.ends(pair, grown)
    for line in ends.unclean:
        say(f"one after the other, {line:.600}")
    wanted = [point for point in drawn(ends, points, seed) if only is None or point.number == only]
    outcomes = list(ground.pairs(ends, wanted))
    heard = sum((Counter(each.heard) for each in outcomes), Counter[str]())
    row: Row = {
        "pair": "+".join(pair),
        "points": len(outcomes),
        "killed": sum(each.killed for each in outcomes),
        "differing": sum(bool(each.differing) for each in outcomes),
        "unclean": sum(bool(each.unclean) for each in outcomes) + bool(ends.unclean),
        "unreached": sum(each.at is not None and not each.killed for each in outcomes),
        "refused": sum(len(each.order) < len(ends.events) for each in outcomes),
        "heard": dict(heard),
        "seconds": round(time.monotonic() - started, 1),
        "replay": [each.number for each in outcomes if broken(each)],
    }
    say("  ".join(f"{key}={value}" for key, value in row.items()))
    return row


def pairs(text: str) -> list[Pair]:
    """Pairs from a list with commas."""
    wanted = []
    for each in text.split(","):
        first, _, second = each.partition("+")
        if first not in BESIDE or (second not in BESIDE and (first, second) not in WRITTEN):
            raise argparse.ArgumentTypeError(f"{each} is no pair A+B of {', '.join((*BESIDE, *WRITERS))}")
        wanted.append((first, second))
    return wanted


def main() -> None:
    """Run from the command line; exit code 1 when an end was another."""
    options = parser(__doc__ or "")
    options.add_argument("--points", type=int, default=POINTS, metavar="N", help="of each pair (default: %(default)s)")
    options.add_argument(
        "--pair", type=pairs, default=[*PAIRS, *WRITTEN], metavar="A+B,C+D", help="which (default: all)"
    )
    options.add_argument("--point", type=int, metavar="N", help="only this one of the points: replays it")
    options.add_argument("--processes", type=int, default=PROCESSES, metavar="N", help="at a time (%(default)s)")
    asked = options.parse_args()
    report = Report(asked.seed, asked.json)
    started = time.monotonic()
    with place(PairArena, asked.processes) as ground:
        grown = ground.grown()
        rows = [run(ground, grown, pair, asked.points, asked.point, asked.seed) for pair in asked.pair]
    report.end(rows, {"what": MEASURED, "seconds": round(time.monotonic() - started, 1)})
    sys.exit(1 if any(row["differing"] or row["unclean"] for row in rows) else 0)


if __name__ == "__main__":
    main()
