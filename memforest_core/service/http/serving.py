"""The HTTP server: the app on a socket, in a thread, until ``stop``."""

from __future__ import annotations

import socket
import threading

import uvicorn
from prometheus_client import CollectorRegistry

from memforest_core.client.api import MemForest
from memforest_core.errors import InvalidSettings
from memforest_core.service.http.app import make_app
from memforest_core.service.http.connections import bounded

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
