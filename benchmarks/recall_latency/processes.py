"""Callers in several processes of one machine, whose index one of them owns: each asks it at the owner's socket."""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from pathlib import Path

import sqlalchemy as sa
from pydantic import SecretStr

from benchmarks.harness import Row
from benchmarks.recall_latency.measuring import Questions, at_once, recalled, service_of
from benchmarks.recall_latency.world import DIMENSION, Asked, StoredVectors
from memforest_core.index.served.client import ServedIndex
from memforest_core.index.served.server import IndexServer
from memforest_core.index.vector_index import VectorIndex
from memforest_core.settings import DatabaseSettings
from memforest_core.store.engine import open_engine

TIMEOUT_S = 30.0
WARM_UP = 20
"""Recalls of each process before it is measured."""
_together: list[Barrier] = []


@dataclass(frozen=True, slots=True)
class _Share:
    """What one process asks, and where."""

    url: str
    socket: Path
    asked: Sequence[tuple[str, Asked]]
    callers: int


def in_processes(url: sa.URL, index: VectorIndex, asked: Questions, callers: int, processes: int) -> Row:
    """As many callers in so many processes; recalls a second of all of them. ``index`` is owned by this one."""
    shown = url.render_as_string(hide_password=False)
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="memforest-bench-socket-") as directory:
        socket = Path(directory) / "index" / "socket"
        server = IndexServer(index, socket)
        share = _Share(shown, socket, list(asked), callers // processes)
        barrier = context.Barrier(processes)
        with ProcessPoolExecutor(processes, context, _begun, (barrier,)) as pool:
            rows = list(pool.map(_asked, [share] * processes))
        server.close()
    return {
        "processes": processes,
        "callers": share.callers * processes,
        "n": sum(int(str(row["n"])) for row in rows),
        "per_second": round(sum(float(str(row["per_second"])) for row in rows), 2),
        "p50_ms": max(float(str(row["p50_ms"])) for row in rows),
    }


def _begun(barrier: Barrier) -> None:
    _together.append(barrier)


def _asked(share: _Share) -> Row:
    engine = open_engine(DatabaseSettings(url=SecretStr(share.url)))
    index = ServedIndex(share.socket, StoredVectors.model, DIMENSION, TIMEOUT_S)
    service = service_of(engine, index, share.asked)
    for owner, one in share.asked[:WARM_UP]:
        recalled(service, owner, one.text)
    _together[0].wait()
    row = at_once(service, share.asked, share.callers)
    engine.dispose()
    return row
