"""Much at once: a burst of sessions, one long session, many tenants, and one writer with all there is to write."""

from __future__ import annotations

from benchmarks.chaos.conversations import conversations
from benchmarks.lives import TURNS, period
from benchmarks.scale.filled import Place
from benchmarks.scale.measuring import Costs, Meter
from memforest_core.client.producer import MemForestClient
from memforest_core.domain.ids import TenantId
from memforest_core.work.jobs import WorkKind

TENANT_SESSIONS = 4
READS = 50
"""How often the query for whose turn it is runs: each unit of work begins with it."""
ROUNDS = 1_000_000


def burst(place: Place, sessions: int, seed: int) -> Costs:
    """So many sessions of four turns, ten of an owner, are enqueued at once and worked to rest in one thread."""
    with place.stack() as (meter, _):
        with meter.of("enqueue"):
            meter.running.memory.client.enqueue_many(
                (one.owner, one.session_id, one.turns) for one in conversations(sessions, seed)
            )
        _work(meter)
    return meter.costs


def long_session(place: Place, turns: int, seed: int) -> Costs:
    """One session gets so many turns, one call each; then its window is read and a turn added, ten times each."""
    with place.stack() as (meter, _):
        client = meter.running.memory.client
        said = [turn for described in period(0, -(-(turns + 10) // TURNS), seed) for turn in described.turns]
        with meter.of("append"):
            for turn in said[:turns]:
                client.append("owner", "session", turn)
        client.session_close("owner", "session")
        _work(meter)
        with meter.of("window_of_10"):
            for _ in range(10):
                meter.running.memory.window("owner", "session")
        with meter.of("append_10_more"):
            for turn in said[turns : turns + 10]:
                client.append("owner", "session", turn)
    return meter.costs


def tenants(place: Place, count: int, seed: int) -> Costs:
    """Four sessions of each tenant, interleaved; queries for whose turn it is while all have work; a recall of each."""
    with place.stack() as (meter, _):
        services, names = meter.running.services, [f"tenant-{number}" for number in range(count)]
        clients = [
            MemForestClient(services.settings.model_copy(update={"tenant": name}), producer=services.producer)
            for name in names
        ]
        described = conversations(TENANT_SESSIONS, seed)
        with meter.of("enqueue"):
            for one in described:
                for client in clients:
                    client.enqueue(one.owner, one.session_id, one.turns)
        with meter.of("whose_turn_50"):
            for _ in range(READS):
                services.jobs.waiting(WorkKind.EXTRACT)
        _work(meter)
        with meter.of("recall"):
            for name in names:
                if not services.recall.recall(TenantId(name), described[0].owner, described[0].question).evidence:
                    raise SystemExit(f"{name} does not find what it was told.")
    return meter.costs


def one_writer(place: Place, turns: int, seed: int) -> Costs:
    """All turns of one owner are extracted; then one thread reduces them into its forest: a single writer's ceiling."""
    with place.stack() as (meter, _):
        running = meter.running
        for described in period(0, -(-turns // TURNS), seed):
            running.memory.client.enqueue("owner", described.session_id, described.turns)
        while running.runtime.extract():
            pass
        with meter.of("reduce"):
            while running.runtime.reduce():
                pass
    return meter.costs


def _work(meter: Meter) -> None:
    with meter.of("work"):
        meter.running.drive(rounds=ROUNDS)
