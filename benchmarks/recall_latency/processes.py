"""Callers in several processes of one machine, one of which owns the index: all query it at the owner's socket."""

from __future__ import annotations

import multiprocessing
import tempfile
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from pathlib import Path

import sqlalchemy as sa

from benchmarks.harness import Row
from benchmarks.recall_latency.measuring import Questions, at_once, engine_of, recalled, service_of
from benchmarks.recall_latency.world import DIMENSION, StoredVectors
from memforest_core.index.socket_index import SocketIndex, SocketServer
from memforest_core.index.vector_index import VectorIndex

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
        with (
            closing(SocketServer(index, socket)),
            ProcessPoolExecutor(processes, context, _begun, (ready,)) as pool,
        ):
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
