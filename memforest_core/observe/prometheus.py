"""Metrics for Prometheus: what this process counted, in a bounded number of series, and the backlog."""

from __future__ import annotations

import errno
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import structlog
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    make_wsgi_app,
)
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from memforest_core.domain.forks import renewed_in_child
from memforest_core.domain.ids import TenantId
from memforest_core.errors import InvalidSettings, MemForestError
from memforest_core.ingest.accept.redaction import MASKED
from memforest_core.models.calls import CallRecord
from memforest_core.observe.records import KINDS, QueueDepth, WorkerBeat
from memforest_core.observe.rows import ObserveStore
from memforest_core.settings import Settings
from memforest_core.work.messages import Queue
from memforest_core.work.telemetry import SILENT, Tracer

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment


MAX_TENANTS = 200
"""Tenants that get series of their own; one deployment has a few, a public one must not swell the monitoring."""
MAX_MODELS = 50
MAX_CODES = 100
OTHER = "other"
"""The label of everything past a limit."""

STEP_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""From a reduce of one cell to a lease's length."""
STAGE_BUCKETS_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3_600.0, 14_400.0)
"""From milliseconds to raw text, over the longest quiet period, to a backfill's hours."""

_CALL = ("step", "model", "tenant", "outcome")


@renewed_in_child
class BoundedLabel:
    """Lets the first ``limit`` values of a label through and calls the others one name. Thread-safe."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: set[str] = set()
        self._lock = threading.Lock()

    def __call__(self, value: str) -> str:
        """The value, or ``other``."""
        with self._lock:
            if value not in self._known:
                if len(self._known) >= self._limit:
                    return OTHER
                self._known.add(value)
        return value


class PrometheusTelemetry:
    """Telemetry in a registry of its own. Spans go to ``tracer``, if there is one."""

    def __init__(self, tracer: Tracer | None = None) -> None:
        # They would be a second series for each, which nobody reads.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._tracer = tracer or SILENT
        self._tenant = BoundedLabel(MAX_TENANTS)
        self._model = BoundedLabel(MAX_MODELS)
        self._code = BoundedLabel(MAX_CODES)
        ProcessCollector(registry=self.registry)
        self.registry.register(MASKED)

        def counter(name: str, meaning: str, *labels: str) -> Counter:
            return Counter(name, meaning, labels, registry=self.registry)

        def histogram(name: str, meaning: str, buckets: Sequence[float], *labels: str) -> Histogram:
            return Histogram(name, meaning, labels, buckets=buckets, registry=self.registry)

        meaning = "Time that one unit of work of a step took, by how it ended."
        self._steps = histogram("memforest_step_duration_seconds", meaning, STEP_BUCKETS_S, "step", "outcome")
        meaning = "Time from accepting text until it reached a stage: raw, facts or summaries."
        self._stages = histogram("memforest_time_to_stage_seconds", meaning, STAGE_BUCKETS_S, "stage")
        meaning = "Units of work that were given back because of an error."
        self._retries = counter("memforest_work_retries", meaning, "step", "code")
        self._dead = counter("memforest_work_dead", "Units of work that were dead-lettered.", "step", "code")
        self._dropped = counter("memforest_messages_dropped", "Broker messages that could not be read.", "queue")
        self._calls = counter("memforest_llm_calls", "Model calls made, failed ones included.", *_CALL)
        self._prompt = counter("memforest_llm_prompt_tokens", "Tokens sent to models, cached ones included.", *_CALL)
        self._completion = counter("memforest_llm_completion_tokens", "Tokens that models wrote.", *_CALL)
        self._cached = counter("memforest_llm_cached_tokens", "Tokens sent that the provider's cache knew.", *_CALL)
        self._dollars = counter("memforest_llm_cost_dollars", "US dollars that model calls cost.", *_CALL)
        meaning = "Time that one model call took."
        self._latency = histogram("memforest_llm_call_duration_seconds", meaning, STEP_BUCKETS_S, "step", "model")
        meaning = "Model calls that were not made, because their answer was paid for before."
        self._saved = counter("memforest_llm_saved_calls", meaning, "step", "tenant")

    def worked(self, step: str, tenant: TenantId, seconds: float, outcome: str) -> None:
        """One observation of the step's histogram; its series name no tenant, as a histogram has many of them."""
        self._steps.labels(step, self._code(outcome)).observe(max(0.0, seconds))

    def called(self, tenant: TenantId, calls: Sequence[CallRecord]) -> None:
        for call in calls:
            step, model = call.step.value, self._model(call.model)
            labels = (step, model, self._tenant(tenant), self._code(call.outcome))
            self._calls.labels(*labels).inc()
            self._prompt.labels(*labels).inc(max(0, call.prompt_tokens))
            self._completion.labels(*labels).inc(max(0, call.completion_tokens))
            self._cached.labels(*labels).inc(max(0, call.cached_tokens))
            self._dollars.labels(*labels).inc(max(0.0, call.cost_usd))
            self._latency.labels(step, model).observe(max(0.0, call.latency_ms) / 1_000)

    def saved_call(self, step: str, tenant: TenantId, hits: int = 1) -> None:
        self._saved.labels(step, self._tenant(tenant)).inc(max(0, hits))

    def retried(self, step: str, tenant: TenantId, code: str) -> None:
        self._retries.labels(step, self._code(code)).inc()

    def buried(self, step: str, tenant: TenantId, code: str) -> None:
        self._dead.labels(step, self._code(code)).inc()

    def reached(self, stage: str, tenant: TenantId, seconds: float) -> None:
        self._stages.labels(stage).observe(max(0.0, seconds))

    def dropped(self, queue: str) -> None:
        """One more unreadable message; only the product's own queues have series."""
        self._dropped.labels(queue if queue in set(Queue) else OTHER).inc()

    def span(self, name: str, trace: str | None = None, **ids: str) -> AbstractContextManager[str | None]:
        return self._tracer.span(name, trace, **ids)


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


class MetricsServer(AbstractContextManager["MetricsServer"]):
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
