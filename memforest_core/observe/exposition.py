"""Metrics over HTTP: what this process counted, and the backlog in the database."""

from __future__ import annotations

import errno
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import structlog
from prometheus_client import make_wsgi_app
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from memforest_core.domain.forks import renewed_in_child
from memforest_core.domain.ids import TenantId
from memforest_core.errors import InvalidSettings, MemForestError
from memforest_core.observe.prometheus import MAX_TENANTS, BoundedLabel, PrometheusTelemetry
from memforest_core.observe.records import KINDS, QueueDepth, WorkerBeat
from memforest_core.observe.rows import ObserveStore
from memforest_core.settings import Settings

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

log = structlog.get_logger(__name__)

SNAPSHOT_S = 5.0
"""Counts of rows in metrics are at most this old: many scrapes cost one query."""
REQUEST_TIMEOUT_S = 10.0
"""A client that stops talking occupies a thread for this long."""


_TENANT, _QUEUE = ("tenant",), ("queue",)
FAMILIES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "memforest_queue_items": ("Units of work by kind and state.", ("tenant", "kind", "state")),
    "memforest_queue_oldest_seconds": ("Age of the oldest of them.", ("tenant", "kind", "state")),
    "memforest_dead_items": ("Units of work that wait for a person.", ("tenant", "kind")),
    "memforest_dirty_nodes": ("Nodes whose summary is behind.", _TENANT),
    "memforest_queue_waiting_seconds": (
        "Age of the oldest row that another worker of the queue would take: what autoscalers query.",
        _QUEUE,
    ),
    "memforest_staleness_seconds": (
        "Age of the oldest change that is missing in summaries or the vector index.",
        ("tenant", "artifact"),
    ),
    "memforest_queue_fill_ratio": (
        "Cells that wait for extraction per cell that may: from 0.8 on backfill is refused, from 1 on all.",
        _TENANT,
    ),
    "memforest_workers": ("Worker processes by heartbeat.", ("state",)),
    "memforest_queue_workers": ("Live worker processes of a queue.", _QUEUE),
}
"""The gauges of what waits: meaning and labels by name."""

_Numbers = tuple[Sequence[QueueDepth], Sequence[WorkerBeat], Mapping[TenantId, float]]


@renewed_in_child
class BacklogCollector(Collector):
    """Gauges of what waits, over all tenants. Scrapes share a reading of the database. Thread-safe.

    Every worker reports the same rows, so sums over instances count them several times: take the maximum. While the
    store is unavailable there is ``memforest_store_up 0`` and nothing else, because old numbers would seem healthy.
    """

    def __init__(self, store: ObserveStore, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._tenant = BoundedLabel(MAX_TENANTS)
        self._lock = threading.Lock()
        self._read_at: float | None = None
        self._numbers: _Numbers | None = None

    def describe(self) -> Iterable[Metric]:
        """All metrics, without reading the database."""
        return [_store_up(False), *self._families([], [], {})]

    def collect(self) -> Iterator[Metric]:
        """The metrics, from a reading that is at most ``SNAPSHOT_S`` old."""
        with self._lock:
            if self._read_at is None or self._clock() - self._read_at >= SNAPSHOT_S:
                self._numbers = self._read()
                # Counted from its end: a store that answers slowly is not read without a pause.
                self._read_at = self._clock()
            numbers = self._numbers
        yield _store_up(numbers is not None)
        if numbers is not None:
            yield from self._families(*numbers)

    def _read(self) -> _Numbers | None:
        try:
            depths = self._store.backlog()
            workers = self._store.workers(self._settings.worker.dead_after_s)
            waiting = sorted({depth.tenant for depth in depths if depth.unextracted})
            return depths, workers, self._store.fills(waiting[:MAX_TENANTS], self._settings.accept.max_waiting_cells)
        except MemForestError as error:
            log.warning("backlog_unknown", code=error.code)
            return None

    def _families(
        self, depths: Sequence[QueueDepth], workers: Sequence[WorkerBeat], fills: Mapping[TenantId, float]
    ) -> Iterator[Metric]:
        values: dict[str, dict[tuple[str, ...], float]] = {name: {} for name in FAMILIES}

        def add(name: str, amount: float, *labels: str) -> None:
            values[name][labels] = values[name].get(labels, 0.0) + amount

        def at_least(name: str, value: float, *labels: str) -> None:
            values[name][labels] = max(values[name].get(labels, 0.0), value)

        alive = [worker for worker in workers if worker.alive]
        add("memforest_workers", len(alive), "alive")
        add("memforest_workers", len(workers) - len(alive), "silent")
        # Each queue is there even without a worker: an alert can't see what is absent.
        for queue, kinds in KINDS.items():
            add("memforest_queue_workers", sum(queue.value in worker.queues for worker in alive), queue.value)
            waiting = (depth.oldest_s for depth in depths if depth.state == "ready" and depth.kind in kinds)
            at_least("memforest_queue_waiting_seconds", max(waiting, default=0.0), queue.value)
        for depth in depths:
            tenant = self._tenant(depth.tenant)
            add("memforest_queue_items", depth.items, tenant, depth.kind, depth.state)
            at_least("memforest_queue_oldest_seconds", depth.oldest_s, tenant, depth.kind, depth.state)
            if depth.dead:
                add("memforest_dead_items", depth.items, tenant, depth.kind)
            if depth.dirty:
                add("memforest_dirty_nodes", depth.items, tenant)
            if depth.dirty or depth.behind:
                artifact = "summaries" if depth.dirty else "index"
                at_least("memforest_staleness_seconds", depth.oldest_s, tenant, artifact)
        for owner, fill in fills.items():
            at_least("memforest_queue_fill_ratio", fill, self._tenant(owner))
        for name, (meaning, labels) in FAMILIES.items():
            family = GaugeMetricFamily(name, meaning, labels=labels)
            for key, value in values[name].items():
                family.add_metric(key, value)
            yield family


def _store_up(up: bool) -> Metric:
    return GaugeMetricFamily("memforest_store_up", "Whether Postgres answers.", value=int(up))


class _Handler(WSGIRequestHandler):
    timeout = REQUEST_TIMEOUT_S

    def log_message(self, format: str, *args: Any) -> None:
        """Scrapes are no news."""


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def server_bind(self) -> None:
        # Not HTTPServer's, which queries the name service for our name and can wait for it.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is no traceback on stderr."""
        log.debug("scrape_broken_off")


class _Server6(_Server):
    address_family = socket.AF_INET6


class MetricsServer:
    """A running server; ``port`` is the one that it got."""

    def __init__(self, server: WSGIServer) -> None:
        self._server = server
        self.host, self.port = server.server_name, server.server_port
        self._thread = threading.Thread(target=server.serve_forever, name="memforest-metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def __enter__(self) -> MetricsServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serve_metrics(
    telemetry: PrometheusTelemetry,
    collector: Collector,
    host: str,
    port: int,
    healthy: Callable[[], bool] = lambda: True,
) -> MetricsServer:
    """Answer ``/metrics``, and ``/healthz`` with 200 while ``healthy`` and 503 else; port 0 takes a free one.

    Raises InvalidSettings when the address can't be listened on.
    """
    server_class = _Server6 if ":" in host else _Server
    try:
        server = server_class((host, port), _Handler)
    except OverflowError:
        raise InvalidSettings(f"Set MEMFOREST_OBSERVE__METRICS_PORT lower: there is no port {port}.") from None
    except OSError as error:
        raise InvalidSettings(_refusal(host, port, error)) from None
    telemetry.registry.register(collector)
    metrics = make_wsgi_app(telemetry.registry)

    def app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        match environ["PATH_INFO"]:
            case "/metrics":
                answer: Iterable[bytes] = metrics(environ, start_response)
                return answer
            case "/healthz":
                well = healthy()
                start_response("200 OK" if well else "503 Service Unavailable", [("Content-Type", "text/plain")])
                return [b"ok\n" if well else b"unhealthy\n"]
            case _:
                start_response("404 Not Found", [("Content-Type", "text/plain")])
                return [b"see /metrics and /healthz\n"]

    server.set_app(app)
    return MetricsServer(server)


def _refusal(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"Set MEMFOREST_OBSERVE__METRICS_PORT to a free port: {port} on {host} is taken."
    if error.errno == errno.EACCES:
        return f"Set MEMFOREST_OBSERVE__METRICS_PORT to a port above 1023: {port} needs rights."
    return f"Set MEMFOREST_OBSERVE__METRICS_HOST to an address of this machine: {host!r:.80} is none."
