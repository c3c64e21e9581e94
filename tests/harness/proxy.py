"""A door between a process and its broker that a test can shut or freeze."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

from tests.harness.processes import free_port


def connect(url: str) -> socket.socket:
    """A connection to a Redis address, over TCP or a Unix socket."""
    parts = urlsplit(url)
    if parts.hostname:
        return socket.create_connection((parts.hostname, parts.port or 6379), timeout=5)
    upstream = socket.socket(socket.AF_UNIX)
    upstream.connect(parts.path)
    return upstream


class Door:
    """Forwards connections on a local port to a Redis address while it is open.

    Shut, it resets connections and refuses new ones; frozen, it takes bytes and answers nothing.
    """

    def __init__(self, upstream_url: str) -> None:
        self._upstream_url = upstream_url
        self._listener = socket.create_server(("127.0.0.1", free_port()))
        self._port = self._listener.getsockname()[1]
        self._held: list[socket.socket] = []
        self._open = threading.Event()
        self._open.set()
        self._accepting = self._start()

    @property
    def url(self) -> str:
        """The broker's address behind this door."""
        return f"redis://127.0.0.1:{self._port}/0"

    def shut(self) -> None:
        """Reset every connection and refuse new ones."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join(timeout=5)
        for held in self._held:
            with suppress(OSError):
                held.shutdown(socket.SHUT_RDWR)
            held.close()
        self._held.clear()

    def freeze(self) -> None:
        """Let bytes in and none out."""
        self._open.clear()

    def reopen(self) -> None:
        """Forward again."""
        self._open.set()
        if self._listener.fileno() == -1:
            self._listener = socket.create_server(("127.0.0.1", self._port))
            self._accepting = self._start()

    def _start(self) -> threading.Thread:
        thread = threading.Thread(target=self._accept, args=(self._listener,), daemon=True)
        thread.start()
        return thread

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                inner, _ = listener.accept()
            except OSError:
                return
            outer = connect(self._upstream_url)
            self._held += [inner, outer]
            for source, target, gated in ((inner, outer, False), (outer, inner, True)):
                threading.Thread(target=self._pump, args=(source, target, gated), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, gated: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                if gated:
                    self._open.wait(timeout=60)
                target.sendall(data)


@contextmanager
def door(upstream_url: str) -> Iterator[Door]:
    """A door, shut at the end."""
    made = Door(upstream_url)
    try:
        yield made
    finally:
        made.reopen()
        made.shut()
