"""The eight disturbances. Each is played on a deployment of its own and returns what it wants in its row."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import redis

from benchmarks.chaos.breaking import CutOff, Doubler, kill_workers, restart_postgres, wipe_and_restart_broker
from benchmarks.chaos.conversations import Conversation
from benchmarks.chaos.ground import Scene
from memforest_core.client.api import MemForest
from memforest_core.work.messages import Queue
from tests.harness.model_faults import Fault
from tests.harness.proxy import door

Details = dict[str, object]

KILL_EVERY_S = 0.3
KILLING_S = 15.0
FLOW_S = 9.0
"""Sessions arrive over this time, so that there is always something new while things break."""
UNAVAILABLE_S = 0.5
BATCH = 40
"""Sessions of one process that is killed between commit and wake-up."""
CALLERS = 5
"""So many of them, or more where they would have more sessions than that each."""
CLOCK_DIFFERENCE_S = 300.0
START_INTERVAL_S = 20.0
"""Two workers that are started together are ready within this time."""
GRACE_S = 1.0
"""Between finding work and claiming it, on a busy machine; the interval itself is checked once per ``poll_s``."""


@dataclass(frozen=True, slots=True)
class Played:
    """When the disturbance ended (monotonic seconds), and further details for the row."""

    ended: float
    details: Details = field(default_factory=dict)
    faults: int = 0
    """What this scenario promises besides and did not keep."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A disturbance and the deployment it needs."""

    number: int
    name: str
    play: Callable[[Scene], Played]
    after: Callable[[Scene], tuple[Details, int]] | None = None
    """Called once everything is settled: returns details, and the number of broken promises."""
    faults: Mapping[Fault, float] | None = None
    without_index: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of this scenario's workers."""


def killed_workers(scene: Scene) -> Played:
    """A random worker process dies every 300 ms while sessions arrive and a while longer."""
    scene.running.start_worker(processes=4)
    until = time.monotonic() + KILLING_S
    with scene.flow(FLOW_S):
        killed = kill_workers(scene.running, scene.rng, KILL_EVERY_S, lambda: time.monotonic() >= until)
    return Played(time.monotonic(), {"killed": killed})


def leases_lost(scene: Scene) -> tuple[Details, int]:
    """How many cells lost the worker that was at them."""
    return {"lost_leases": _lost_leases(scene)}, 0


def no_lease_lost(scene: Scene) -> tuple[Details, int]:
    """No cell was taken from a worker that was alive."""
    lost = _lost_leases(scene)
    return {"lost_leases": lost}, lost


def _lost_leases(scene: Scene) -> int:
    return scene.running.scalar("SELECT coalesce(sum(lost_leases), 0) FROM memforest.cell")


def wiped_broker(scene: Scene) -> Played:
    """Three times the broker's data is wiped and the broker dies and comes back empty."""
    scene.running.start_worker(processes=2)
    with scene.flow(FLOW_S):
        for _ in range(3):
            time.sleep(scene.rng.uniform(1.0, 2.0))
            wipe_and_restart_broker(scene.servers, UNAVAILABLE_S)
        ended = time.monotonic()
    return Played(ended, {"wiped": 3})


def restarted_postgres(scene: Scene) -> Played:
    """Twice Postgres ends in immediate mode and comes back after crash recovery."""
    scene.running.start_worker(processes=2)
    with scene.flow(FLOW_S):
        for _ in range(2):
            time.sleep(scene.rng.uniform(2.0, 3.0))
            restart_postgres(scene.servers, UNAVAILABLE_S)
        ended = time.monotonic()
    return Played(ended, {"restarted": 2})


def absent_index(scene: Scene) -> Played:
    """The vector index is unavailable for the whole ingest; recall answers meanwhile, and says so."""
    scene.running.start_worker(processes=2)
    scene.enqueue(scene.sessions)
    scene.settle(indexed=False)
    found, described = _ask(scene)
    scene.running.index.start()
    n = len(scene.sessions)
    return Played(time.monotonic(), {"found_while_away": found, "said_so": described}, (n - found) + (n - described))


def index_is_back(scene: Scene) -> tuple[Details, int]:
    """Afterwards recall finds everything through the index, and reports no unavailable part."""
    found, described = _ask(scene)
    return {"found_after": found}, (len(scene.sessions) - found) + described


def _ask(scene: Scene) -> tuple[int, int]:
    """One question for each session: how many answers hold its detail, how many say that the index is unavailable."""
    with MemForest.connect(scene.running.settings) as memory:
        results = memory.recall_many([(one.owner, one.question) for one in scene.sessions])
    found = sum(
        any(one.detail in piece.text for piece in result.evidence)
        for one, result in zip(scene.sessions, results, strict=True)
    )
    return found, sum(bool(result.degraded) for result in results)


def unreliable_model(scene: Scene) -> Played:
    """Half of all model calls fail, in six ways; no fault ends before everything is extracted."""
    scene.running.start_worker(processes=2)
    scene.enqueue(scene.sessions)
    return Played(time.monotonic())


def model_faults(scene: Scene) -> tuple[Details, int]:
    """How many calls were made, and that none of them left a cell without its facts."""
    calls = scene.running.control_model()["requests"]
    fallbacks = scene.running.scalar("SELECT coalesce(sum(agains), 0) FROM memforest.cell")
    return {"model_calls": calls, "verbatim_meanwhile": fallbacks}, 0


def doubled_messages(scene: Scene) -> Played:
    """Every message comes twice, the second time later and at either end of its queue."""
    doubler = Doubler(scene.servers.redis_url, scene.rng)
    with doubler.at_work():
        scene.running.start_worker(processes=2)
        scene.enqueue(scene.sessions)
        scene.settle()
    with redis.Redis.from_url(scene.servers.redis_url) as broker:
        _until(lambda: not any(broker.llen(queue.value) for queue in Queue))
    ended = time.monotonic()
    once = abs(doubler.seen - doubler.repeated)
    return Played(ended, {"messages": doubler.seen, "sent_again": doubler.repeated}, once)


def cut_off_enqueue(scene: Scene) -> Played:
    """Callers die after the commit and before the wake-up: the reconciler finds their sessions by itself."""
    scene.running.launch_worker(processes=2)
    batches = _batches(scene.sessions)
    with door(scene.running.settings.broker.url.get_secret_value()) as broker:
        broker.freeze()
        variables = {
            **scene.running.variables,
            "MEMFOREST_BROKER__URL": broker.url,
            "MEMFOREST_BROKER__PUBLISH_TIMEOUT_S": "60",
            "MEMFOREST_DATABASE__MAX_OVERFLOW": str(BATCH),
        }
        callers = [CutOff(variables, batch) for batch in batches]
        scene.running.await_worker(scene.running.workers[0], 2)
        found = []
        for caller in callers:
            scene.settle()
            ended = _cut_off(scene, caller)
            found.append(time.monotonic() - ended)
    worker = scene.running.settings.worker
    interval = worker.reconcile_s + worker.poll_s
    late = sum(seconds > interval + GRACE_S for seconds in found)
    details: Details = {"callers_killed": len(callers), "found_s": round(max(found), 2), "interval_s": interval}
    return Played(ended, details, late)


def _cut_off(scene: Scene, caller: CutOff) -> float:
    """Kill a caller once its sessions are stored, and wait until one of them is claimed; when it was killed."""
    names = [one.session_id for one in caller.sessions]
    caller.go()
    _until(lambda: _count(scene, names, "true") == 2 * len(names))
    caller.kill()
    killed = time.monotonic()
    scene.accepted.extend((one.owner, one.session_id) for one in caller.sessions)
    _until(lambda: _count(scene, names, "c.attempts > 0") > 0)
    return killed


def _batches(sessions: Sequence[Conversation]) -> list[Sequence[Conversation]]:
    size = min(BATCH, -(-len(sessions) // CALLERS))
    return [sessions[first : first + size] for first in range(0, len(sessions), size)]


def _until(condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("what the scenario waits for did not happen")
        time.sleep(0.02)


def _count(scene: Scene, sessions: Sequence[str], condition: str) -> int:
    return scene.running.scalar(
        "SELECT count(*) FROM memforest.cell c JOIN memforest.session s USING (tenant_id, session_id)"
        f" WHERE s.external_id = ANY(:names) AND {condition}",
        names=list(sessions),
    )


def clock_difference(scene: Scene) -> Played:
    """Two workers whose clocks differ by five minutes: leases use the database clock, so none is taken for lost."""
    running = scene.running
    for offset in (-CLOCK_DIFFERENCE_S / 2, CLOCK_DIFFERENCE_S / 2):
        running.launch_worker(launcher=("benchmarks.chaos.skewed", str(offset)))
    for worker in running.workers:
        running.await_worker(worker)
    first, second = (_clock_of(path) for path in sorted(running.logs.glob("worker-*.log")))
    separate = (second - first).total_seconds()
    scene.enqueue(scene.sessions)
    return Played(
        time.monotonic(), {"clocks_apart_s": round(separate)}, int(separate < CLOCK_DIFFERENCE_S - START_INTERVAL_S)
    )


def _clock_of(log: Path) -> datetime:
    """What time a worker believed it was when it got ready."""
    lines = (json.loads(line) for line in log.read_text().splitlines() if "worker_ready" in line)
    return datetime.fromisoformat(next(lines)["timestamp"])


UNRELIABLE = {
    Fault.RATE_LIMIT: 0.20,
    Fault.HANG: 0.10,
    Fault.MALFORMED: 0.10,
    Fault.TRUNCATED: 0.05,
    Fault.EMPTY: 0.05,
    Fault.WRONG_SCHEMA: 0.05,
}

SCENARIOS = (
    Scenario(1, "worker_killed_every_300_ms", killed_workers, leases_lost),
    Scenario(2, "broker_wiped_and_restarted", wiped_broker),
    Scenario(3, "postgres_restarted_immediate", restarted_postgres, leases_lost),
    Scenario(4, "qdrant_away_for_the_ingest", absent_index, index_is_back, without_index=True),
    Scenario(
        5,
        "unreliable_model",
        unreliable_model,
        model_faults,
        faults=UNRELIABLE,
        settings={"MEMFOREST_LLM__TIMEOUT_S": "1", "MEMFOREST_LIMITS__CIRCUIT_OPEN_S": "1"},
    ),
    Scenario(6, "messages_doubled_and_reordered", doubled_messages),
    Scenario(7, "enqueue_killed_before_wake_up", cut_off_enqueue),
    Scenario(8, "clocks_five_minutes_apart", clock_difference, no_lease_lost),
)
