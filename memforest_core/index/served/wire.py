"""What goes over the socket: frames of JSON, each checked field by field before anything is done.

A frame is the length of its body (four bytes, the most significant first) and the body. A connection takes one frame
after the other, each answered by one.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from dataclasses import replace
from itertools import compress
from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.domain.known_ids import KNOWN_IDS
from memforest_core.index.vector_index import Hits, IndexQuery, Point, PointKey, PointKind, VectorIndex

MAX_BODY = 32 * 2**20
"""Bytes of a body: 256 points of 4,096 dimensions are 25 million."""
_LENGTH = struct.Struct("!I")


class TooLarge(Exception):
    """A frame says that its body is longer than MAX_BODY: it is not read."""


class Frames:
    """One end of a connection. Raises OSError, TimeoutError among them."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._file = connection.makefile("rb")

    def send(self, body: bytes) -> None:
        """Send one frame."""
        self._socket.sendall(_LENGTH.pack(len(body)) + body)

    def receive(self) -> bytes | None:
        """The body of the next frame; None when the other end has closed, also in the middle of one. Raises
        TooLarge."""
        length = self._file.read(_LENGTH.size)
        if len(length) < _LENGTH.size:
            return None
        (size,) = _LENGTH.unpack(length)
        if size > MAX_BODY:
            raise TooLarge
        body = self._file.read(size)
        return body if len(body) == size else None

    def close(self) -> None:
        """Close the connection."""
        self._file.close()
        self._socket.close()


class Wire(BaseModel):
    """Unknown fields are errors: another version sends them. An open end of a time is an infinity."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="constants")


class _Request(Wire):
    """A call of the port: ``index`` is the collection that the caller means, the other fields are the arguments."""

    call: str
    index: str

    def run(self, index: VectorIndex) -> object:
        """Make the call; the result is ready for JSON."""
        arguments = {name: getattr(self, name) for name in type(self).model_fields if name not in ("call", "index")}
        return getattr(index, self.call)(**arguments)


class Prepare(_Request):
    """Its owner has prepared the index before: this does nothing, unless damaged files were met since."""

    call: Literal["prepare"] = "prepare"


class Upsert(_Request):
    call: Literal["upsert"] = "upsert"
    points: list[Point]


class Delete(_Request):
    call: Literal["delete"] = "delete"
    keys: list[PointKey]


IdText = Annotated[str, Field(pattern="^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]
"""An id as Postgres writes it. A recall names a thousand points: as text they are looked up, not made anew."""


class Found(Wire):
    """The hits of one query, by columns."""

    ids: list[IdText] | None
    """None where the query names its points, of one kind: their scores come in its order."""
    scores: list[float | None]
    """None for a named point that was not found."""
    kinds: list[PointKind]
    """Empty where the query asks for one kind alone."""

    def hits(self, query: IndexQuery) -> Hits:
        """As the port gives them."""
        ids: list[UUID] = [KNOWN_IDS[id_] for id_ in self.ids or ()]
        if self.ids is None:
            ids = list(query.filter.ids or ())
        kinds = self.kinds or list(query.filter.kinds) * len(ids)
        scores = [score for score in self.scores if score is not None]
        if len(scores) < len(self.scores):
            told = [score is not None for score in self.scores]
            ids, kinds = list(compress(ids, told)), list(compress(kinds, told))
        return Hits(ids, kinds, scores)


class Search(_Request):
    call: Literal["search"] = "search"
    queries: list[tuple[IndexQuery, list[IdText] | None]]
    """Each without the ids of its filter, and these."""

    @classmethod
    def of(cls, index: str, queries: Sequence[IndexQuery]) -> Search:
        """These queries, taken apart."""
        apart = [
            (_naming(query, None), None if query.filter.ids is None else list(map(str, query.filter.ids)))
            for query in queries
        ]
        return cls.model_construct(call="search", index=index, queries=apart)

    def run(self, index: VectorIndex) -> object:
        asked = [
            query if named is None else _naming(query, tuple(KNOWN_IDS[id_] for id_ in named))
            for query, named in self.queries
        ]
        return [_columns(query, hits) for query, hits in zip(asked, index.search(asked), strict=True)]


def _naming(query: IndexQuery, ids: tuple[UUID, ...] | None) -> IndexQuery:
    return replace(query, filter=replace(query.filter, ids=ids))


def _columns(query: IndexQuery, hits: Hits) -> dict[str, object]:
    """The fields of Found."""
    if query.filter.ids is not None and len(query.filter.kinds) == 1:
        scores = dict(zip(hits.ids, hits.scores, strict=True))
        return {"ids": None, "scores": list(map(scores.get, query.filter.ids)), "kinds": []}
    return {
        "ids": list(map(str, hits.ids)),
        "scores": hits.scores,
        "kinds": [] if len(query.filter.kinds) == 1 else hits.kinds,
    }


class Versions(_Request):
    call: Literal["versions"] = "versions"
    keys: list[PointKey]


class Differing(_Request):
    call: Literal["differing"] = "differing"
    points: list[Point]


class SetAside(_Request):
    call: Literal["set_aside"] = "set_aside"


class Count(_Request):
    call: Literal["count"] = "count"
    tenant: TenantId
    forest_id: ForestId | None


class Scan(_Request):
    call: Literal["scan"] = "scan"
    cursor: str | None
    limit: int
    tenant: TenantId | None


class ReadMark(_Request):
    call: Literal["read_mark"] = "read_mark"


class WriteMark(_Request):
    call: Literal["write_mark"] = "write_mark"
    mark: str


Request = Prepare | Upsert | Delete | Search | Versions | Differing | SetAside | Count | Scan | ReadMark | WriteMark
REQUEST: TypeAdapter[Request] = TypeAdapter(Annotated[Request, Field(discriminator="call")])


class Refused(Wire):
    """Why a call failed, in the terms of our errors."""

    code: str
    message: str
    retry_after: float | None = None


INVALID_REQUEST, TOO_LARGE = "invalid_request", "too_large"
"""Codes of requests that were never calls of the index."""

DONE, REFUSED = b"+", b"-"
"""The first byte of an answer: what the call gave follows, or why it failed."""
