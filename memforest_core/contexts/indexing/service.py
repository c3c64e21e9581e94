"""The indexer: rows that are behind get their vectors and their points, in batches."""

from __future__ import annotations

import random
from collections.abc import Sequence

from memforest_core.contexts.jobs.decision import decide
from memforest_core.domain.ids import TenantId, WorkerId
from memforest_core.domain.indexed import bm25_weights
from memforest_core.errors import MemForestError, StoreUnavailable
from memforest_core.ports.index import Point, PointKind, SparseVector, VectorIndex
from memforest_core.ports.indexing import IndexStore, StalePoint
from memforest_core.ports.models import CallRecord, Embedder, Vectors

LEASE_S = 120.0


class Indexer:
    """Indexes a tenant's stale rows."""

    def __init__(
        self,
        store: IndexStore,
        index: VectorIndex,
        embedder: Embedder,
        batch: int,
        rng: random.Random,
    ) -> None:
        self._store = store
        self._index = index
        self._embedder = embedder
        self._batch = batch
        self._rng = rng

    def run_one(self, tenant: TenantId, worker: WorkerId, kinds: Sequence[PointKind]) -> int:
        """Index one batch; how many rows are up to date now (0: none was behind, or the index is away).

        Vectors are committed before the index is written, so that nothing is embedded twice. Raises StoreUnavailable.
        """
        with self._store.indexing(tenant) as rows:
            token, points = rows.claim_points(kinds, worker, self._batch, LEASE_S)
            known = rows.known_vectors(self._embedder.model, _texts(points))
        if not points:
            return 0
        try:
            vectors = known | self._embed(tenant, [text for text in _texts(points) if text not in known])
            self._index.delete([point.id for point in points if point.gone])
            self._index.upsert([_point(tenant, point, vectors) for point in points if not point.gone])
            with self._store.indexing(tenant) as rows:
                rows.finish_points(token, {point.id: point.version for point in points})
        except StoreUnavailable as error:
            with self._store.indexing(tenant) as rows:
                rows.retry_points(token, 0.0, error.code, error.message)
            raise
        except MemForestError as error:
            decision = decide(error, attempts=1, max_attempts=1, divisible=False, jitter=self._rng.random())
            with self._store.indexing(tenant) as rows:
                rows.retry_points(token, max(1.0, decision.delay_s), error.code, error.message)
            return 0
        return len(points)

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
