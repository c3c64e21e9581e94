"""``python -m benchmarks.eval.compare BEFORE AFTER``: what a change did, by type, from the records of two runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.eval.measuring import mean
from benchmarks.eval.records import Record, WrongRun, by_method, read_records
from benchmarks.eval.summing import ALL, COMPARED, confidence, differences, values
from benchmarks.eval.variants import MEMFOREST
from benchmarks.harness import say


def table(before: Sequence[Record], after: Sequence[Record], seed: int) -> list[str]:
    """A line for each measure and type: figures in percent over the questions of both, and the paired difference with
    its 95% interval, questions drawn; ``*`` marks one that is clear of 0."""
    common = {one.question_id for one in before} & {one.question_id for one in after}
    pair = [[one for one in run if one.question_id in common] for run in (before, after)]
    described = differences(pair[1], pair[0], seed)
    lines = [f"{'measure':16}{'type':32}{'n':>5}{'before':>8}{'after':>8}  difference [95% interval], changed"]
    for measure in COMPARED:
        for name, cell in described.get(measure, {}).items():
            figures = [100 * mean(_of_type(run, measure, name)) for run in pair]
            low, high = float(str(cell["low"])), float(str(cell["high"]))
            clear = "*" if low > 0 or high < 0 else ""
            lines.append(
                f"{measure:16}{name:32}{cell['n']:>5}{figures[0]:>8.1f}{figures[1]:>8.1f}"
                f"  {cell['difference']:+.1f} [{low:.1f}, {high:.1f}]{clear} {cell['changed']}"
            )
    of = [confidence(run) for run in pair]
    if all(of):
        lines.append(f"auc of {of[0]['n_unanswerable']} unanswerable: {of[0]['auc']} before, {of[1]['auc']} after")
    return lines


def _of_type(records: Sequence[Record], measure: str, name: str) -> list[float]:
    found = values(records, measure)
    return [found[one.question_id] for one in records if one.question_id in found and name in {ALL, one.category}]


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; exit code 2, with one sentence, for what the caller can put right."""
    options = argparse.ArgumentParser(description="Compare two runs of python -m benchmarks.eval --out.")
    options.add_argument("before", type=Path)
    options.add_argument("after", type=Path)
    options.add_argument("--method", default=MEMFOREST, help="row of the first run (default: %(default)s)")
    options.add_argument("--to", help="row of the second run (default: the same)")
    options.add_argument("--seed", type=int, default=7)
    given = options.parse_args(argv)
    try:
        runs = [by_method(read_records(path)) for path in (given.before, given.after)]
    except WrongRun as error:
        say(str(error))
        return 2
    before, after = [
        run.get(name, []) for run, name in zip(runs, (given.method, given.to or given.method), strict=True)
    ]
    if not before or not after:
        say(f"One of the runs has no such row: they have {', '.join(runs[0])}, and {', '.join(runs[1])}.")
        return 2
    print("\n".join(table(before, after, given.seed)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
