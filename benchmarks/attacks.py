"""What others get of the HTTP service while one client misbehaves: the latency of ``/health`` during each attack.

Everything is on this machine: a node in a process of its own, ``memforest serve`` in another, the attacks in threads.
"""

from __future__ import annotations

import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from statistics import median, quantiles
from urllib.parse import urlsplit

import httpx
import psutil

from benchmarks.harness import Report, Row, parser, say
from benchmarks.http import _node, _server
from memforest_core.client.api import MemForest
from memforest_core.service.keys.service import Keys
from memforest_core.settings import load_settings

STREAMS = 500
KEYS = 5
HALF_OPEN = 190
MOST_BYTES = 100 << 20
EVERY_S = 0.02
TIMEOUT_S = 10.0


class Attacks:
    """Each runs until ``stop`` is set; its result is how many connections the server still has."""

    def __init__(self, address: str, secrets: list[str]) -> None:
        self.address = address
        self.secrets = secrets
        self.stop = threading.Event()

    def nothing(self) -> int:
        self.stop.wait()
        return 0

    def endless_header(self) -> int:
        return self._flood(b"GET /health HTTP/1.1\r\nHost: x\r\nX-Long: ")

    def endless_line(self) -> int:
        head = f"POST /v1/sessions/stream HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.secrets[0]}\r\n"
        return self._flood(f"{head}Content-Length: {MOST_BYTES}\r\n\r\n".encode())

    def half_open(self) -> int:
        return self._idle(b"GET /health HTTP/1.1\r\n")

    def slow_bodies(self) -> int:
        return self._idle(
            b"POST /login HTTP/1.1\r\nHost: x\r\nSec-Fetch-Site: same-origin\r\nContent-Length: 99\r\n\r\nx"
        )

    def streams_of_one_session(self) -> int:
        return self._streams(1)

    def streams_of_many_sessions(self) -> int:
        return self._streams(STREAMS)

    def _streams(self, sessions: int) -> int:
        with ExitStack() as opened:
            clients = []
            for number in range(STREAMS):
                client = opened.enter_context(closing(self._connected()))
                secret = self.secrets[number % len(self.secrets)]
                path = f"/v1/sessions/events?owner=held&session_id=s{number % sessions}"
                client.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {secret}\r\n\r\n".encode())
                clients.append(client)
            self.stop.wait()
            return sum(map(_is_open, clients))

    def _idle(self, sent: bytes) -> int:
        with ExitStack() as opened:
            clients = [opened.enter_context(closing(self._connected())) for _ in range(HALF_OPEN)]
            for client in clients:
                client.sendall(sent)
            self.stop.wait()
            return sum(map(_is_open, clients))

    def _flood(self, begin: bytes) -> int:
        """Send what never ends, on a new connection when the server has closed the one before."""
        sent = 0
        while sent < MOST_BYTES and not self.stop.is_set():
            with closing(self._connected()) as client, suppress(ConnectionError):
                client.sendall(begin)
                while sent < MOST_BYTES and not self.stop.is_set():
                    sent += client.send(b"x" * 65_536)
        self.stop.wait()
        return 0

    def _connected(self) -> socket.socket:
        parts = urlsplit(self.address)
        return socket.create_connection((parts.hostname, parts.port), timeout=30)


def _is_open(client: socket.socket) -> bool:
    client.settimeout(0.01)
    try:
        while client.recv(65_536):
            pass
    except TimeoutError:
        return True
    except ConnectionError:
        return False
    return False


def main() -> None:
    """Print one row for each attack."""
    options = parser(__doc__ or "")
    options.add_argument("--seconds", type=float, default=25.0, help="of each attack (default: %(default)s)")
    given = options.parse_args()
    report = Report(given.seed, given.json)
    with ExitStack() as opened:
        place = opened.enter_context(tempfile.TemporaryDirectory(prefix="memforest-attacks-"))
        found = opened.enter_context(_node(Path(place)))
        library = opened.enter_context(MemForest.connect(load_settings()))
        address, pids = opened.enter_context(_server(found, 1))
        keys = Keys(library.services.engine)
        secrets = [keys.create(library.tenant, f"k{n}", requests_per_minute=1_000_000).secret for n in range(KEYS)]
        for number in range(STREAMS):
            library.append("held", f"s{number}", {"role": "user", "content": "Held back."})
        rows = list(_rows(address, secrets, psutil.Process(pids[0]), given.seconds))
    report.end(rows, {"seconds": given.seconds, "half_open": HALF_OPEN, "streams": STREAMS})


def _rows(address: str, secrets: list[str], server: psutil.Process, seconds: float) -> Iterator[Row]:
    for name in (
        "nothing", "endless_header", "endless_line", "half_open", "slow_bodies", "streams_of_one_session",
        "streams_of_many_sessions",
    ):  # fmt: skip
        say(name)
        attacks = Attacks(address, secrets)
        attack: Callable[[], int] = getattr(attacks, name)
        with ThreadPoolExecutor(1) as pool, httpx.Client(base_url=address, timeout=TIMEOUT_S) as client:
            with suppress(httpx.TimeoutException):
                client.get("/health")
            before, running, spent, most = server.memory_info().rss, pool.submit(attack), [], 0
            ends = time.monotonic() + seconds
            while time.monotonic() < ends:
                started = time.perf_counter()
                with suppress(httpx.TimeoutException):  # counts as so long
                    client.get("/health").raise_for_status()
                spent.append((time.perf_counter() - started) * 1_000)
                most = max(most, server.memory_info().rss)
                time.sleep(EVERY_S)
            attacks.stop.set()
            still = running.result()
        yield {
            "attack": name,
            "n": len(spent),
            "health_p50_ms": round(median(spent), 2),
            "health_p99_ms": round(quantiles(spent, n=100)[-1], 2),
            "health_most_ms": round(max(spent), 1),
            "rss_more_mb": round((most - before) / 1e6, 1),
            "connections_still_open": still,
        }


if __name__ == "__main__":
    main()
