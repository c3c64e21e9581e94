"""How fast workers that join a backlog are all at work: calls to a slow model that are under way at once.

Windows wait in the database when two processes of sixteen threads start. The model server says when each call began
and ended: ``peak`` is the most at once, ``full_after_s`` is when so many were first under way, ``seconds`` runs from
the first call to the end of the last.
"""

from __future__ import annotations

import logging
import statistics
import time

import httpx

from benchmarks.chaos.ground import Ground, ground
from benchmarks.harness import Report, Row, parser, say
from benchmarks.one_session import session
from memforest_core.cli.toolkit.logs import configure_logs
from tests.harness.hashing_worker import LAUNCHER, SETTINGS
from tests.harness.model_answers import wants_extraction

PROCESSES, CONCURRENCY, LATENCY_S = 2, 16, 2.0
CELLS = 2
"""Of a session: one window."""
POLL_S = 0.1
_LEFT = "SELECT count(*) FROM memforest.cell WHERE extracted_at IS NULL"
_WINDOWS = "SELECT count(*) FROM memforest.cell WHERE ordinal = window_ordinal"


def one_run(place: Ground, run: int, windows: int, seed: int) -> Row:
    """A deployment of its own."""
    llm = {"MEMFOREST_LLM__EXTRACT__CONCURRENCY": str(CONCURRENCY)}
    with place.scene(f"run-{run}", latency_s=LATENCY_S, measured=True, settings=SETTINGS | llm) as scene:
        running = scene.running
        scene.client.enqueue_many([(f"owner-{n}", f"s-{n}", session(n, CELLS, seed)) for n in range(windows)])
        waiting = running.scalar(_WINDOWS)
        worker = running.launch_worker(concurrency=CONCURRENCY, processes=PROCESSES, launcher=LAUNCHER)
        running.await_worker(worker, PROCESSES)
        while running.scalar(_LEFT):
            if worker.poll() is not None:
                raise SystemExit(running.log_tail())
            time.sleep(POLL_S)
        assert running.model is not None
        seen = httpx.get(running.model.removesuffix("/v1") + "/requests", timeout=30.0).json()
    calls = [each for each in seen if wants_extraction(each["body"]) and each["ended"]]
    if not calls:
        raise SystemExit("Nothing was measured: the model server had no call.")
    begun = sorted(each["started"] for each in calls)
    first, last = begun[0], max(each["ended"] for each in calls)
    at_once = {at: sum(each["started"] <= at < each["ended"] for each in calls) for at in begun}
    peak = max(at_once.values())
    row: Row = {
        "run": run,
        "windows": waiting,
        "calls": len(calls),
        "first_at_once": sum(each - first < LATENCY_S / 2 for each in begun),
        "peak": peak,
        "full_after_s": round(min(at for at, number in at_once.items() if number == peak) - first, 2),
        "seconds": round(last - first, 2),
    }
    say("  ".join(f"{name}={value}" for name, value in row.items()))
    return row


def main() -> None:
    """Run from the command line."""
    options = parser(__doc__ or "")
    options.add_argument("--windows", type=int, default=60, metavar="N", help="(default: %(default)s)")
    options.add_argument("--runs", type=int, default=3, metavar="N", help="(default: %(default)s)")
    chosen = options.parse_args()
    configure_logs(logging.ERROR)
    report = Report(chosen.seed, chosen.json)
    with ground([], chosen.seed) as place:
        rows = [one_run(place, run, chosen.windows, chosen.seed) for run in range(1, chosen.runs + 1)]
    slots = PROCESSES * CONCURRENCY
    medians = {name: statistics.median(float(str(row[name])) for row in rows) for name in ("peak", "seconds")}
    report.end(
        rows, {"slots": slots, "latency_s": LATENCY_S, **{f"median_{name}": each for name, each in medians.items()}}
    )


if __name__ == "__main__":
    main()
