"""How many cells a second one, two and four worker processes write when a model answers at once and embedding is free.

What is left is the pipeline's own cost: Postgres, the index, messages, HTTP and Python. ``benchmarks.scale --only
workers`` measures the same with a slow model and the built-in embedding.
"""

from __future__ import annotations

import logging
import sys
from itertools import product

from benchmarks.chaos.ground import ground
from benchmarks.harness import Report, Row, parser
from benchmarks.lives import FIRST_DAY
from benchmarks.one_session import session
from benchmarks.scale.workers import CONCURRENCY, PROCESSES, one_deployment
from memforest_core.cli.toolkit.logs import configure_logs
from memforest_core.domain.chat_messages import TurnInput
from tests.harness.hashing_worker import DIMENSION, LAUNCHER, MODEL, SETTINGS

SESSIONS = 60
SESSIONS_PER_OWNER = 4
CELLS = 20
SMALL_TALK = 6
"""One cell in so many states nothing: 0.84 facts a cell, about what conversations of the evaluation have."""
LEAST = 200.0
MEASURED = (
    "sessions of 20 cells, four of an owner, all enqueued before the workers start; from when these are ready until the"
    " last fact is in its trees. A model server over HTTP on the same machine answers at once; texts are embedded by"
    " their words, which stands for vectors that are at hand. processors: shares of all, of the machine, the workers,"
    " Postgres and the index's process (all of Python); the rest is the model server and this program. The index is a"
    " Qdrant server over HTTP, or owned by one process that serves it over a socket. Workers have the default settings."
    " Refreshing runs meanwhile"
)
INDEXES: dict[str, tuple[str, int] | None] = {"server": None, "owned": (MODEL, DIMENSION)}


def told(sessions: int, seed: int) -> list[tuple[str, str, list[TurnInput]]]:
    """Owner, session and turns."""
    return [
        (f"owner-{number // SESSIONS_PER_OWNER}", f"session-{number}", _quieter(session(number, CELLS, seed)))
        for number in range(sessions)
    ]


def _quieter(turns: list[TurnInput]) -> list[TurnInput]:
    """The same, with a cell in so many that states nothing."""
    made = list(turns)
    for at in range(0, len(made), 2 * SMALL_TALK):
        made[at] = {**made[at], "content": "Good morning!", "timestamp": made[at].get("timestamp", FIRST_DAY)}
    return made


def main() -> None:
    """Run from the command line."""
    options = parser(__doc__ or "")
    options.add_argument("--sessions", type=int, default=SESSIONS, metavar="N", help="(default: %(default)s)")
    options.add_argument("--processes", type=int, nargs="+", default=PROCESSES, metavar="N", help="of workers")
    options.add_argument("--index", choices=INDEXES, nargs="+", default=list(INDEXES), help="(default: both)")
    options.add_argument("--least", type=float, default=LEAST, metavar="N", help="cells a second with the most of them")
    chosen = options.parse_args()
    configure_logs(logging.ERROR)
    report = Report(chosen.seed, chosen.json)
    rows: list[Row] = []
    with ground([], chosen.seed) as place:
        for index, processes in product(chosen.index, chosen.processes):
            with place.scene(
                f"{index}-{processes}", latency_s=0.0, settings=SETTINGS, measured=True, owned_index=INDEXES[index]
            ) as scene:
                made = one_deployment(scene, processes, told(chosen.sessions, chosen.seed), 0.0, LAUNCHER)
                rows.append(made | {"scenario": "throughput", "index": index, "seed": chosen.seed})
    report.end(rows, {"what": MEASURED, "concurrency": CONCURRENCY, "least": chosen.least})
    sys.exit(0 if float(str(rows[-1]["cells_a_second"])) >= chosen.least else 1)


if __name__ == "__main__":
    main()
