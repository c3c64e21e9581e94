"""Reads of the embedded engine: stored points with their vectors, and its failures as our errors."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import assert_never
from uuid import UUID

import numpy as np
import qdrant_edge as engine

from memforest_core.domain.ids import KNOWN_IDS, ForestId, TenantId
from memforest_core.errors import IndexUnavailable
from memforest_core.index.qdrant import collection_schema as schema
from memforest_core.index.qdrant.collection_schema import point_ids
from memforest_core.index.vector_index import DenseVector, IndexFilter, Point, PointKind, SparseVector

PAGE = 2_000
"""Points of one read; each page scans the forest's ids from the start."""
LENGTH_ERROR = 0.01
"""By how much a stored vector may be longer or shorter than 1."""
_FIELDS = [schema.ROW, schema.KIND, schema.ROOT, schema.TREE_KIND, schema.VERSION]


class EngineReads:
    """The ``EngineReader`` of in-memory indexes, over the shard that ``opened`` gives. The engine stores vectors at
    length 1."""

    def __init__(self, opened: Callable[[], engine.EdgeShard]) -> None:
        self._opened = opened

    def count(self, tenant: TenantId, forest_id: ForestId, kind: PointKind) -> int:
        wanted = engine_filter(schema.conditions(IndexFilter(tenant, forest_id, (kind,)), None))
        with engine_failures("the vector index refused a count"):
            return self._opened().count(engine.CountRequest(exact=True, filter=wanted))

    def pages(self, tenant: TenantId, forest_id: ForestId) -> Iterator[Sequence[Point]]:
        chosen, at = engine_filter(schema.forest_conditions(tenant, forest_id)), None
        while True:
            request = engine.ScrollRequest(offset=at, limit=PAGE, filter=chosen, with_payload=_FIELDS, with_vector=True)
            with engine_failures("the vector index refused a scan"):
                records, at = self._opened().scroll(request)
                page = [_point(tenant, forest_id, record) for record in records]
            yield page
            if at is None:
                return

    def named(self, tenant: TenantId, forest_id: ForestId, rows: Sequence[UUID]) -> Sequence[Point]:
        points = point_ids(tenant, forest_id, rows)
        with engine_failures("the vector index refused a read"):
            return [_point(tenant, forest_id, each) for each in self._opened().retrieve(list(points), _FIELDS, True)]


def _point(tenant: TenantId, forest_id: ForestId, record: engine.Record) -> Point:
    # The engine makes a list of a record's numbers each time it is read.
    payload, vectors = record.payload or {}, record.vector
    terms = vectors.get(schema.TERMS) if isinstance(vectors, dict) else None
    sparse = SparseVector((), ())
    if isinstance(terms, engine.SparseVector):
        sparse = SparseVector(tuple(terms.indices), tuple(terms.values))
    return Point(
        id=KNOWN_IDS[str(payload[schema.ROW])],
        tenant=tenant,
        forest_id=forest_id,
        kind=PointKind(str(payload[schema.KIND])),
        version=int(payload[schema.VERSION]),
        dense=_dense(vectors),
        sparse=sparse,
        tree_kind=payload.get(schema.TREE_KIND),
        is_root=bool(payload[schema.ROOT]),
    )


def _dense(vectors: object) -> DenseVector:
    named: Mapping[str, object] = vectors if isinstance(vectors, dict) else {}
    return np.array(named[schema.DENSE], np.float32)


class IndexDamaged(IndexUnavailable):
    """The files of the embedded index can't be used: it sets them aside and is filled from rows."""

    code = "index_damaged"


ASIDE = ".damaged"
"""What the name of a directory that was set aside ends with."""

_OS_ERROR = re.compile(r"os error (\d+)")
_OF_MACHINE = frozenset(
    {errno.EPERM, errno.EIO, errno.ENOMEM, errno.EACCES, errno.ENFILE, errno.EMFILE, errno.ENOSPC, errno.EROFS}
)
"""What no other directory would change."""


@contextmanager
def engine_failures(what: str) -> Iterator[None]:
    """Turns what the engine raises into our errors; ``what`` failed, in words for messages.

    The engine raises ``Exception`` itself for everything, with no class of its own, and a panic of its own as a
    ``BaseException``; fields of damaged payload are missing or have other values. What else is raised are our own
    errors or bugs and passes unchanged. Raises IndexDamaged, but IndexUnavailable for what is missing on the machine.
    """
    try:
        yield
    except OSError as error:
        raise IndexUnavailable(f"{what}: {error}") from error
    except (KeyError, ValueError) as error:
        raise IndexDamaged(f"{what}: a stored point can't be read ({type(error).__name__})") from error
    except BaseException as error:
        if type(error) is not Exception and type(error).__name__ != "PanicException":
            raise
        text = str(error)
        if "WouldBlock" in text:
            raise IndexUnavailable(f"{what}: another process has it open") from error
        number = _OS_ERROR.search(text)
        if number is not None and int(number[1]) in _OF_MACHINE:
            raise IndexUnavailable(f"{what}: {text}") from error
        raise IndexDamaged(f"{what}: {text}") from error


def read_all(directory: Path) -> int:
    """Read the points of a shard that no process has open; how many. Raises IndexDamaged, IndexUnavailable."""
    with engine_failures(f"{directory} can't be read: the node sets it aside and rebuilds the index when it starts"):
        shard, points, at = engine.EdgeShard.load(str(directory)), 0, None
        rows = engine.Filter(must_not=[engine.HasIdCondition({schema.MARK_ID})])
        while True:
            request = engine.ScrollRequest(offset=at, limit=PAGE, filter=rows, with_payload=True, with_vector=True)
            records, at = shard.scroll(request)
            if any(abs(float(np.linalg.norm(_dense(record.vector))) - 1) > LENGTH_ERROR for record in records):
                raise ValueError("a vector of another length")
            points += len(records)
            if at is None:
                shard.close()
                return points


def engine_filter(wanted: Sequence[schema.Condition]) -> engine.Filter:
    """Conditions, all of which must hold, as the engine's filter."""
    return engine.Filter(must=[engine_condition(condition) for condition in wanted])


def engine_condition(condition: schema.Condition) -> engine.ConditionType:
    """One of them."""
    match condition:
        case schema.AnyOf(field, (only,)):
            return engine.FieldCondition(field, match=engine.MatchValue(only))
        case schema.AnyOf(field, values):
            return engine.FieldCondition(field, match=engine.MatchAny(list(map(str, values))))
        case schema.Within(field, least, most):
            return engine.FieldCondition(field, range=engine.RangeFloat(gte=least, lte=most))
        case schema.Among(ids):
            return engine.HasIdCondition(set(ids))
        case _:
            assert_never(condition)
