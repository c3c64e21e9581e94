"""What goes over the socket: one JSON object a request, checked field by field before anything is done."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, ConfigDict

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.index.vector_index import IndexQuery, Point, PointKey, VectorIndex

MAX_BODY = 32 * 2**20
"""Bytes of a request: 256 points of 4,096 dimensions are 25 million."""


class Wire(BaseModel):
    """Unknown fields are errors: another version sends them. An open end of a time is an infinity."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="constants")


class Request(Wire):
    """One call of the port: ``index`` is the collection that the caller means, the other fields are the arguments."""

    call: ClassVar[str]
    index: str

    def run(self, index: VectorIndex) -> object:
        """Make the call; the result is ready for JSON."""
        arguments = {name: getattr(self, name) for name in type(self).model_fields if name != "index"}
        return getattr(index, self.call)(**arguments)


class Prepare(Request):
    """Its owner has prepared the index before: this does nothing."""

    call = "prepare"


class Upsert(Request):
    call = "upsert"
    points: list[Point]


class Delete(Request):
    call = "delete"
    keys: list[PointKey]


class Search(Request):
    call = "search"
    queries: list[IndexQuery]


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
