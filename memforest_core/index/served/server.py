"""Serves the index that this process owns to other processes of the same user."""

from __future__ import annotations

import shutil
import socket
import socketserver
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import structlog
from pydantic import ValidationError
from pydantic_core import to_json

from memforest_core.errors import InvalidSettings, MemForestError, place_of
from memforest_core.index.served.wire import MAX_BODY, REQUESTS, Refused
from memforest_core.index.vector_index import VectorIndex

log = structlog.get_logger(__name__)

THREADS = 8
"""Requests served at once."""
WAITING = 64
"""Connections that may wait for a thread; more are refused at once."""
READ_TIMEOUT_S = 10.0
"""A client that sends nothing for this long is left."""
STOP_POLL_S = 0.1


class IndexServer:
    """Serves ``index`` at ``path``, a Unix domain socket in a directory that only this user can enter.

    One request a connection, read with a bounded size, answered by a bounded number of threads.
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


class _Server(socketserver.UnixStreamServer):
    request_queue_size = WAITING

    def __init__(self, path: str, index: VectorIndex) -> None:
        super().__init__(path, _Handler)
        self.index = index
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="memforest-index-request")
        self._room = threading.BoundedSemaphore(THREADS + WAITING)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Hand a connection to a thread, or drop it when too many wait: its client sees that as an index away."""
        if not self._room.acquire(blocking=False):
            log.warning("index_request_dropped", waiting=WAITING)
            self.shutdown_request(request)
            return
        self._pool.submit(self._serve, request, client_address).add_done_callback(_note_crash)

    def _serve(self, request: socket.socket, client_address: Any) -> None:
        try:
            self.finish_request(request, client_address)
        except OSError:
            # The client went away or sent too slowly; it has nothing to be told any more.
            pass
        finally:
            self._room.release()
            self.shutdown_request(request)

    def server_close(self) -> None:
        super().server_close()
        self._pool.shutdown()


def _note_crash(done: Future[None]) -> None:
    crash = done.exception()
    if crash is not None:
        log.error("index_request_crashed", **place_of(crash))


class _Handler(BaseHTTPRequestHandler):
    timeout = READ_TIMEOUT_S
    server: _Server

    def do_POST(self) -> None:
        """One call of the port."""
        status, answer = self._answered()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def _answered(self) -> tuple[HTTPStatus, bytes]:
        wanted = REQUESTS.get(self.path.removeprefix("/v1/"))
        if wanted is None:
            return HTTPStatus.NOT_FOUND, _refused("unknown_call", "this node knows no such call")
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MAX_BODY:
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _refused("too_large", f"send at most {MAX_BODY} bytes")
        try:
            request = wanted.model_validate_json(self.rfile.read(int(length)))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            return HTTPStatus.BAD_REQUEST, _refused("invalid_request", f"{where}: {first['msg']}")
        try:
            return HTTPStatus.OK, to_json(self._run(request))
        except MemForestError as error:
            wait = getattr(error, "retry_after", None)
            return HTTPStatus.CONFLICT, _refused(error.code, error.message, wait)

    def _run(self, request: Any) -> object:
        index = self.server.index
        if request.index != index.name:
            raise InvalidSettings(
                f"The node's index is {index.name}, not {request.index}: set MEMFOREST_EMBEDDING__MODEL to the node's."
            )
        return request.run(index)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged."""


def _refused(code: str, message: str, retry_after: float | None = None) -> bytes:
    return Refused(code=code, message=message, retry_after=retry_after).model_dump_json().encode()
