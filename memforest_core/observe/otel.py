"""Spans over OpenTelemetry: one session's way through the tasks, by ids and codes, never by text."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import structlog
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased
from opentelemetry.trace import StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from memforest_core.domain.forks import renewed_in_child
from memforest_core.errors import MemForestError

log = structlog.get_logger(__name__)

SERVICE = "memforest"
EXPORT_TIMEOUT_S = 5.0
EXPORT_EVERY_S = 1.0
WAITING_SPANS = 4_096
"""Spans held in memory for a collector that is unavailable; then the oldest are dropped."""
BATCH_SPANS = 512
LONGEST_ID = 200
"""Characters of an attribute; ids are shorter."""
CLOSE_DEADLINE_S = 2.0

LIBRARY_LOGGERS = ("opentelemetry.exporter.otlp.proto.http.trace_exporter", "opentelemetry.sdk._shared_internal")
"""They log every attempt on a collector that is unavailable; one line of ours says it for all."""

_PROPAGATOR = TraceContextTextMapPropagator()
_HEADER = "traceparent"


class OtelTracing:
    """Spans sent in the background to ``endpoint``, the full URL of an OTLP/HTTP collector. Thread-safe.

    The process's own tracer, if it has one, is left alone. Nothing here waits for the collector or raises.
    """

    def __init__(self, endpoint: str) -> None:
        for name in LIBRARY_LOGGERS:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        self._exporter = _Exporter(endpoint)
        self._provider = TracerProvider(
            sampler=ParentBased(ALWAYS_ON),
            resource=Resource({"service.name": SERVICE}),
            shutdown_on_exit=False,
            span_limits=SpanLimits(max_span_attribute_length=LONGEST_ID),
        )
        self._provider.add_span_processor(
            BatchSpanProcessor(
                self._exporter,
                max_queue_size=WAITING_SPANS,
                schedule_delay_millis=EXPORT_EVERY_S * 1_000,
                max_export_batch_size=BATCH_SPANS,
            )
        )
        self._tracer = self._provider.get_tracer(SERVICE)

    @contextmanager
    def span(self, name: str, trace: str | None = None, **ids: str) -> Iterator[str | None]:
        """A span around a block, with the attributes ``memforest.<id>``; yields its own W3C traceparent.

        Its parent is ``trace`` when given, else the span that this thread is in; a ``trace`` that can't be read starts
        a new one. An exception of the block goes on, and leaves its code (or its type) on the span, never its message.
        """
        parent = None if trace is None else _PROPAGATOR.extract({_HEADER: trace}, Context())
        attributes = {f"{SERVICE}.{key}": str(value) for key, value in ids.items()}
        current = self._tracer.start_as_current_span(
            name,
            context=parent,
            attributes=attributes,
            # Both would send the message, and with it what an error quotes.
            record_exception=False,
            set_status_on_exception=False,
        )
        with current as span:
            carrier: dict[str, str] = {}
            _PROPAGATOR.inject(carrier, set_span_in_context(span))
            try:
                yield carrier.get(_HEADER)
            except BaseException as error:
                code = error.code if isinstance(error, MemForestError) else type(error).__name__
                span.set_attribute("error.type", code)
                span.set_status(StatusCode.ERROR)
                raise

    def close(self, deadline_s: float = CLOSE_DEADLINE_S) -> None:
        """Send what waits, for at most ``deadline_s`` seconds; the rest is dropped."""
        stopper = threading.Thread(target=self._provider.shutdown, name="memforest-traces", daemon=True)
        stopper.start()
        stopper.join(deadline_s)
        if stopper.is_alive():
            self._exporter.shutdown()


@renewed_in_child
class _Exporter(SpanExporter):
    """The library's exporter, with one line for an outage and one for its end."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._sender = OTLPSpanExporter(endpoint=endpoint, timeout=EXPORT_TIMEOUT_S)
        self._failing = False
        self._closed = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send a batch; called by one thread at a time."""
        result = self._sender.export(spans)
        failed = result is not SpanExportResult.SUCCESS
        if self._closed:
            return result
        if failed and not self._failing:
            log.warning("traces_not_sent", endpoint=self._endpoint)
        elif self._failing and not failed:
            log.info("traces_resumed", endpoint=self._endpoint)
        self._failing = failed
        return result

    def shutdown(self) -> None:
        """Give up retries; what comes later is dropped."""
        self._closed = True
        self._sender.shutdown()  # type: ignore[no-untyped-call]
