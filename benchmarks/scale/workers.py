"""One, two and four worker processes with a slow model: sessions a second, and what stops more."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psutil

from benchmarks.chaos.conversations import conversations
from benchmarks.chaos.ground import Ground, Scene
from benchmarks.harness import Row, say
from benchmarks.write_path import Looks, looking

PROCESSES = (1, 2, 4)
CONCURRENCY = 8
LATENCY_S = 0.3
LOOK_S = 0.5
POLL_S = 0.1
BUSY = 0.85
"""Share of all processors above which they are what stops more."""
WAITING = 0.2
"""Share of busy sessions of Postgres that wait for a lock, above which locks are."""


@dataclass(slots=True)
class Used:
    """What ran meanwhile."""

    seconds: float = 0.0
    cpu_s: float = 0.0
    """Of the whole machine: workers, Postgres, vector engine, the model's stand-in, and others' if there are any."""

    @property
    def share(self) -> float:
        """Of all processors."""
        return self.cpu_s / self.seconds / (psutil.cpu_count() or 1)


@contextmanager
def using() -> Iterator[Used]:
    """Measure the machine."""
    used, before, started = Used(), _busy_s(), time.perf_counter()
    yield used
    used.seconds, used.cpu_s = time.perf_counter() - started, _busy_s() - before


def _busy_s() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.system + times.nice)


def resident_mb(scene: Scene) -> float:
    """Of all worker processes together."""
    return sum(psutil.Process(pid).memory_info().rss for pid in scene.running.worker_pids()) / 1e6


def one_deployment(scene: Scene, processes: int, sessions: int, seed: int) -> Row:
    """Enqueue all, start the workers, and measure from their readiness until every fact is in its trees."""
    url = scene.running.settings.database.migration_url
    assert url is not None
    told = conversations(sessions, seed, f"owner-{processes}")
    scene.client.enqueue_many((one.owner, one.session_id, one.turns) for one in told)
    asked = scene.running.control_model()["requests"]
    worker = scene.running.launch_worker(concurrency=CONCURRENCY, processes=processes)
    with using() as used, looking(url.get_secret_value()) as looks, _most(scene) as most:
        while scene.running.scalar("SELECT count(*) FROM memforest.cell WHERE NOT placed"):
            if worker.poll() is not None:
                raise SystemExit(scene.running.log_tail())
            time.sleep(POLL_S)
    model = scene.running.control_model()
    facts = scene.running.scalar("SELECT count(*) FROM memforest.fact")
    calls = model["requests"] - asked
    waited = calls * LATENCY_S / used.seconds / (processes * CONCURRENCY)
    row: Row = {
        "scenario": "workers",
        "processes": processes,
        "sessions": sessions,
        "seconds": round(used.seconds, 2),
        "sessions_a_second": round(sessions / used.seconds, 2),
        "facts_a_second": round(facts / used.seconds, 1),
        "resident_mb": round(most[0]),
        "cpu_share": round(used.share, 2),
        "lock_waits": round(looks.share, 3),
        "model_calls": calls,
        "model_peak": model["peak"],
        "model_share": round(waited, 2),
        "stopped_by": stopped_by(used, looks, waited),
    }
    say("  ".join(f"{name}={value}" for name, value in row.items()))
    return row


def stopped_by(used: Used, looks: Looks, waited: float) -> str:
    """What there was none of left: processors, the right to write, or slots that wait for the model."""
    if used.share >= BUSY:
        return "processors"
    if looks.share >= WAITING:
        return "locks"
    return "slots that wait for the model" if waited >= BUSY else "nothing for the whole time"


@contextmanager
def _most(scene: Scene) -> Iterator[list[float]]:
    most, done = [0.0], threading.Event()

    def look() -> None:
        while not done.wait(LOOK_S):
            most[0] = max(most[0], resident_mb(scene))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield most
    finally:
        done.set()
        thread.join()


def throughput(place: Ground, sessions: int, seed: int, processes: Sequence[int] = PROCESSES) -> list[Row]:
    """One deployment of each size, each on an empty database."""
    rows = []
    for count in processes:
        with place.scene(f"workers-{count}", latency_s=LATENCY_S) as scene:
            rows.append(one_deployment(scene, count, sessions, seed))
    return rows
