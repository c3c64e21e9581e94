"""Callers in several processes of one machine, one of which owns the index: all query it at the owner's socket."""

from __future__ import annotations

import itertools
import multiprocessing
import random
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from pathlib import Path

import sqlalchemy as sa

from benchmarks.harness import SETUP_TIMEOUT_MS, Database, Row, say
from benchmarks.recall_latency.filling import fill
from benchmarks.recall_latency.measuring import Questions, at_once, collection, engine_of, recalled, service_of
from benchmarks.recall_latency.world import DIMENSION, Requested, StoredVectors, World
from memforest_core.index.socket_index import SocketIndex, SocketServer
from memforest_core.index.vector_index import VectorIndex


def filled(
    running: Database, directory: Path, facts: int, forests: int, questions: int, seed: int
) -> list[tuple[str, Requested]]:
    """Fill equal forests of a database and of an index that nobody has open; owners in a shuffled order, each with a
    question about what was said in their forest."""
    started = time.perf_counter()
    urls = running.service.url, running.owner.url
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as other:
        requested = other.submit(_filled, *urls, directory, facts, forests, questions, seed).result()
    running.tidy()
    say(f"{facts:,} facts in {forests:,} forests, filled in {time.perf_counter() - started:.0f} s")
    return requested


def _filled(
    service: sa.URL, owner: sa.URL, directory: Path, facts: int, forests: int, questions: int, seed: int
) -> list[tuple[str, Requested]]:
    running = Database(engine_of(service, SETUP_TIMEOUT_MS), engine_of(owner, SETUP_TIMEOUT_MS))
    world = World(seed)
    said = {}
    with collection(directory) as index:
        for number in range(forests):
            name = f"owner-{number}"
            said[name] = fill(running, index, world, name, facts // forests, seed + number)
    running.service.dispose()
    running.owner.dispose()
    owners = list(said)
    random.Random(seed).shuffle(owners)
    # Round robin: with more forests than questions no forest gets two.
    return [(name, world.question(said[name])) for name in itertools.islice(itertools.cycle(owners), questions)]


TIMEOUT_S = 30.0
READY_S = 300.0
"""What the processes may take to warm up: if one fails, the others end too."""
WARM_UP = 20
"""Recalls of each process before it is measured."""
_ready: list[Barrier] = []


@dataclass(frozen=True, slots=True)
class _Share:
    """The questions of one process, and the servers that it needs."""

    url: sa.URL
    socket: Path
    requested: Questions
    callers: int


def in_processes(url: sa.URL, index: VectorIndex, requested: Questions, callers: int, processes: int) -> Row:
    """The callers divided among so many processes, each of which has all questions: recalls a second of all together,
    and the p50 of the slowest. ``index`` is owned by this process."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="memforest-bench-socket-") as directory:
        socket = Path(directory) / "index" / "socket"
        share = _Share(url, socket, list(requested), callers // processes)
        ready = context.Barrier(processes, timeout=READY_S)
        with closing(SocketServer(index, socket)), ProcessPoolExecutor(processes, context, _begun, (ready,)) as pool:
            rows = list(pool.map(_requested, [share] * processes))
    return {
        "processes": processes,
        "callers": share.callers * processes,
        "n": sum(int(str(row["n"])) for row in rows),
        "per_second": round(sum(float(str(row["per_second"])) for row in rows), 2),
        "p50_ms": max(float(str(row["p50_ms"])) for row in rows),
    }


def _begun(ready: Barrier) -> None:
    _ready.append(ready)


def _requested(share: _Share) -> Row:
    engine = engine_of(share.url)
    with closing(SocketIndex(share.socket, StoredVectors.model, DIMENSION, TIMEOUT_S)) as index:
        service = service_of(engine, index, share.requested)
        for owner, one in share.requested[:WARM_UP]:
            recalled(service, owner, one.text)
        row = at_once(service, share.requested, share.callers, _ready[0].wait)
    engine.dispose()
    return row
