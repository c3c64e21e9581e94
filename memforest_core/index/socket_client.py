"""The vector index of a running node, as other processes of its user call it over its socket."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from uuid import UUID

from pydantic import ValidationError

from memforest_core.domain.forks import renewed_in_child
from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.errors import IndexUnavailable, InvalidSettings, InvariantViolated, MemForestError
from memforest_core.index.qdrant.collection_schema import collection_name
from memforest_core.index.qdrant.point_encoding import batches, can_match, dense_values, newest
from memforest_core.index.socket_calls import CALLS, INVALID_REQUEST, TOO_LARGE, Refused
from memforest_core.index.vector_index import Hits, IndexQuery, Point, PointKey, ScanPage, SparseVector

_ERRORS: dict[str, type[MemForestError]] = {error.code: error for error in (InvalidSettings, InvariantViolated)}

IDLE_CONNECTIONS = 8
"""Connections that stay open between calls."""


class _Connection(HTTPConnection):
    """httpx takes 1.4 ms more processor time for a call (measured: 300 recalls of three calls)."""

    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("node", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


@renewed_in_child
class SocketIndex:
    """The index of the node that answers at ``path``. Thread-safe; a node that is gone is an IndexUnavailable.

    All calls may be made twice: a point that is there in its version stays as it is.
    """

    def __init__(self, path: Path, model: str, dimension: int, timeout_s: float) -> None:
        self._model = model
        self._dimension = dimension
        self._name = collection_name(model, dimension)
        self._path = str(path)
        self._timeout_s = timeout_s
        self._closed = False
        self._idle: list[_Connection] = []

    @property
    def name(self) -> str:
        return self._name

    def prepare(self) -> None:
        """See that the node serves this collection. Raises InvalidSettings for another one, IndexUnavailable."""
        self._call("prepare")

    def upsert(self, points: Sequence[Point]) -> None:
        for point in points:
            dense_values(point.dense, self._model, self._dimension)
        for batch in batches(newest(points)):
            self._call("upsert", points=batch)

    def delete(self, keys: Sequence[PointKey]) -> None:
        self._call("delete", keys=keys)

    def search(self, queries: Sequence[IndexQuery]) -> list[Hits]:
        found = [Hits.of(()) for _ in queries]
        possible = [at for at, query in enumerate(queries) if can_match(query)]
        for at in possible:
            vector = queries[at].vector
            if not isinstance(vector, SparseVector):
                dense_values(vector, self._model, self._dimension)
        if possible or self._closed:
            answers: list[Hits] = self._call("search", queries=[queries[at] for at in possible])
            for at, answer in zip(possible, answers, strict=True):
                found[at] = answer
        return found

    def versions(self, keys: Sequence[PointKey]) -> dict[UUID, int]:
        found: dict[UUID, int] = self._call("versions", keys=keys)
        return found

    def differing(self, points: Sequence[Point]) -> frozenset[UUID]:
        return frozenset[UUID]().union(*(self._call("differing", points=part) for part in batches(points)))

    def set_aside(self) -> None:
        self._call("set_aside")

    def count(self, tenant: TenantId, forest_id: ForestId | None = None) -> int:
        return int(self._call("count", tenant=tenant, forest_id=forest_id))

    def scan(self, cursor: str | None, limit: int, tenant: TenantId | None = None) -> ScanPage:
        page: ScanPage = self._call("scan", cursor=cursor, limit=limit, tenant=tenant)
        return page

    def read_mark(self) -> str | None:
        mark: str | None = self._call("read_mark")
        return mark

    def write_mark(self, mark: str) -> None:
        self._call("write_mark", mark=mark)

    def close(self) -> None:
        """Release the connections; later calls fail with IndexUnavailable. The node's index stays open."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def _call(self, name: str, **arguments: Any) -> Any:
        if self._closed:
            raise IndexUnavailable("the vector index is closed")
        call = CALLS[name]
        body = call.arguments.model_construct(**arguments).model_dump_json(warnings=False)
        try:
            done, answer = self._exchange(f"/{self._name}/{name}", body.encode())
            if done:
                return call.result.validate_json(answer)
            refused = Refused.model_validate_json(answer)
        except (OSError, HTTPException) as error:
            raise IndexUnavailable(
                f"the node of the vector index did not answer {name} ({type(error).__name__}): start memforest up again"
            ) from None
        except ValidationError:
            raise IndexUnavailable(
                f"the node's answer to {name} can't be read: run the same version of memforest in both"
            ) from None
        if refused.code in (INVALID_REQUEST, TOO_LARGE):
            raise InvariantViolated(f"the node refuses {name} ({refused.code}): {refused.message}")
        if refused.code in _ERRORS:
            raise _ERRORS[refused.code](refused.message)
        raise IndexUnavailable(refused.message, retry_after=refused.retry_after)

    def _exchange(self, path: str, body: bytes) -> tuple[bool, bytes]:
        """Whether a call was made, and the answer; retried on a new connection when an idle one has ended."""
        if self._idle:
            try:
                return self._exchange_on(self._idle.pop(), path, body)
            except (ConnectionError, IndexError):
                # Another thread had the last one, or the node left the silent connection.
                pass
        return self._exchange_on(_Connection(self._path, self._timeout_s), path, body)

    def _exchange_on(self, connection: _Connection, path: str, body: bytes) -> tuple[bool, bytes]:
        try:
            connection.request("POST", path, body)
            response = connection.getresponse()
            answer = response.read()
        except (OSError, HTTPException):
            connection.close()
            raise
        if response.will_close or self._closed or len(self._idle) >= IDLE_CONNECTIONS:
            connection.close()
        else:
            self._idle.append(connection)
        return response.status == 200, answer
