"""A receiver of events over HTTP: it records the requests, and answers as the test says."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from standardwebhooks import Webhook

Answer = tuple[int, Mapping[str, str]]


@dataclass
class Receiver:
    """What came, and what is answered: ``answers`` in turn, then 204."""

    url: str
    answers: list[Answer] = field(default_factory=list)
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    meanwhile: Callable[[], None] = lambda: None
    """Called after a message has come and before it is answered."""

    @property
    def ids(self) -> list[str]:
        return [headers["webhook-id"] for headers, _ in self.got]

    def verified(self, secret: str) -> list[dict[str, Any]]:
        """All messages, as the official library reads them. Raises WebhookVerificationError."""
        return [dict(Webhook(secret).verify(body, headers)) for headers, body in self.got]


@contextmanager
def receiver(host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    """A running receiver."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            running.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
            running.meanwhile()
            status, headers = running.answers.pop(0) if running.answers else (204, {})
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer((host, 0), Handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    scheme = "http" if tls is None else "https"
    running = Receiver(f"{scheme}://{host}:{server.server_address[1]}/hook")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield running
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
