"""The HTTP server: the app on a socket, in a thread, until ``stop``; its connections are bounded."""

from __future__ import annotations

import asyncio
import socket
import threading
from http import HTTPStatus
from typing import Any

import uvicorn
from prometheus_client import CollectorRegistry
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from memforest_core.client.api import MemForest
from memforest_core.errors import InvalidSettings
from memforest_core.service.http.http_app import make_app

MAX_HEAD_BYTES = 65_536
"""Bytes that may arrive without a complete head, a byte of a body, or the end of a request."""
HEAD_S = 10.0
"""A head is complete so many seconds after the connection was made, or after its first byte."""
LINGER_S = 5.0
"""A request that is answered may send the rest of its body for so long."""
UNREAD_S = 60.0
"""A client reads some of its answer within so many seconds."""


class BoundedConnection(HttpToolsProtocol):
    """uvicorn's connection, with bounds. The parser copies a value at each chunk, so an endless one is quadratic."""

    most: int
    """Connections of one process."""
    most_per_address: int

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection; when there are too many, the one that waits longest for its head is closed."""
        super().connection_made(transport)
        self._unparsed = 0
        self._in_body = False
        self._deadline: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._arm(HEAD_S)
        address = self.client and self.client[0]
        everyone: list[Any] = list(self.connections)
        same = [each for each in everyone if (each.client and each.client[0]) == address]
        for crowd, most in ((everyone, self.most), (same, self.most_per_address)):
            if len(crowd) > most:
                waiting = [each for each in crowd if each.half_open_until is not None and each is not self]
                oldest = min(waiting, key=lambda each: each.half_open_until, default=self)
                oldest.refuse(HTTPStatus.SERVICE_UNAVAILABLE)
                return

    @property
    def half_open_until(self) -> float | None:
        """When the time of a head that is not complete ends; None for a connection that waits for none."""
        waits = self._deadline is not None and not self._in_body and not self.transport.is_closing()
        return self._deadline.when() if waits and self._deadline is not None else None

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection and its timers."""
        super().connection_lost(exc)
        self._disarm()
        self._read()

    def data_received(self, data: bytes) -> None:
        """Parse what arrived, and refuse a head (or a trailer) that is too long."""
        if self._deadline is None and not self._in_body:
            self._arm(HEAD_S)
        self._unparsed += len(data)
        super().data_received(data)
        if self._unparsed > MAX_HEAD_BYTES:
            self.refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def on_headers_complete(self) -> None:
        """The head is there: its body follows."""
        self._unparsed, self._in_body = 0, True
        self._disarm()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Some of a body is there."""
        self._unparsed = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is whole."""
        self._unparsed, self._in_body = 0, False
        self._disarm()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """The request is answered; what it still sends is dropped for a while."""
        super().on_response_complete()
        if self._in_body:
            self._arm(LINGER_S)

    def pause_writing(self) -> None:
        """The client reads more slowly than it is answered."""
        super().pause_writing()
        self._read()
        self._unread = self.loop.call_later(UNREAD_S, self.transport.abort)

    def resume_writing(self) -> None:
        """The client has read."""
        super().resume_writing()
        self._read()

    def refuse(self, status: HTTPStatus) -> None:
        """Answer a head that is not taken, and close."""
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete:
            head = f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            self.transport.write(head.encode())
        self.transport.close()

    def _expired(self) -> None:
        self._deadline = None
        if self.cycle is not None and not self.cycle.response_complete:
            self._arm(HEAD_S)  # a further head waits until the request before it is answered
        else:
            self.refuse(HTTPStatus.REQUEST_TIMEOUT)

    def _arm(self, seconds: float) -> None:
        self._disarm()
        self._deadline = self.loop.call_later(seconds, self._expired)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None


def bounded(most: int, per_address: bool) -> type[BoundedConnection]:
    """The class of a server's connections; behind a proxy all have one address, which is then not bounded."""
    bounds = {"most": most, "most_per_address": most // 2 if per_address else most}
    return type("Connection", (BoundedConnection,), bounds)


STOP_S = 10
"""Requests under way get so many seconds when the server stops; waiting clients ask again elsewhere."""
START_S = 30.0
BACKLOG = 2_048


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises InvalidSettings when it can't be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP, so that asyncio sends small answers at once: else each waits 40 ms for an acknowledgement.
    opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind((host, port))
    except OSError as error:
        opened.close()
        raise InvalidSettings(
            f"Can't listen on {host}:{port} ({error.strerror or error}): set MEMFOREST_SERVER__HOST and"
            " MEMFOREST_SERVER__PORT to a free address."
        ) from None
    opened.listen(BACKLOG)
    return opened


def address_of(listening: socket.socket) -> str:
    """The URL under which programs of this machine reach a listening socket."""
    host, port = listening.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
    return f"http://{shown}:{port}"


class HttpServer:
    """Serves a memory on a socket; it closes neither before ``stop``."""

    def __init__(
        self,
        memory: MemForest,
        listening: socket.socket,
        registry: CollectorRegistry | None = None,
        proxy: str | None = None,
    ) -> None:
        """Requests are counted in the ``registry``, if there is one. ``proxy`` is used instead of server.proxy."""
        own = memory.settings.server
        proxy = own.proxy if proxy is None else proxy
        self.address = address_of(listening)
        self._socket = listening
        config = uvicorn.Config(
            make_app(memory, registry),
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=STOP_S,
            lifespan="on",
            http=bounded(own.max_connections, per_address=not proxy),
            ws="none",
            proxy_headers=bool(proxy),
            forwarded_allow_ips=proxy,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, args=([listening],), name="memforest-http", daemon=True
        )

    def start(self) -> None:
        """Begin to answer. Raises InvalidSettings when it can't."""
        self._thread.start()
        waited = 0.0
        while not self._server.started and self._thread.is_alive() and waited < START_S:
            self._thread.join(0.02)
            waited += 0.02
        if not self._server.started:
            raise InvalidSettings("The HTTP server did not start; its log says why.")

    @property
    def running(self) -> bool:
        """Whether it still answers."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Take no more requests and let those under way end."""
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()
