"""Metrics over HTTP: what this process counted, and the backlog in the database."""

from __future__ import annotations

import errno
import socket
import socketserver
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
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
from memforest_core.work.messages import Queue

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

log = structlog.get_logger(__name__)

SNAPSHOT_S = 5.0
"""Counts of rows in metrics are at most this old: many scrapes cost one query."""
REQUEST_TIMEOUT_S = 10.0
"""A client that stops talking holds a thread for this long."""


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """What the rows said at one moment; None while the store is away."""

    depths: list[QueueDepth]
    workers: list[WorkerBeat]
    fills: dict[TenantId, float]


@renewed_in_child
class BacklogCollector(Collector):
    """Gauges of what waits, over all tenants. Scrapes share a reading of the database. Thread-safe.

    Every worker reports the same rows, so sums over instances count them several times: take the maximum.
    While the store is away there is ``memforest_store_up 0`` and nothing else, because old numbers would look healthy.
    """

    def __init__(self, store: ObserveStore, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._tenant = BoundedLabel(MAX_TENANTS)
        self._lock = threading.Lock()
        self._looked_at: float | None = None
        self._snapshot: _Snapshot | None = None

    def describe(self) -> Iterable[Metric]:
        """All metrics, without looking at the database."""
        return [_store_up(False), *self._families(_Snapshot([], [], {}))]

    def collect(self) -> Iterator[Metric]:
        """The metrics, from a look that is at most ``SNAPSHOT_S`` old."""
        snapshot = self._fresh()
        yield _store_up(snapshot is not None)
        if snapshot is not None:
            yield from self._families(snapshot)

    def _fresh(self) -> _Snapshot | None:
        with self._lock:
            if self._looked_at is None or self._clock() - self._looked_at >= SNAPSHOT_S:
                self._snapshot = self._look()
                # Counted from its end: a store that answers slowly is not asked without a pause.
                self._looked_at = self._clock()
            return self._snapshot

    def _look(self) -> _Snapshot | None:
        try:
            depths = self._store.backlog()
            workers = self._store.workers(self._settings.worker.dead_after_s)
            waiting = sorted({depth.tenant for depth in depths if depth.unextracted})
            fills = self._store.fills(waiting[:MAX_TENANTS], self._settings.accept.max_waiting_cells)
            return _Snapshot(depths, workers, fills)
        except MemForestError as error:
            log.warning("backlog_unknown", code=error.code)
            return None

    def _families(self, snapshot: _Snapshot) -> Iterator[Metric]:
        yield from self._queues(snapshot.depths)
        yield _waiting(snapshot.depths)
        yield from self._staleness(snapshot.depths)
        yield self._fills(snapshot.fills)
        yield from _workers(snapshot.workers)

    def _queues(self, depths: list[QueueDepth]) -> Iterator[Metric]:
        items: Counter[tuple[str, ...]] = Counter()
        dead: Counter[tuple[str, ...]] = Counter()
        dirty: Counter[tuple[str, ...]] = Counter()
        ages: dict[tuple[str, ...], float] = {}
        for depth in depths:
            tenant = self._tenant(depth.tenant)
            key = (tenant, depth.kind, depth.state)
            items[key] += depth.items
            ages[key] = max(ages.get(key, 0.0), depth.oldest_s)
            if depth.dead:
                dead[tenant, depth.kind] += depth.items
            if depth.dirty:
                dirty[tenant,] += depth.items
        labels = ("tenant", "kind", "state")
        yield _gauge("memforest_queue_items", "Units of work by kind and state.", labels, items)
        yield _gauge("memforest_queue_oldest_seconds", "Age of the oldest of them.", labels, ages)
        yield _gauge("memforest_dead_items", "Units of work that wait for a person.", ("tenant", "kind"), dead)
        yield _gauge("memforest_dirty_nodes", "Nodes whose summary is behind.", ("tenant",), dirty)

    def _staleness(self, depths: list[QueueDepth]) -> Iterator[Metric]:
        ages: dict[tuple[str, ...], float] = {}
        for depth in depths:
            if depth.dirty or depth.behind:
                key = (self._tenant(depth.tenant), "summaries" if depth.dirty else "index")
                ages[key] = max(ages.get(key, 0.0), depth.oldest_s)
        meaning = "Age of the oldest change that summaries or the vector index lack."
        yield _gauge("memforest_staleness_seconds", meaning, ("tenant", "artifact"), ages)

    def _fills(self, fills: dict[TenantId, float]) -> Metric:
        fullest: dict[tuple[str, ...], float] = {}
        for tenant, fill in fills.items():
            key = (self._tenant(tenant),)
            fullest[key] = max(fullest.get(key, 0.0), fill)
        meaning = "Cells that wait for extraction per cell that may: from 0.8 on backfill is refused, from 1 on all."
        return _gauge("memforest_queue_fill_ratio", meaning, ("tenant",), fullest)


def _gauge(
    name: str, meaning: str, labels: tuple[str, ...], values: Mapping[tuple[str, ...], float]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, meaning, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def _waiting(depths: list[QueueDepth]) -> Metric:
    waiting = [depth for depth in depths if depth.state == "ready"]
    oldest: dict[tuple[str, ...], float] = {
        (queue.value,): max((depth.oldest_s for depth in waiting if depth.kind in kinds), default=0.0)
        for queue, kinds in KINDS.items()
    }
    meaning = "Age of the oldest row that another worker of the queue would take: what autoscalers ask for."
    return _gauge("memforest_queue_waiting_seconds", meaning, ("queue",), oldest)


def _store_up(up: bool) -> Metric:
    return GaugeMetricFamily("memforest_store_up", "Whether Postgres answers.", value=int(up))


def _workers(workers: list[WorkerBeat]) -> Iterator[Metric]:
    alive = [worker for worker in workers if worker.alive]
    states: dict[tuple[str, ...], float] = {("alive",): len(alive), ("silent",): len(workers) - len(alive)}
    yield _gauge("memforest_workers", "Worker processes by heartbeat.", ("state",), states)
    # Each queue is there even without a worker: an alert can't see what is absent.
    serving: dict[tuple[str, ...], float] = {
        (queue.value,): sum(queue.value in worker.queues for worker in alive) for queue in Queue
    }
    yield _gauge("memforest_queue_workers", "Live worker processes of a queue.", ("queue",), serving)


class _Handler(WSGIRequestHandler):
    timeout = REQUEST_TIMEOUT_S

    def log_message(self, format: str, *args: Any) -> None:
        """Scrapes are no news."""


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def server_bind(self) -> None:
        # Not HTTPServer's, which asks the name service who we are and can wait for it.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no traceback on stderr."""
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
        """Stop answering and free the port."""
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
