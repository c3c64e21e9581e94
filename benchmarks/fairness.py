"""How much longer a live session waits for its facts while a bulk import runs than on an idle system."""

from __future__ import annotations

import argparse
import logging
import statistics
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks.chaos.conversations import SESSIONS_PER_OWNER, Conversation, conversations
from benchmarks.chaos.ground import Scene, ground
from benchmarks.harness import Report, Row, parser, say
from memforest_core.cli.toolkit.logs import configure_logs
from memforest_core.client.producer import MemForestClient
from tests.harness.processes import ALL_QUEUES, Deployment

BACKFILL = 2_000
LIVE = 20
LATENCY_S = 0.3
WORKERS = (ALL_QUEUES, ALL_QUEUES)
CONCURRENCY = 4
"""Tasks at once and process: twice as many as two cores can feed while half of them wait for the model."""
MOST = 2.0
"""Times the idle wait that a live session may take."""
IDLE_GAP_S = 0.3
WAIT_TIMEOUT_S = 300.0
POLL_S = 0.1
MEASURED = (
    "seconds from the call of enqueue until handle.wait('facts') returns, for live sessions one at a time: first on an"
    " idle system, then spread evenly (by cells placed) over a backfill that another thread enqueues with enqueue_many"
    " meanwhile. new: the live session's owner has nothing else; shared: its owner is one of the backfill's, whose"
    " forest the backfill writes too. ratio: busy median by idle median. from_share, to_share: how much of the backfill"
    " was placed when the first and the last live session came"
)
OWNERS = ("new", "shared")


@dataclass(frozen=True, slots=True)
class Waited:
    """Where the seconds of one live session went."""

    seconds: float
    accepting: float
    """Until enqueue returned."""
    extracting: float
    """From the commit until the last of its cells was extracted (database clock)."""
    reducing: float
    """From then until its facts were in the trees; the rest is the caller's polling."""


@dataclass(frozen=True, slots=True)
class Busy:
    """One live session during the backfill."""

    owner: str
    waited: Waited
    share: float
    """Of the backfill's cells that were placed when it came."""


_STEPS = """
    SELECT extract(epoch FROM max(c.extracted_at) - min(c.created_at))::float8 AS extracting,
           extract(epoch FROM max(c.placed_at) - max(c.extracted_at))::float8 AS reducing
      FROM memforest.cell c JOIN memforest.session s USING (tenant_id, session_id)
     WHERE s.external_id = :session
"""


def waited(scene: Scene, one: Conversation) -> Waited:
    """Enqueue a live session and wait for its facts."""
    started = time.perf_counter()
    handle = scene.client.enqueue(one.owner, one.session_id, one.turns)
    accepted = time.perf_counter()
    handle.wait("facts", WAIT_TIMEOUT_S)
    ended = time.perf_counter()
    steps = scene.running.rows(_STEPS, session=one.session_id)[0]
    return Waited(ended - started, accepted - started, steps.extracting, steps.reducing)


def idle(scene: Scene, sessions: Sequence[Conversation]) -> list[Waited]:
    """Live sessions on a system that has nothing else to do; the first warms it up and is not counted."""
    found = []
    for one in sessions:
        scene.settle()
        time.sleep(IDLE_GAP_S)
        found.append(waited(scene, one))
    return found[1:]


def placed(running: Deployment) -> int:
    """Cells of the backfill that are in the trees."""
    return running.scalar("SELECT count(*) FROM memforest.cell WHERE lane = 1 AND placed")


def busy(scene: Scene, backfill: Sequence[Conversation], live: Sequence[tuple[str, Conversation]]) -> list[Busy]:
    """Live sessions while the backfill runs: the i-th of n comes when i/n of it is placed."""
    cells = 2 * len(backfill)
    feeding = MemForestClient(scene.running.settings)
    feeder = threading.Thread(
        target=lambda: feeding.enqueue_many((one.owner, one.session_id, one.turns) for one in backfill), daemon=True
    )
    feeder.start()
    found = []
    for number, (owner, one) in enumerate(live):
        while (done := placed(scene.running)) < cells * number // len(live) or not done:
            time.sleep(POLL_S)
        took = waited(scene, one)
        found.append(Busy(owner, took, done / cells))
        say(f"live session {number + 1} ({owner}), {done} of {cells} cells placed: {told(took)}")
    feeder.join()
    feeding.close()
    return found


def told(took: Waited) -> str:
    """One wait and its parts, in seconds."""
    parts = f"accepting {took.accepting:.2f}, extracting {took.extracting:.2f}, reducing {took.reducing:.2f}"
    return f"{took.seconds:.2f} s ({parts})"


def row(owner: str, alone: Sequence[Waited], found: Sequence[Busy], seed: int) -> Row:
    """The comparison for one kind of owner."""
    during = [one.waited for one in found]

    def median(part: str, times: Sequence[Waited]) -> float:
        return statistics.median(float(getattr(took, part)) for took in times)

    return {
        "owner": owner,
        "n": len(found),
        "n_idle": len(alone),
        "seed": seed,
        "idle_median_s": round(median("seconds", alone), 3),
        "busy_median_s": round(median("seconds", during), 3),
        "busy_max_s": round(max(took.seconds for took in during), 3),
        "ratio": round(median("seconds", during) / median("seconds", alone), 2),
        **{
            f"{name}_{part}_s": round(median(part, times), 3)
            for part in ("accepting", "extracting", "reducing")
            for name, times in (("idle", alone), ("busy", during))
        },
        "from_share": round(min(one.share for one in found), 3),
        "to_share": round(max(one.share for one in found), 3),
    }


def run(scene: Scene, options: argparse.Namespace) -> list[Row]:
    """Idle, then busy; one row for all live sessions and one for each kind of owner."""
    for queues in options.workers:
        scene.running.launch_worker(concurrency=CONCURRENCY, queues=queues)
    for worker in scene.running.workers:
        scene.running.await_worker(worker)
    scene.running.control_model(latency_s=LATENCY_S)
    alone = idle(scene, conversations(options.live // 2 + 1, options.seed, "idle"))
    for took in alone:
        say(f"idle: {told(took)}")
    backfill = conversations(options.backfill, options.seed)
    made = conversations(options.live, options.seed, "live")
    step = max(1, options.backfill // SESSIONS_PER_OWNER // options.live)
    live = [
        ("new", replace(one, owner=f"live-{number}"))
        if number % 2 == 0
        else ("shared", replace(one, owner=f"owner-{number * step}"))
        for number, one in enumerate(made)
    ]
    found = busy(scene, backfill, live)
    every = row("all", alone, found, options.seed)
    return [every, *(row(o, alone, [one for one in found if one.owner == o], options.seed) for o in OWNERS)]


def main() -> None:
    """Run from the command line."""
    options = parser(__doc__ or "")
    options.add_argument("--backfill", type=int, default=BACKFILL, metavar="N", help="sessions (default: %(default)s)")
    options.add_argument("--live", type=int, default=LIVE, metavar="N", help="live sessions (default: %(default)s)")
    options.add_argument("--workers", nargs="+", default=WORKERS, metavar="QUEUES", help="the queues of each process")
    chosen = options.parse_args()
    configure_logs(logging.ERROR)
    report = Report(chosen.seed, chosen.json)
    with ground([], chosen.seed) as place, place.scene("fairness") as scene:
        rows = run(scene, chosen)
    parameters = {"backfill": chosen.backfill, "model_latency_s": LATENCY_S, "workers": chosen.workers}
    report.end(rows, {"what": MEASURED, "concurrency": CONCURRENCY, "most": MOST, **parameters})
    sys.exit(0 if float(str(rows[0]["ratio"])) <= MOST else 1)


if __name__ == "__main__":
    main()
