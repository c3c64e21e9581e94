"""One, two and four worker processes: sessions and cells a second."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import psutil
import sqlalchemy as sa

from benchmarks.chaos.conversations import conversations
from benchmarks.chaos.ground import Ground, Scene
from benchmarks.harness import Row, say
from benchmarks.write_path import reading
from memforest_core.domain.chat_messages import TurnInput
from memforest_core.domain.ids import TenantId
from memforest_core.work.messages import Queue
from memforest_core.work.publishing import ENOUGH, CeleryWakeUps
from tests.harness.processes import Deployment

PROCESSES = (1, 2, 4)
CONCURRENCY = 8
LATENCY_S = 0.3
POLL_S = 0.05
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
        parts = ("machine", "workers", "postgres", "index")
        return {name: round((getattr(self, name) - getattr(before, name)) / whole, 2) for name in parts}


def _seconds(pid: int) -> float:
    used = psutil.Process(pid).cpu_times()
    return float(used.user + used.system)


def one_deployment(
    scene: Scene, processes: int, described: Sequence[tuple[str, str, Sequence[TurnInput]]], latency_s: float
) -> Row:
    """Enqueue all (owner, session, turns), start the workers, and measure from when they are ready until every fact is
    in its trees.

    The windows are held until then: otherwise a few of them would be done before the measurement begins.
    """
    running = scene.running
    migration_url = running.settings.database.migration_url
    assert migration_url is not None
    url = migration_url.get_secret_value()
    scene.client.enqueue_many(described)
    _due(running, "1 day")
    worker = running.launch_worker(concurrency=CONCURRENCY, processes=processes)
    running.await_worker(worker, processes)
    waiting, calls = running.scalar(_LEFT), running.control_model()["requests"]
    before = Clock.read(scene, url)
    _due(running, "0")
    wakeups = CeleryWakeUps(running.settings.broker)
    wakeups.send(Queue.EXTRACT, TenantId(running.settings.tenant), "benchmark", ENOUGH)
    wakeups.close()
    while running.scalar(_LEFT):
        if worker.poll() is not None:
            raise SystemExit(running.log_tail())
        time.sleep(POLL_S)
    after = Clock.read(scene, url)
    seconds, fractions, model = after.wall - before.wall, after.fractions_since(before), running.control_model()
    in_model = (model["requests"] - calls) * latency_s / seconds / (processes * CONCURRENCY)
    row: Row = {
        "scenario": "workers",
        "processes": processes,
        "sessions": len(described),
        "seconds": round(seconds, 2),
        "cells_a_second": round(waiting / seconds, 1),
        "processors": fractions,
        "model_calls": model["requests"] - calls,
        "model_peak": model["peak"],
        "slots_in_model": round(in_model, 2),
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


def throughput(place: Ground, sessions: int, seed: int, processes: Sequence[int] = PROCESSES) -> list[Row]:
    """One deployment of each size, each on an empty database."""
    rows = []
    for count in processes:
        described = [(one.owner, one.session_id, one.turns) for one in conversations(sessions, seed, f"owner-{count}")]
        with place.scene(f"workers-{count}", latency_s=LATENCY_S, measured=True) as scene:
            rows.append(one_deployment(scene, count, described, LATENCY_S))
    return rows
