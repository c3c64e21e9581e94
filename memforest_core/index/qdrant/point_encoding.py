"""What both adapters check and encode before a point or a query reaches the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from memforest_core.domain.ids import KNOWN_IDS, ForestId, TenantId
from memforest_core.errors import InvalidSettings, InvariantViolated
from memforest_core.index.qdrant import collection_schema as schema
from memforest_core.index.qdrant.collection_schema import space
from memforest_core.index.vector_index import (
    DenseVector,
    Hit,
    Hits,
    IndexFilter,
    IndexQuery,
    Point,
    PointKind,
    ScannedPoint,
    SparseVector,
)

PayloadValue = str | int | float

HALF_ERROR = 2e-3
"""By how much a number of a vector of length one may differ: half precision rounds by up to 5e-4, rounded twice."""

TIES = 16
"""Hits looked at beyond a limit: of those that score the same at the cut, the ids decide which are returned."""


def encode_payload(point: Point) -> dict[str, PayloadValue]:
    """The payload of a point without what is unknown; a time with one known end is an instant."""
    payload: dict[str, PayloadValue] = {
        schema.TENANT: point.tenant,
        schema.FOREST: str(space(point.tenant, point.forest_id)),
        schema.FOREST_ID: str(point.forest_id),
        schema.ROW: str(point.id),
        schema.KIND: point.kind.value,
        schema.VERSION: point.version,
        schema.ROOT: int(point.is_root),
    }
    if point.tree_id is not None:
        payload[schema.TREE] = str(point.tree_id)
    if point.tree_kind is not None:
        payload[schema.TREE_KIND] = point.tree_kind
    if point.level is not None:
        payload[schema.LEVEL] = point.level
    if point.session_id is not None:
        payload[schema.SESSION] = str(point.session_id)
    start = point.time_end if point.time_start is None else point.time_start
    end = point.time_start if point.time_end is None else point.time_end
    if start is not None and end is not None:
        payload[schema.START] = start
        payload[schema.END] = end
    return payload


def differing(
    search: Callable[[Sequence[IndexQuery]], list[Hits]],
    stored: Iterable[tuple[Point, Mapping[str, object], object]],
    model: str,
) -> frozenset[UUID]:
    """Of points of one tenant, each with the payload and the vectors by name that are stored: as the port has it."""
    same = [(point, payload, vectors) for point, payload, vectors in stored if payload[schema.VERSION] == point.version]
    alike: dict[IndexFilter, list[Point]] = {}
    for each, _, _ in same:
        tree = () if each.tree_id is None else (each.tree_id,)
        family = () if each.tree_kind is None else (each.tree_kind,)
        session = () if each.session_id is None else (each.session_id,)
        filter_ = IndexFilter(each.tenant, each.forest_id, (each.kind,), each.is_root, tree, family, session)
        alike.setdefault(filter_, []).append(each)
    # The payload's index is separate from its storage. A least score has the engine read both.
    queries = [
        IndexQuery(group[0].dense, replace(each, ids=tuple(point.id for point in group)), len(group), min_score=-2.0)
        for each, group in alike.items()
    ]
    found = {id_ for hits in search(queries) for id_ in hits.ids}
    return frozenset(
        point.id
        for point, payload, vectors in same
        if point.id not in found or _differs(point, payload, vectors, model)
    )


def _differs(point: Point, payload: Mapping[str, object], stored: object, model: str) -> bool:
    """An index stores a vector at length one, in half precision, and weights in single precision."""
    vectors: Mapping[str, Any] = stored if isinstance(stored, dict) else {}
    terms = vectors.get(schema.TERMS)
    unit = as_compared(point.dense, model, len(point.dense))
    numbers = np.array(vectors.get(schema.DENSE, ()), np.float32)
    return (
        payload != encode_payload(point)
        or numbers.shape != unit.shape
        or not np.allclose(numbers, unit, rtol=0, atol=HALF_ERROR)
        or tuple(terms.indices if terms else ()) != point.sparse.indices
        or not np.array_equal(
            np.array(terms.values if terms else (), np.float32), np.array(point.sparse.values, np.float32)
        )
    )


def scanned_point(payload: Mapping[str, object]) -> ScannedPoint:
    """A point as a scan sees it."""
    return ScannedPoint(
        UUID(str(payload[schema.ROW])),
        TenantId(str(payload[schema.TENANT])),
        ForestId(UUID(str(payload[schema.FOREST_ID]))),
        int(str(payload[schema.VERSION])),
        str(payload[schema.KIND]),
    )


def dense_values(vector: DenseVector, model: str, dimension: int) -> list[float]:
    """The numbers of a dense vector, checked against the collection's dimension.

    Raises InvalidSettings for another dimension, InvariantViolated for NaN and infinities.
    """
    values: list[float] = _checked(vector, model, dimension).astype(np.float64).tolist()
    return values


def as_compared(vector: DenseVector, model: str, dimension: int) -> NDArray[np.float32]:
    """A question's vector as points are stored: of length one, in half precision. The engine, which rounds both, and
    in-memory indexes then give the same cosine. Raises as ``dense_values`` does."""
    numbers = _checked(vector, model, dimension).astype(np.float32)
    return (numbers / (float(np.linalg.norm(numbers)) or 1.0)).astype(np.float16).astype(np.float32)


def _checked(vector: DenseVector, model: str, dimension: int) -> DenseVector:
    if vector.shape != (dimension,):
        raise InvalidSettings(
            f"a vector of shape {vector.shape} does not fit the index of model {model!r} "
            f"(dimension {dimension}): set the embedding model that built this index, or rebuild it"
        )
    if not bool(np.isfinite(vector).all()):
        raise InvariantViolated("an embedding has a value that is not a finite number")
    return vector


def newest(points: Sequence[Point]) -> list[Point]:
    """One point per id, the one with the highest version; first come on equal versions."""
    best: dict[object, Point] = {}
    for point in points:
        known = best.get(point.key)
        if known is None or known.version < point.version:
            best[point.key] = point
    return list(best.values())


def batches(points: Sequence[Point]) -> Iterator[Sequence[Point]]:
    """Slices of at most ``schema.BATCH`` points, in order."""
    for at in range(0, len(points), schema.BATCH):
        yield points[at : at + schema.BATCH]


def can_match(query: IndexQuery) -> bool:
    """Whether a query can find anything at all: it wants hits, of some ids, by some terms."""
    if query.limit < 1 or query.filter.ids == ():
        return False
    return not (isinstance(query.vector, SparseVector) and not query.vector.indices)


def read_fields(query: IndexQuery) -> list[str] | bool:
    """What has to be read of each hit's payload: nothing of a hit that was named by its id and is of one kind."""
    fields = [schema.ROW] if query.filter.ids is None else []
    fields += [schema.KIND] if only_kind(query) is None else []
    return fields or False


def hits_of(found: Iterable[Any], query: IndexQuery, named: Mapping[UUID, UUID] | None) -> Hits:
    """Scored points as a query's hits, under the ids of their rows: best first, then by id, so that indexes with the
    same points give the same; those that were ``named`` by id in the index's order."""
    kind = only_kind(query)
    if named is not None and kind is not None:
        scores = {named[uuid_of(each.id)]: each.score for each in found}
        return Hits.of_kind(kind, list(scores), list(scores.values()))
    hits = []
    for each in found:
        fields = each.payload or {}
        # The engine makes a new id for each read: only hits of named rows need one.
        row = named[uuid_of(each.id)] if named is not None else KNOWN_IDS[str(fields[schema.ROW])]
        hits.append(Hit(row, kind or PointKind(str(fields[schema.KIND])), each.score))
    hits.sort(key=lambda hit: (-hit.score, hit.id.int))
    return Hits.of(hits[: query.limit])


def uuid_of(id_: object) -> UUID:
    """A point's id, which clients and the engine give as one or as its text."""
    return id_ if isinstance(id_, UUID) else UUID(str(id_))


def only_kind(query: IndexQuery) -> PointKind | None:
    """What all hits of a query are, if that is known before: payloads need not be read then.

    Reading them is most of a search by ids: measured on the embedded engine, 5.7 ms against 1.1 ms for 900 ids.
    """
    return query.filter.kinds[0] if len(query.filter.kinds) == 1 else None


def unbounded(wanted: IndexFilter) -> bool:
    """Whether a filter has no bounds in trees, sessions and time."""
    return not (wanted.tree_ids or wanted.session_ids) and wanted.overlaps is None


def only_named(query: IndexQuery) -> bool:
    """Whether a query wants all points of one kind that it names, and bounds them by nothing else."""
    named = query.filter
    return (
        named.ids is not None
        and not (named.roots_only or named.tree_kinds)
        and unbounded(named)
        and len(named.kinds) == 1
        and query.limit >= len(named.ids)
        and query.min_score is None
    )


def engine_limit(query: IndexQuery) -> int:
    """How many hits the engine is to return."""
    return query.limit if query.filter.ids is not None else query.limit + TIES
