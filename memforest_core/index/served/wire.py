"""What goes over the socket: one JSON object a request, checked field by field before anything is done."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

import numpy as np
from pydantic import BaseModel, ConfigDict

from memforest_core.domain.ids import ForestId, SessionId, TenantId, TreeId
from memforest_core.index.vector_index import (
    DenseVector,
    IndexFilter,
    IndexQuery,
    Point,
    PointKey,
    PointKind,
    SparseVector,
    VectorIndex,
)

MAX_BODY = 32 * 2**20
"""Bytes of a request: 256 points of 4,096 dimensions are 25 million."""


class Wire(BaseModel):
    """Unknown fields are errors: another version sends them. An open end of a time is an infinity."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="constants")


class WireSparse(Wire):
    """Term weights."""

    indices: tuple[int, ...]
    values: tuple[float, ...]

    @classmethod
    def of(cls, vector: SparseVector) -> WireSparse:
        """A sparse vector as it is sent."""
        return cls.model_construct(indices=vector.indices, values=vector.values)

    def vector(self) -> SparseVector:
        """The sparse vector that was sent."""
        return SparseVector(self.indices, self.values)


class WirePoint(Wire):
    """A point."""

    id: UUID
    tenant: TenantId
    forest_id: ForestId
    kind: PointKind
    version: int
    dense: list[float]
    sparse: WireSparse
    tree_id: TreeId | None = None
    tree_kind: str | None = None
    level: int | None = None
    is_root: bool = False
    session_id: SessionId | None = None
    time_start: float | None = None
    time_end: float | None = None

    @classmethod
    def of(cls, point: Point, dense: list[float]) -> WirePoint:
        """A point as it is sent; ``dense`` are its checked numbers."""
        same = {name: getattr(point, name) for name in cls.model_fields if name not in {"dense", "sparse"}}
        return cls.model_construct(**same, dense=dense, sparse=WireSparse.of(point.sparse))

    def point(self) -> Point:
        """The point that was sent."""
        same = {name: getattr(self, name) for name in type(self).model_fields if name not in {"dense", "sparse"}}
        return Point(**same, dense=_dense(self.dense), sparse=self.sparse.vector())


class WireQuery(Wire):
    """A search by a dense vector or by terms; exactly one of them is set."""

    dense: list[float] | None
    sparse: WireSparse | None
    filter: IndexFilter
    limit: int
    min_score: float | None

    @classmethod
    def of(cls, query: IndexQuery, dense: list[float] | None) -> WireQuery:
        """A query as it is sent; ``dense`` are the checked numbers of a dense one."""
        sparse = WireSparse.of(query.vector) if isinstance(query.vector, SparseVector) else None
        return cls.model_construct(
            dense=dense, sparse=sparse, filter=query.filter, limit=query.limit, min_score=query.min_score
        )

    def query(self) -> IndexQuery:
        """The query that was sent."""
        vector = self.sparse.vector() if self.sparse is not None else _dense(self.dense or [])
        return IndexQuery(vector, self.filter, self.limit, self.min_score)


def _dense(values: list[float]) -> DenseVector:
    return np.array(values, dtype=np.float32)


class Request(Wire):
    """One call of the port: ``index`` is the collection that the caller means, the other fields are the arguments."""

    call: ClassVar[str]
    index: str

    def arguments(self) -> dict[str, Any]:
        """The arguments as the port takes them."""
        return {name: getattr(self, name) for name in type(self).model_fields if name != "index"}

    def run(self, index: VectorIndex) -> object:
        """Make the call; the result is ready for JSON."""
        return getattr(index, self.call)(**self.arguments())


class Prepare(Request):
    """Its owner has prepared the index before: this does nothing."""

    call = "prepare"


class Upsert(Request):
    call = "upsert"
    points: list[WirePoint]

    def arguments(self) -> dict[str, Any]:
        return {"points": [point.point() for point in self.points]}


class Delete(Request):
    call = "delete"
    keys: list[PointKey]


class Search(Request):
    call = "search"
    queries: list[WireQuery]

    def arguments(self) -> dict[str, Any]:
        return {"queries": [query.query() for query in self.queries]}


class Versions(Request):
    call = "versions"
    keys: list[PointKey]


class Count(Request):
    call = "count"
    tenant: TenantId
    forest_id: ForestId | None


class Scan(Request):
    call = "scan"
    cursor: str | None
    limit: int
    tenant: TenantId | None


class ReadMark(Request):
    call = "read_mark"


class WriteMark(Request):
    call = "write_mark"
    mark: str


REQUESTS: dict[str, type[Request]] = {
    request.call: request for request in (Prepare, Upsert, Delete, Search, Versions, Count, Scan, ReadMark, WriteMark)
}


class Refused(Wire):
    """Why a call failed, in the terms of our errors."""

    code: str
    message: str
    retry_after: float | None = None
