"""Builders of points, filters and queries for the vector index tests, with defaults."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4, uuid5

import numpy as np

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.index.vector_index import (
    DenseVector,
    IndexFilter,
    IndexQuery,
    Point,
    PointKey,
    PointKind,
    SparseVector,
)

MODEL = "acme/Tiny-Embed v1"
DIMENSION = 384
"""The built-in model's: rounded to half precision, a cosine of so many numbers differs by less than 1e-4."""
ACME = TenantId("acme")
ALICE = ForestId(UUID(int=0xA11CE))
BOB = ForestId(UUID(int=0xB0B))


def named(name: str) -> UUID:
    """A stable id for a word."""
    return uuid5(UUID(int=0), name)


def keys(*ids: UUID) -> list[PointKey]:
    """What names these points of Alice's."""
    return [PointKey(ACME, ALICE, id) for id in ids]


def direction(*numbers: float, dimension: int = DIMENSION) -> DenseVector:
    """A dense vector that starts with ``numbers`` and goes on with zeros."""
    return np.array([*numbers, *[0.0] * (dimension - len(numbers))], dtype=np.float32)


def stored(vector: DenseVector) -> DenseVector:
    """A vector as an index stores it: of length one, in half precision."""
    rounded: DenseVector = (vector / np.linalg.norm(vector)).astype(np.float16).astype(np.float32)
    return rounded


def terms(**weights: float) -> SparseVector:
    """Sparse terms such as ``terms(t3=1.0, t7=0.5)``."""
    pairs = sorted((int(name[1:]), weight) for name, weight in weights.items())
    return SparseVector(tuple(i for i, _ in pairs), tuple(w for _, w in pairs))


def point(id: UUID | None = None, **changes: Any) -> Point:
    """A fact of Alice's, version 1, along the first axis."""
    fields: dict[str, Any] = {
        "id": id or uuid4(),
        "tenant": ACME,
        "forest_id": ALICE,
        "kind": PointKind.FACT,
        "version": 1,
        "dense": direction(1),
        "sparse": terms(t1=1.0),
    }
    return Point(**(fields | changes))


def where(**changes: Any) -> IndexFilter:
    """All of Alice's points."""
    fields: dict[str, Any] = {"tenant": ACME, "forest_id": ALICE}
    return IndexFilter(**(fields | changes))


def querying(vector: DenseVector | SparseVector | None = None, **changes: Any) -> IndexQuery:
    """The 100 points of Alice's closest to the first axis; other changes go to the filter."""
    limit = changes.pop("limit", 100)
    min_score = changes.pop("min_score", None)
    return IndexQuery(direction(1) if vector is None else vector, where(**changes), limit, min_score)
