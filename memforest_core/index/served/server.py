"""Serves the index that this process owns to other processes of the same user."""

from __future__ import annotations

import shutil
import socket
import socketserver
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import structlog
from pydantic import ValidationError
from pydantic_core import to_json

from memforest_core.errors import InvalidSettings, MemForestError, place_of
from memforest_core.index.served.wire import (
    DONE,
    INVALID_REQUEST,
    MAX_BODY,
    REFUSED,
    REQUEST,
    TOO_LARGE,
    Frames,
    Refused,
    Request,
    TooLarge,
)
from memforest_core.index.vector_index import VectorIndex

log = structlog.get_logger(__name__)

THREADS = 8
"""Requests answered at once."""
CONNECTIONS = 256
"""Connections open at once, each with a thread that waits for its requests; more are refused at once."""
READ_TIMEOUT_S = 10.0
"""A client that sends nothing for this long is left: it connects again when it asks again."""
STOP_POLL_S = 0.1


class IndexServer:
    """Serves ``index`` at ``path``, a Unix domain socket in a directory that only this user can enter.

    Requests are read with a bounded size, from a bounded number of connections, and a bounded number at once is
    answered.
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
    request_queue_size = 64

    def __init__(self, path: str, index: VectorIndex) -> None:
        super().__init__(path, _Handler)
        self.index = index
        self.answering = threading.BoundedSemaphore(THREADS)
        self._pool = ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="memforest-index-request")
        self._room = threading.BoundedSemaphore(CONNECTIONS)
        self._open: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Hand a connection to a thread, or drop it when there are too many: its client sees that as an index away."""
        if not self._room.acquire(blocking=False):
            log.warning("index_request_dropped", connections=CONNECTIONS)
            self.shutdown_request(request)
            return
        self._open.add(request)
        self._pool.submit(self._serve, request, client_address).add_done_callback(_note_crash)

    def _serve(self, request: socket.socket, client_address: Any) -> None:
        try:
            self.finish_request(request, client_address)
        except OSError:
            # The client went away or sent too slowly; it has nothing to be told any more.
            pass
        finally:
            self._open.discard(request)
            self._room.release()
            self.shutdown_request(request)

    def server_close(self) -> None:
        super().server_close()
        for request in list(self._open):
            try:
                # Nothing more is read; what was read is answered.
                request.shutdown(socket.SHUT_RD)
            except OSError:
                # It ended by itself.
                continue
        self._pool.shutdown()


def _note_crash(done: Future[None]) -> None:
    crash = done.exception()
    if crash is not None:
        log.error("index_request_crashed", **place_of(crash))


class _Handler(socketserver.BaseRequestHandler):
    server: _Server
    timeout = READ_TIMEOUT_S

    def handle(self) -> None:
        """The calls of one connection."""
        self.request.settimeout(self.timeout)
        frames = Frames(self.request)
        try:
            while (body := frames.receive()) is not None:
                with self.server.answering:
                    answer = self._answered(body)
                frames.send(answer)
        except TooLarge:
            frames.send(_refused(TOO_LARGE, f"send at most {MAX_BODY} bytes"))
        finally:
            frames.close()

    def _answered(self, body: bytes) -> bytes:
        try:
            request = REQUEST.validate_json(body)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            return _refused(INVALID_REQUEST, f"{where}: {first['msg']}")
        try:
            return DONE + to_json(self._run(request))
        except MemForestError as error:
            return _refused(error.code, error.message, getattr(error, "retry_after", None))

    def _run(self, request: Request) -> object:
        index = self.server.index
        if request.index != index.name:
            raise InvalidSettings(
                f"The node's index is {index.name}, not {request.index}: set MEMFOREST_EMBEDDING__MODEL to the node's."
            )
        return request.run(index)


def _refused(code: str, message: str, retry_after: float | None = None) -> bytes:
    return REFUSED + Refused(code=code, message=message, retry_after=retry_after).model_dump_json().encode()
