"""The indexer: rows that are behind get their vectors and their points, in batches."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

from memforest_core.contexts.indexing.outage import OutagePause
from memforest_core.contexts.jobs.decision import decide
from memforest_core.domain.ids import LeaseToken, TenantId, WorkerId
from memforest_core.domain.indexed import bm25_weights
from memforest_core.errors import IndexUnavailable, MemForestError, StoreUnavailable
from memforest_core.ports.index import Point, PointKind, SparseVector, VectorIndex
from memforest_core.ports.indexing import IndexStore, StalePoint
from memforest_core.ports.models import CallRecord, Embedder, Vectors
from memforest_core.ports.telemetry import SILENT, Telemetry
from memforest_core.repeating import repeated

STEP = "index"
LEASE_S = 120.0


class Indexer:
    """Indexes a tenant's stale rows. Thread-safe."""

    def __init__(
        self,
        store: IndexStore,
        index: VectorIndex,
        embedder: Embedder,
        batch: int,
        rng: random.Random,
        telemetry: Telemetry = SILENT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._index = index
        self._embedder = embedder
        self._batch = batch
        self._rng = rng
        self._telemetry = telemetry
        self._clock = clock
        self._pause = OutagePause(clock)

    def run_one(self, tenant: TenantId, worker: WorkerId, kinds: Sequence[PointKind]) -> int:
        """Index one batch; how many rows are up to date now (0: none was behind, or the index is away).

        Vectors are committed before the index is written, so that nothing is embedded twice. While the index is away
        nothing is claimed. Raises StoreUnavailable.
        """
        if not self._reachable():
            return 0
        started = self._clock()
        with self._store.indexing(tenant) as rows:
            token, points = rows.claim_points(kinds, worker, self._batch, LEASE_S)
            known = rows.known_vectors(self._embedder.model, _texts(points))
        if not points:
            return 0
        outcome = "done"
        try:
            self._write(tenant, token, points, known)
        except StoreUnavailable as error:
            self._release(tenant, token, error)
            raise
        except IndexUnavailable as error:
            self._pause.failed()
            outcome = error.code
            self._release(tenant, token, error)
        except MemForestError as error:
            outcome = error.code
            decision = decide(error, attempts=1, max_attempts=1, divisible=False, jitter=self._rng.random())
            self._retry(tenant, token, max(1.0, decision.delay_s), error)
        self._telemetry.worked(STEP, tenant, self._clock() - started, outcome)
        if outcome == "done":
            for point in points:
                if point.waited_s is not None:
                    self._telemetry.reached("raw", tenant, point.waited_s + self._clock() - started)
            return len(points)
        self._telemetry.retried(STEP, tenant, outcome)
        return 0

    def _reachable(self) -> bool:
        """Whether to go on. After an outage the collection is made anew if the index came back without it."""
        if not self._pause.may_try():
            return False
        if self._pause.away:
            try:
                self._index.prepare()
            except IndexUnavailable:
                self._pause.failed()
                return False
            self._pause.worked()
        return True

    def _write(
        self, tenant: TenantId, token: LeaseToken, points: Sequence[StalePoint], known: dict[str, Vectors]
    ) -> None:
        vectors = known | self._embed(tenant, [text for text in _texts(points) if text not in known])
        self._index.delete([point.id for point in points if point.gone])
        self._index.upsert([_point(tenant, point, vectors) for point in points if not point.gone])
        versions = {point.id: point.version for point in points}
        for left in self._finish(tenant, token, versions):
            self._finish(tenant, token, {left: versions[left]})

    @repeated
    def _finish(self, tenant: TenantId, token: LeaseToken, versions: Mapping[UUID, int]) -> Sequence[UUID]:
        """One transaction; several rows are not waited for: those that somebody else has locked are left."""
        with self._store.indexing(tenant) as rows:
            return rows.finish_points(token, versions)

    @repeated
    def _release(self, tenant: TenantId, token: LeaseToken, error: MemForestError) -> None:
        with self._store.indexing(tenant) as rows:
            rows.release_points(token, error.code, error.message)

    @repeated
    def _retry(self, tenant: TenantId, token: LeaseToken, delay_s: float, error: MemForestError) -> None:
        with self._store.indexing(tenant) as rows:
            rows.retry_points(token, delay_s, error.code, error.message)

    def _embed(self, tenant: TenantId, texts: list[str]) -> dict[str, Vectors]:
        """Embed texts and commit their vectors."""
        if not texts:
            return {}
        embedded = self._embedder.embed(texts)
        calls: list[CallRecord] = [embedded.record]
        vectors: dict[str, Vectors] = dict(zip(texts, embedded.vectors, strict=True))
        with self._store.indexing(tenant) as rows:
            rows.put_vectors(self._embedder.model, vectors)
            rows.record_calls(calls, None, None)
        self._telemetry.called(tenant, calls)
        return vectors


def _texts(points: Sequence[StalePoint]) -> list[str]:
    return list(dict.fromkeys(point.text for point in points if not point.gone and point.vector is None))


def _point(tenant: TenantId, point: StalePoint, vectors: dict[str, Vectors]) -> Point:
    indices, values = bm25_weights(point.counts, point.leaves)
    return Point(
        id=point.id,
        tenant=tenant,
        forest_id=point.forest_id,
        kind=point.kind,
        version=point.version,
        dense=point.vector if point.vector is not None else vectors[point.text],
        sparse=SparseVector(indices, values),
        tree_id=point.tree_id,
        tree_kind=point.tree_kind,
        level=point.level,
        is_root=point.is_root,
        session_id=point.session_id,
        time_start=point.time_start,
        time_end=point.time_end,
    )
