"""The vector index of a running node, as other processes use it over its socket."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar
from uuid import UUID

from pydantic import TypeAdapter, ValidationError

from memforest_core.domain.forks import renewed_in_child
from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.errors import IndexUnavailable, InvalidSettings, InvariantViolated, MemForestError
from memforest_core.index.qdrant.points import batches, can_match, dense_values, newest
from memforest_core.index.qdrant.schema import collection_name
from memforest_core.index.served import wire
from memforest_core.index.vector_index import Hits, IndexQuery, Point, PointKey, ScanPage, SparseVector

T = TypeVar("T")

_NOTHING: TypeAdapter[None] = TypeAdapter(None)
_FOUND = TypeAdapter(list[wire.Found])
_VERSIONS = TypeAdapter(dict[UUID, int])
_IDS = TypeAdapter(frozenset[UUID])
_COUNT = TypeAdapter(int)
_PAGE = TypeAdapter(ScanPage)
_MARK: TypeAdapter[str | None] = TypeAdapter(str | None)

KEPT_CONNECTIONS = 8
"""Connections that a client keeps between calls; so many threads may ask at once without connecting anew."""

_ERRORS: dict[str, type[MemForestError]] = {error.code: error for error in (InvalidSettings, InvariantViolated)}


@renewed_in_child
class ServedIndex:
    """The index of the node that serves ``path``. Thread-safe; a node that is gone is an IndexUnavailable."""

    def __init__(self, path: Path, model: str, dimension: int, timeout_s: float) -> None:
        self._path = str(path)
        self._timeout_s = timeout_s
        self._model = model
        self._dimension = dimension
        self._name = collection_name(model, dimension)
        self._closed = False
        self._idle: list[wire.Frames] = []

    @property
    def name(self) -> str:
        return self._name

    def prepare(self) -> None:
        """See that the node serves this collection. Raises InvalidSettings for another one, IndexUnavailable."""
        self._call(wire.Prepare(index=self._name), _NOTHING)

    def upsert(self, points: Sequence[Point]) -> None:
        self._check_open()
        for point in points:
            dense_values(point.dense, self._model, self._dimension)
        for batch in batches(newest(points)):
            self._call(wire.Upsert(index=self._name, points=list(batch)), _NOTHING)

    def delete(self, keys: Sequence[PointKey]) -> None:
        self._call(wire.Delete(index=self._name, keys=list(keys)), _NOTHING)

    def search(self, queries: Sequence[IndexQuery]) -> list[Hits]:
        self._check_open()
        found = [Hits.of(()) for _ in queries]
        asked = [at for at, query in enumerate(queries) if can_match(query)]
        for at in asked:
            vector = queries[at].vector
            if not isinstance(vector, SparseVector):
                dense_values(vector, self._model, self._dimension)
        if asked:
            request = wire.Search.of(self._name, [queries[at] for at in asked])
            answers = self._call(request, _FOUND)
            for at, answer in zip(asked, answers, strict=True):
                found[at] = answer.hits(queries[at])
        return found

    def versions(self, keys: Sequence[PointKey]) -> dict[UUID, int]:
        return self._call(wire.Versions(index=self._name, keys=list(keys)), _VERSIONS)

    def differing(self, points: Sequence[Point]) -> frozenset[UUID]:
        parts = [self._call(wire.Differing(index=self._name, points=list(part)), _IDS) for part in batches(points)]
        return frozenset[UUID]().union(*parts)

    def set_aside(self) -> None:
        self._call(wire.SetAside(index=self._name), _NOTHING)

    def count(self, tenant: TenantId, forest_id: ForestId | None = None) -> int:
        return self._call(wire.Count(index=self._name, tenant=tenant, forest_id=forest_id), _COUNT)

    def scan(self, cursor: str | None, limit: int, tenant: TenantId | None = None) -> ScanPage:
        return self._call(wire.Scan(index=self._name, cursor=cursor, limit=limit, tenant=tenant), _PAGE)

    def read_mark(self) -> str | None:
        return self._call(wire.ReadMark(index=self._name), _MARK)

    def write_mark(self, mark: str) -> None:
        self._call(wire.WriteMark(index=self._name, mark=mark), _NOTHING)

    def close(self) -> None:
        """Release the connections; later calls fail with IndexUnavailable. The node's index stays open."""
        self._closed = True
        while (kept := self._kept()) is not None:
            kept.close()

    def _check_open(self) -> None:
        if self._closed:
            raise IndexUnavailable("the vector index is closed")

    def _call(self, request: wire.Request, result: TypeAdapter[T]) -> T:
        self._check_open()
        try:
            answer = self._answer(request.model_dump_json(warnings=False).encode())
            if answer[:1] == wire.DONE:
                return result.validate_json(answer[1:])
            refused = wire.Refused.model_validate_json(answer[1:])
        except OSError as error:
            raise IndexUnavailable(
                f"the node that holds the vector index did not answer {request.call} ({type(error).__name__}):"
                " start memforest up again"
            ) from None
        except (wire.TooLarge, ValidationError):
            raise IndexUnavailable(
                f"the node's answer to {request.call} can't be read: run the same version of memforest in both"
            ) from None
        if refused.code in (wire.INVALID_REQUEST, wire.TOO_LARGE):
            raise InvariantViolated(f"the node refuses {request.call} ({refused.code}): {refused.message}")
        if refused.code in _ERRORS:
            raise _ERRORS[refused.code](refused.message)
        raise IndexUnavailable(refused.message, retry_after=refused.retry_after)

    def _answer(self, body: bytes) -> bytes:
        """What the node says; asked again on a new connection when one that was kept has ended meanwhile. All calls may
        be made twice: a point that is there in its version stays as it is."""
        kept = self._kept()
        if kept is not None:
            try:
                return self._exchanged(kept, body)
            except ConnectionError:
                pass
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(self._timeout_s)
        try:
            connection.connect(self._path)
        except OSError:
            connection.close()
            raise
        return self._exchanged(wire.Frames(connection), body)

    def _exchanged(self, frames: wire.Frames, body: bytes) -> bytes:
        """One call on this connection, which is kept for others if it went well."""
        try:
            frames.send(body)
            answer = frames.receive()
            if answer is None:
                raise ConnectionResetError
        except (OSError, wire.TooLarge):
            frames.close()
            raise
        if self._closed or len(self._idle) >= KEPT_CONNECTIONS:
            frames.close()
        else:
            self._idle.append(frames)
        return answer

    def _kept(self) -> wire.Frames | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None
