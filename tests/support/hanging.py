"""A network between a client and Postgres that can stop carrying packets, without closing anything."""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa
from pydantic import SecretStr

from memforest_core.settings import DatabaseSettings


class Network:
    """Carries bytes between TCP connections and a Unix socket until ``drop``."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listening, selectors.EVENT_READ)
        self._other: dict[socket.socket, socket.socket] = {}
        self._dropping = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._carry)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._listening.getsockname()[1])

    def drop(self) -> None:
        """Carry nothing from now on; connections are taken and never answered."""
        self._dropping.set()

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        for each in (*self._other, self._listening):
            each.close()

    def _carry(self) -> None:
        while not self._ended.is_set():
            for key, _ in self._selector.select(0.05):
                if self._dropping.is_set():
                    break
                found = key.fileobj
                if found is self._listening:
                    self._open()
                elif isinstance(found, socket.socket):
                    self._pass_on(found)

    def _open(self) -> None:
        client, _ = self._listening.accept()
        server = socket.socket(socket.AF_UNIX)
        server.connect(self._server)
        self._other |= {client: server, server: client}
        for each in (client, server):
            self._selector.register(each, selectors.EVENT_READ)

    def _pass_on(self, found: socket.socket) -> None:
        data = found.recv(65_536)
        if data:
            self._other[found].sendall(data)
            return
        for each in (found, self._other[found]):
            self._selector.unregister(each)
            self._other.pop(each).close()


@contextmanager
def behind_network(database: DatabaseSettings) -> Iterator[tuple[DatabaseSettings, Network]]:
    """The same database by way of such a network."""
    url = sa.make_url(database.url.get_secret_value())
    network = Network(f"{url.query['host']}/.s.PGSQL.{url.query['port']}")
    try:
        address = url.set(host="127.0.0.1", port=network.port, query={}).render_as_string(hide_password=False)
        yield database.model_copy(update={"url": SecretStr(address)}), network
    finally:
        network.close()
