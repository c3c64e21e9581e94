"""The points that index rows stand for, and which points of the index have other contents."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from memforest_core.domain.ids import TenantId
from memforest_core.domain.indexed import bm25_weights
from memforest_core.index.records import PointRow, StalePoint
from memforest_core.index.rows import IndexStore
from memforest_core.index.vector_index import Point, SparseVector, VectorIndex
from memforest_core.models.calls import OwnText, Vectors

SAMPLE = 25
"""Rows of a page whose points are compared, chosen at random: damage meets many points at once."""


def differing(
    store: IndexStore, index: VectorIndex, tenant: TenantId, rows: Sequence[PointRow], deep: bool = False
) -> list[PointRow]:
    """Those of a sample of these rows, or of all, whose point has their version and other contents; looked at twice,
    because both change meanwhile. An embedded index with such a point sets its files aside.

    Raises StoreUnavailable, IndexUnavailable.
    """
    chosen = rows if deep or len(rows) <= SAMPLE else random.sample(rows, SAMPLE)
    wrong = frozenset(row.id for row in chosen)
    for _ in range(2):
        if wrong:
            with store.indexing(tenant) as reading:
                model, written = reading.written_points(wrong)
                if model is None:
                    return []
                vectors = reading.known_vectors(model, texts_of(written))
            known = [each for each in written if each.vector is not None or _own(each) in vectors]
            wrong = index.differing([point_of(tenant, each, vectors) for each in known])
    if wrong:
        index.set_aside()
    return [row for row in chosen if row.id in wrong]


def texts_of(points: Sequence[StalePoint]) -> list[OwnText]:
    """The texts of those points that bring no vector."""
    own = (_own(point) for point in points if point.wanted and point.vector is None)
    return list(dict.fromkeys(own))


def _own(point: StalePoint) -> OwnText:
    return OwnText(point.forest_id, point.text)


def point_of(tenant: TenantId, point: StalePoint, vectors: Mapping[OwnText, Vectors]) -> Point:
    """The point, with the vector of its text among ``vectors``."""
    indices, values = bm25_weights(point.counts, point.leaves)
    return Point(
        id=point.id,
        tenant=tenant,
        forest_id=point.forest_id,
        kind=point.kind,
        version=point.version,
        dense=point.vector if point.vector is not None else vectors[_own(point)],
        sparse=SparseVector(indices, values),
        tree_id=point.tree_id,
        tree_kind=point.tree_kind,
        level=point.level,
        is_root=point.is_root,
        session_id=point.session_id,
        time_start=point.time_start,
        time_end=point.time_end,
    )
