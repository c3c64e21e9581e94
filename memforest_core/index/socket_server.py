"""HTTP server of the vector index that this process owns, for other processes of the same user."""

from __future__ import annotations

import shutil
import socket
import socketserver
import sys
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import structlog
from pydantic import ValidationError

from memforest_core.errors import InvalidSettings, MemForestError, place_of
from memforest_core.index.socket_calls import CALLS, INVALID_REQUEST, MAX_BODY, TOO_LARGE, Refused
from memforest_core.index.vector_index import VectorIndex

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
