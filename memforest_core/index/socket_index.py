"""The vector index of a running node, as other processes of its user call it over its socket."""

from __future__ import annotations

import inspect
import shutil
import socket
import socketserver
import struct
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints
from uuid import UUID

import structlog
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model

from memforest_core.errors import IndexUnavailable, InvalidSettings, InvariantViolated, MemForestError, place_of
from memforest_core.index.qdrant.collection_schema import collection_name
from memforest_core.index.qdrant.point_encoding import batches
from memforest_core.index.vector_index import Point, VectorIndex

MAX_BODY = 32 * 2**20
"""Bytes of a request: 256 points of 4,096 dimensions are 25 million."""
ADDRESS_NAME = "served-at.json"


class SocketCall(NamedTuple):
    """A method of the index: its arguments, checked field by field, and its result."""

    arguments: type[BaseModel]
    result: TypeAdapter[Any]


@cache
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


ANSWERED, REFUSED = b"+", b"-"
"""What an answer begins with. A request is a line with the collection, the call and the size of what follows, then that
many bytes of JSON; HTTP takes 0.5 ms more processor time for each."""


def _connected(path: str, timeout_s: float) -> socket.socket:
    """A connection for one call."""
    made = socket.socket(socket.AF_UNIX)
    try:
        # With a timeout Python's sockets do not block, and connecting would fail at once while many others connect.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", max(1, int(timeout_s)), 0))
        made.connect(path)
        made.settimeout(timeout_s)
    except OSError:
        made.close()
        raise
    return made


class SocketIndex:
    """The ``VectorIndex`` of the node at ``path``. Thread-safe; a node that is gone is an IndexUnavailable.

    Each call has a connection of its own, which costs 0.3 ms, and may be made twice: a point that is there in its
    version stays as it is.
    """

    def __init__(self, path: Path, model: str, dimension: int, timeout_s: float) -> None:
        self._name = collection_name(model, dimension)
        self._path = str(path)
        self._timeout_s = timeout_s
        self._closed = False

    @property
    def name(self) -> str:
        return self._name

    def upsert(self, points: Sequence[Point]) -> None:
        for batch in batches(points):
            self._call("upsert", points=batch)

    def differing(self, points: Sequence[Point]) -> frozenset[UUID]:
        return frozenset[UUID]().union(*(self._call("differing", points=part) for part in batches(points)))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """The other calls, with the arguments and results of the ``VectorIndex``."""
        if name not in _METHODS:
            raise AttributeError(name)
        names = _call_of(name).arguments.model_fields

        def called(*given: Any, **named: Any) -> Any:
            return self._call(name, **dict(zip(names, given, strict=False)), **named)

        return called

    def close(self) -> None:
        """Later calls fail with IndexUnavailable. The node's index stays open."""
        self._closed = True

    def _call(self, name: str, **arguments: Any) -> Any:
        if self._closed:
            raise IndexUnavailable("the vector index is closed")
        call = _call_of(name)
        body = call.arguments.model_construct(**arguments).model_dump_json(warnings=False).encode()
        try:
            with closing(_connected(self._path, self._timeout_s)) as connection, connection.makefile("rb") as read:
                connection.sendall(f"{self._name} {name} {len(body)}\n".encode() + body)
                kind, answer = read.read(1), read.read()
            if kind not in (ANSWERED, REFUSED):
                raise ConnectionResetError
            if kind == ANSWERED:
                return call.result.validate_json(answer)
            refused = Refused.model_validate_json(answer)
        except OSError as error:
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


log = structlog.get_logger(__name__)

CONNECTIONS = 256
"""Connections open concurrently, each with a thread for its request; more are refused at once."""
AT_ONCE = 8
"""Requests read and answered concurrently: only their bodies are in memory."""
MAX_LINE = 1_000
"""Bytes of the line before a request."""
READ_TIMEOUT_S = 10.0
"""A client that sends nothing for this long is left."""
STOP_POLL_S = 0.1


class SocketServer:
    """Serves ``index`` at ``path``, a Unix domain socket in a directory that only this user can enter.

    The size of a request, the connections and the requests in memory are bounded.
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
        self.answering = threading.BoundedSemaphore(AT_ONCE)
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
            # Nothing more is read; what was read is answered. A connection that ended by itself is an OSError.
            with suppress(OSError):
                request.shutdown(socket.SHUT_RD)
        super().server_close()


class _Handler(socketserver.StreamRequestHandler):
    timeout = READ_TIMEOUT_S
    wbufsize = -1
    server: _Server

    def handle(self) -> None:
        """One call of the index."""
        collection, name, size = (*self.rfile.readline(MAX_LINE).decode("utf-8", "replace").split(), "", "", "")[:3]
        if not size.isdecimal() or int(size) > MAX_BODY:
            answer = _refused(TOO_LARGE, f"send at most {MAX_BODY} bytes")
        else:
            with self.server.answering:
                answer = self._answer(collection, name, self.rfile.read(int(size)))
        self.wfile.write(answer)

    def _answer(self, collection: str, name: str, body: bytes) -> bytes:
        if name not in _METHODS:
            return _refused(INVALID_REQUEST, "there is no such call")
        call, index = _call_of(name), self.server.index
        try:
            arguments = call.arguments.model_validate_json(body)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            where = ".".join(str(part) for part in (name, *first["loc"]))
            return _refused(INVALID_REQUEST, f"{where}: {first['msg']}")
        try:
            if collection != index.name:
                raise InvalidSettings(
                    f"The node's index is {index.name}, not {collection}: set MEMFOREST_EMBEDDING__MODEL to the node's."
                )
            result = getattr(index, name)(**{each: getattr(arguments, each) for each in call.arguments.model_fields})
        except MemForestError as error:
            return _refused(error.code, error.message, getattr(error, "retry_after", None))
        return ANSWERED + call.result.dump_json(result)


def _refused(code: str, message: str, retry_after: float | None = None) -> bytes:
    return REFUSED + Refused(code=code, message=message, retry_after=retry_after).model_dump_json().encode()
