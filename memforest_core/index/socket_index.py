"""The vector index of a running node, as other processes of its user call it over its socket."""

from __future__ import annotations

import inspect
import shutil
import socket
import socketserver
import struct
import sys
import threading
from collections.abc import Sequence
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints
from uuid import UUID

import structlog
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model

from memforest_core.domain.forks import renewed_in_child
from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.errors import IndexUnavailable, InvalidSettings, InvariantViolated, MemForestError, place_of
from memforest_core.index.qdrant.collection_schema import collection_name
from memforest_core.index.qdrant.point_encoding import batches, can_match, dense_values, newest
from memforest_core.index.vector_index import Hits, IndexQuery, Point, PointKey, ScanPage, SparseVector, VectorIndex

MAX_BODY = 32 * 2**20
"""Bytes of a request: 256 points of 4,096 dimensions are 25 million."""
ADDRESS_NAME = "served-at.json"


class SocketCall(NamedTuple):
    """A method of the index: its arguments, checked field by field, and its result."""

    arguments: type[BaseModel]
    result: TypeAdapter[Any]


def _call_of(name: str) -> SocketCall:
    method = getattr(VectorIndex, name)
    types = get_type_hints(method, include_extras=True)
    given = {each.name: each.default for each in inspect.signature(method).parameters.values() if each.name != "self"}
    fields: dict[str, Any] = {
        each: (types[each], ... if default is inspect.Parameter.empty else default) for each, default in given.items()
    }
    # Unknown fields are of another version; the open end of an interval is an infinity.
    config = ConfigDict(extra="forbid", ser_json_inf_nan="constants")
    return SocketCall(create_model(name, __config__=config, **fields), TypeAdapter(types["return"]))


_METHODS = (
    *("prepare", "upsert", "delete", "search", "versions", "differing"),
    *("set_aside", "count", "scan", "read_mark", "write_mark"),
)
CALLS = {name: _call_of(name) for name in _METHODS}


class Refused(BaseModel):
    """Why a call failed, as the error of this code."""

    code: str
    message: str
    retry_after: float | None = None


INVALID_REQUEST, TOO_LARGE = "invalid_request", "too_large"
"""Codes of requests that are no calls of the index."""


class _Address(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    directory: str
    """Device and inode of the directory: a copy of it is another one, whose index nobody serves."""
    socket: Path


def write_address(directory: Path, socket: Path) -> None:
    """Write into the engine's ``directory`` at which socket its owner serves the index. Raises OSError."""
    file = directory / ADDRESS_NAME
    fresh = file.with_suffix(".new")
    fresh.write_text(_Address(directory=_identity(directory), socket=socket).model_dump_json(), "utf-8")
    fresh.rename(file)


def read_address(directory: Path) -> Path | None:
    """The socket at which the owner of this directory serves the index; None when no node owns it."""
    try:
        found = _Address.model_validate_json((directory / ADDRESS_NAME).read_text("utf-8"))
        own = found.directory == _identity(directory)
    except (FileNotFoundError, NotADirectoryError, ValidationError):
        return None
    return found.socket if own else None


def _identity(directory: Path) -> str:
    seen = directory.stat()
    return f"{seen.st_dev}:{seen.st_ino}"


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
        # With a timeout Python's sockets do not block, and connecting would fail at once while many others connect.
        seconds = struct.pack("ll", max(1, int(self.timeout or 0)), 0)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, seconds)
        self.sock.connect(self._path)
        self.sock.settimeout(self.timeout)


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


log = structlog.get_logger(__name__)

ANSWERED_AT_ONCE = 8
"""Requests that are answered concurrently."""
CONNECTIONS = 256
"""Connections open concurrently, each with a thread that waits for its requests; more are refused at once."""
READ_TIMEOUT_S = 10.0
"""A client that sends nothing for this long is left: it connects again with its next call."""
STOP_POLL_S = 0.1


class SocketServer:
    """Serves ``index`` at ``path``, a Unix domain socket in a directory that only this user can enter.

    The size of a request, the connections and the requests that are answered concurrently are bounded.
    """

    def __init__(self, index: VectorIndex, path: Path) -> None:
        self._directory = path.parent
        shutil.rmtree(self._directory, ignore_errors=True)
        # Made for this socket alone: nobody else can connect, also while its own mode is not set yet.
        self._directory.mkdir(mode=0o700)
        self._server = _Server(str(path), index)
        path.chmod(0o600)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(STOP_POLL_S,), name="memforest-index-server", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Take no more requests, let those under way end, and remove the socket."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        shutil.rmtree(self._directory, ignore_errors=True)


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    request_queue_size = 64

    def __init__(self, path: str, index: VectorIndex) -> None:
        super().__init__(path, _Handler)
        self.index = index
        self.answering = threading.BoundedSemaphore(ANSWERED_AT_ONCE)
        self._open: set[Any] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Hand a connection to a thread, or drop it when there are too many."""
        if len(self._open) >= CONNECTIONS:
            log.warning("index_request_dropped", connections=CONNECTIONS)
            super().shutdown_request(request)
            return
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log a crash; a client that ended or sent too slowly is none."""
        crash = sys.exception()
        if crash is not None and not isinstance(crash, OSError):
            log.error("index_request_crashed", **place_of(crash))

    def server_close(self) -> None:
        for request in list(self._open):
            try:
                # Nothing more is read; what was read is answered.
                request.shutdown(socket.SHUT_RD)
            except OSError:
                # It ended by itself.
                continue
        super().server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = READ_TIMEOUT_S
    wbufsize = -1
    server: _Server

    def do_POST(self) -> None:
        """One call of the index."""
        size = self.headers.get("content-length", "")
        if not size.isdecimal() or int(size) > MAX_BODY:
            self.close_connection = True
            self._send(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _refused(TOO_LARGE, f"send at most {MAX_BODY} bytes"))
            return
        body = self.rfile.read(int(size))
        with self.server.answering:
            status, answer = self._answer(body)
        self._send(status, answer)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged."""

    def _send(self, status: HTTPStatus, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _answer(self, body: bytes) -> tuple[HTTPStatus, bytes]:
        collection, _, name = self.path.lstrip("/").partition("/")
        if name not in CALLS:
            return HTTPStatus.NOT_FOUND, _refused(INVALID_REQUEST, "there is no such call")
        call, index = CALLS[name], self.server.index
        try:
            arguments = call.arguments.model_validate_json(body)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            where = ".".join(str(part) for part in (name, *first["loc"]))
            return HTTPStatus.BAD_REQUEST, _refused(INVALID_REQUEST, f"{where}: {first['msg']}")
        try:
            if collection != index.name:
                raise InvalidSettings(
                    f"The node's index is {index.name}, not {collection}: set MEMFOREST_EMBEDDING__MODEL to the node's."
                )
            result = getattr(index, name)(**{each: getattr(arguments, each) for each in call.arguments.model_fields})
        except MemForestError as error:
            refusal = _refused(error.code, error.message, getattr(error, "retry_after", None))
            return HTTPStatus.SERVICE_UNAVAILABLE, refusal
        return HTTPStatus.OK, call.result.dump_json(result)


def _refused(code: str, message: str, retry_after: float | None = None) -> bytes:
    return Refused(code=code, message=message, retry_after=retry_after).model_dump_json().encode()
