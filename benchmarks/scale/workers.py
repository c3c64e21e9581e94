"""One, two and four worker processes: sessions, cells and facts a second, and what stops more."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psutil
import sqlalchemy as sa

from benchmarks.chaos.conversations import conversations
from benchmarks.chaos.ground import Ground, Scene
from benchmarks.harness import Row, say
from benchmarks.write_path import looking, reading
from memforest_core.domain.chat_messages import TurnInput
from memforest_core.domain.ids import TenantId
from memforest_core.work.messages import Queue
from memforest_core.work.publishing import ENOUGH, CeleryWakeUps
from tests.harness.processes import CLI, Deployment

PROCESSES = (1, 2, 4)
CONCURRENCY = 8
LATENCY_S = 0.3
READ_NOW_S = 0.5
POLL_S = 0.05
FULL = 0.85
"""Share of all processors, or of the slots, above which there are none left."""
WAITING = 0.2
"""Share of Postgres' busy sessions that wait for a lock, above which locks are what stops more."""
PARTS = ("workers", "postgres", "index")
"""The processes whose CPU time is measured separately."""
_LEFT = "SELECT count(*) FROM memforest.cell WHERE NOT placed"


@dataclass(frozen=True, slots=True)
class Clock:
    """Seconds until now: of the wall, and of the processors for all, the workers, Postgres and the index's server."""

    wall: float
    machine: float
    workers: float
    postgres: float
    index: float

    @classmethod
    def read(cls, scene: Scene, url: str) -> Clock:
        """Now."""
        times = psutil.cpu_times()
        return cls(
            time.perf_counter(),
            times.user + times.system + times.nice,
            sum(map(_seconds, scene.running.worker_pids())),
            reading(url).postgres_s,
            _seconds(scene.running.index.pid),
        )

    def fractions_since(self, before: Clock) -> dict[str, float]:
        """Of all processors, 0 to 1."""
        whole = (self.wall - before.wall) * (psutil.cpu_count() or 1)
        return {name: round((getattr(self, name) - getattr(before, name)) / whole, 2) for name in ("machine", *PARTS)}


def _seconds(pid: int) -> float:
    used = psutil.Process(pid).cpu_times()
    return float(used.user + used.system)


def one_deployment(
    scene: Scene,
    processes: int,
    described: Sequence[tuple[str, str, Sequence[TurnInput]]],
    latency_s: float,
    launcher: Sequence[str] = CLI,
) -> Row:
    """Enqueue all (owner, session, turns), start the workers, and measure from when they are ready until every fact is
    in its trees. ``launcher`` is the module of the workers.

    The windows are held until then: otherwise a few of them would be done before the measurement begins.
    """
    running = scene.running
    migration_url = running.settings.database.migration_url
    assert migration_url is not None
    url = migration_url.get_secret_value()
    scene.client.enqueue_many(described)
    _due(running, "1 day")
    worker = running.launch_worker(concurrency=CONCURRENCY, processes=processes, launcher=launcher)
    running.await_worker(worker, processes)
    waiting, calls, facts = running.scalar(_LEFT), running.control_model()["requests"], _facts(scene)
    before = Clock.read(scene, url)
    _due(running, "0")
    wakeups = CeleryWakeUps(running.settings.broker)
    wakeups.send(Queue.EXTRACT, TenantId(running.settings.tenant), "benchmark", ENOUGH)
    wakeups.close()
    with looking(url) as reads, _resident(scene) as most:
        while running.scalar(_LEFT):
            if worker.poll() is not None:
                raise SystemExit(running.log_tail())
            time.sleep(POLL_S)
    after = Clock.read(scene, url)
    seconds, fractions, model = after.wall - before.wall, after.fractions_since(before), running.control_model()
    cells, made = running.scalar("SELECT count(*) FROM memforest.cell"), _facts(scene)
    in_model = (model["requests"] - calls) * latency_s / seconds / (processes * CONCURRENCY)
    row: Row = {
        "scenario": "workers",
        "processes": processes,
        "sessions": len(described),
        "cells": cells,
        "facts_a_cell": round(made / cells, 2),
        "seconds": round(seconds, 2),
        "sessions_a_second": round(len(described) * waiting / cells / seconds, 2),
        "cells_a_second": round(waiting / seconds, 1),
        "facts_a_second": round((made - facts) / seconds, 1),
        "resident_mb": round(most[0]),
        "processors": fractions,
        "cpu_ms_a_cell": {
            name: round(1_000 * (getattr(after, name) - getattr(before, name)) / waiting, 1) for name in PARTS
        },
        "lock_waits": round(reads.share, 3),
        "model_calls": model["requests"] - calls,
        "model_peak": model["peak"],
        "slots_in_model": round(in_model, 2),
        "stopped_by": stopped_by(fractions["machine"], reads.share, in_model),
    }
    say("  ".join(f"{name}={value}" for name, value in row.items()))
    return row


def _due(running: Deployment, after: str) -> None:
    """Let the waiting windows be due after so long."""
    with running.owner.begin() as connection:
        connection.execute(
            sa.text("UPDATE memforest.cell SET available_at = now() + CAST(:after AS interval) WHERE state = 'ready'"),
            {"after": after},
        )


def _facts(scene: Scene) -> int:
    return scene.running.scalar("SELECT count(*) FROM memforest.fact")


def stopped_by(processors: float, locks: float, in_model: float) -> str:
    """What there was none of left: processors, the right to write, or slots that wait for the model."""
    if processors >= FULL:
        return "processors"
    if locks >= WAITING:
        return "locks"
    return "slots that wait for the model" if in_model >= FULL else "nothing for the whole time"


@contextmanager
def _resident(scene: Scene) -> Iterator[list[float]]:
    """One number: the most megabytes that the worker processes hold together."""
    most, done = [0.0], threading.Event()

    def check_now() -> None:
        while not done.wait(READ_NOW_S):
            held = sum(psutil.Process(pid).memory_info().rss for pid in scene.running.worker_pids())
            most[0] = max(most[0], held / 1e6)

    thread = threading.Thread(target=check_now, daemon=True)
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
        described = [(one.owner, one.session_id, one.turns) for one in conversations(sessions, seed, f"owner-{count}")]
        with place.scene(f"workers-{count}", latency_s=LATENCY_S, measured=True) as scene:
            rows.append(one_deployment(scene, count, described, LATENCY_S))
    return rows
