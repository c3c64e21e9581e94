"""Stacks that begin with filled forests; another process fills them, so that memory use is that of the work on them."""

from __future__ import annotations

import multiprocessing
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import SETUP_TIMEOUT_MS, Database, say
from benchmarks.recall_latency.filling import fill
from benchmarks.recall_latency.world import DIMENSION, TENANT, StoredVectors, World
from benchmarks.scale.measuring import Meter
from memforest_core.index.qdrant.edge_index import EdgeIndex
from memforest_core.settings import DatabaseSettings, load_settings
from memforest_core.store.engine import open_engine
from tests.harness.hashed_words import HashedWords
from tests.harness.servers import SessionServers
from tests.harness.stack import copy_index, database, empty_index, opened

QUESTIONS = 200
"""Drawn of all forests together."""
PATIENT_S = 86_400.0
"""Each stage of the work ends before the next begins, on a slow machine as on a fast one."""
ACTOR = "benchmark"


@dataclass(frozen=True, slots=True)
class Requested:
    """A question about what an owner's forest has."""

    owner: str
    text: str


@dataclass(frozen=True, slots=True)
class Place:
    """The servers that all scenarios share."""

    servers: SessionServers

    @contextmanager
    def stack(self, forests: int = 0, facts: int = 0, seed: int = 0) -> Iterator[tuple[Meter, Sequence[Requested]]]:
        """A stack of its own with so many forests of so many facts ("owner-0" and so on), and questions about them.

        It works as services do by default, offline; texts are embedded by their words.
        """
        with (
            tempfile.TemporaryDirectory(prefix="memforest-bench-scale-") as directory,
            database(self.servers) as address,
        ):
            index = Path(directory) / "index"
            copy_index(empty_index(StoredVectors.model, DIMENSION), index)
            requested: Sequence[Requested] = ()
            if forests:
                started = time.perf_counter()
                with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as other:
                    requested = other.submit(filled, address, index, forests, facts, seed).result()
                say(f"{forests:,} x {facts:,} facts, filled in {time.perf_counter() - started:.1f} s")
            settings = load_settings(
                database=address.model_copy(update={"statement_timeout_ms": SETUP_TIMEOUT_MS}),
                broker={"url": self.servers.broker_url},
                index={"kind": "qdrant_edge", "path": index},
                worker={"task_budget_s": PATIENT_S},
                tenant=str(TENANT),
            )
            with opened(settings, HashedWords(StoredVectors.model, DIMENSION)) as running:
                yield Meter(running, index), requested


def filled(address: DatabaseSettings, index: Path, forests: int, facts: int, seed: int) -> list[Requested]:
    """Fill a database and an index that nobody has open."""
    patient = address.model_copy(update={"statement_timeout_ms": SETUP_TIMEOUT_MS})
    assert address.migration_url is not None
    running = Database(open_engine(patient), open_engine(patient, address.migration_url.get_secret_value()))
    points = EdgeIndex(index, StoredVectors.model, DIMENSION)
    points.prepare()
    world, rng = World(seed), random.Random(seed)
    requested = []
    per_forest, more = divmod(QUESTIONS, forests)
    for number in range(forests):
        owner = f"owner-{number}"
        said = fill(running, points, world, owner, facts, seed + number)
        requested += [Requested(owner, world.question(said).text) for _ in range(per_forest + (number < more))]
    running.tidy()
    points.close()
    running.service.dispose()
    running.owner.dispose()
    rng.shuffle(requested)
    return requested
