"""``python -m benchmarks.scale``: large memories and much at once, against a tenth; exit 1 if a cost grows too fast."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from benchmarks.chaos.ground import ground
from benchmarks.harness import Report, Row, parser, say
from benchmarks.scale.backlog import backlog
from benchmarks.scale.bursts import burst, long_session, one_writer, tenants
from benchmarks.scale.filled import Place
from benchmarks.scale.forests import many_forests, one_forest
from benchmarks.scale.measuring import Costs, grown, rows
from benchmarks.scale.workers import CONCURRENCY, LATENCY_S, throughput
from memforest_core.cli.toolkit.logs import configure_logs

WRITER = "one_writer"
SCENARIOS: dict[str, tuple[Callable[[Place, int, int], Costs], int]] = {
    "one_forest": (one_forest, 100_000),
    "many_forests": (many_forests, 1_000),
    "burst": (burst, 5_000),
    "long_session": (long_session, 10_000),
    "tenants": (tenants, 100),
    WRITER: (one_writer, 20_000),
}
"""Each with its size: facts, forests, sessions, turns, tenants, turns."""
DEPLOYED = {"workers": (throughput, 600), "backlog": (backlog, 10_000)}
"""Worker processes and a model server, with so many sessions."""
SMALLEST = 20
"""Of a size, whatever the scale: a tenth of it is two."""
SLACK = 1.25
MEASURED = (
    "each operation of a scenario at its size and at a tenth; seconds, statements (as the driver sends them) and"
    " resident_mb (the most of this process, which does all the work, with the vector engine) while it lasts, disk_mb"
    " and facts that were added. growth: the figure by that of a tenth, by ten: 0.1 is none, 1 is linear, most is n log"
    " n with the slack; figures too small to judge at n are left out. one_forest, many_forests: rows filled in as the"
    " pipeline leaves them, then a day's five sessions (enqueue, tree_insert: the reducer's part, refresh), 40 recalls,"
    " verify, export of everything. turns_a_second, facts_a_second: of the single writer into one forest. workers:"
    " short sessions of many owners, from when the processes are up until the last fact is in its trees, with a model"
    " server on the same machine; processors: shares of all; slots_in_model: of the workers' slots, those that waited"
    " for the model. backlog: an import waits at the start, calls take 2 s, waits are in calls' times"
)


def speed(row: Row) -> Row:
    """What the single writer does in a second, at the size of its row."""
    turns, facts, seconds = (float(str(row[name])) for name in ("n", "facts", "seconds"))
    return {"turns_a_second": round(turns / seconds, 1), "facts_a_second": round(facts / seconds, 1)}


def main() -> None:
    """Run from the command line."""
    options = parser(__doc__ or "")
    options.add_argument("--scale", type=float, default=1.0, metavar="X", help="factor for all sizes (default: 1)")
    options.add_argument("--only", nargs="+", choices=[*SCENARIOS, *DEPLOYED], metavar="NAME", help="some scenarios")
    options.add_argument("--slack", type=float, default=SLACK, metavar="X", help="times n log n (default: %(default)s)")
    chosen = options.parse_args()
    configure_logs(logging.ERROR)
    report = Report(chosen.seed, chosen.json)
    names = chosen.only or [*SCENARIOS, *DEPLOYED]
    made: list[Row] = []
    with ground([], chosen.seed) as place:
        where = Place(replace(place.servers, embedded=None))
        for name in names:
            if name in DEPLOYED:
                deployed, full = DEPLOYED[name]
                made += deployed(place, max(SMALLEST, round(full * chosen.scale)), chosen.seed)
                continue
            scenario, full = SCENARIOS[name]
            size = max(SMALLEST, round(full * chosen.scale))
            fewer, more = grown(name, partial(scenario, where), size, chosen.seed)
            for row in rows(name, size, fewer, more, chosen.slack):
                if name == WRITER:
                    row |= speed(row)
                say("  ".join(f"{key}={value}" for key, value in row.items()))
                made.append(row)
    measured = {"what": MEASURED, "slack": chosen.slack}
    report.end(made, measured | {"latency_s": LATENCY_S, "concurrency": CONCURRENCY})
    sys.exit(0 if all(row.get("within", True) for row in made) else 1)


if __name__ == "__main__":
    main()
