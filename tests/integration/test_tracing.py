"""Traces follow a session through processes and threads, carry ids only, and never stand in the way of work."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import create_server
from typing import Any

import pytest
import structlog
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from memforest_core.errors import InvalidSettings, ModelUnavailable
from memforest_core.observe.otel import OtelTracing
from memforest_core.observe.tracing import open_tracing
from memforest_core.settings import ObserveSettings
from tests.harness.forked import in_children
from tests.harness.timing import until

SAID = "my locker code is marzipan-4711"
REMOTE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ARRIVAL_S = 30.0


@dataclass
class Collector:
    """What an OTLP collector was sent."""

    endpoint: str = ""
    bodies: list[bytes] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    refused: int = 0

    @property
    def requests(self) -> list[ExportTraceServiceRequest]:
        return [ExportTraceServiceRequest.FromString(body) for body in self.bodies]

    @property
    def services(self) -> set[str]:
        return {
            attribute.value.string_value
            for request in self.requests
            for group in request.resource_spans
            for attribute in group.resource.attributes
            if attribute.key == "service.name"
        }

    @property
    def every(self) -> list[Span]:
        groups = [group for request in self.requests for group in request.resource_spans]
        return [span for group in groups for scope in group.scope_spans for span in scope.spans]

    @property
    def spans(self) -> dict[str, Span]:
        return {span.name: span for span in self.every}


@contextmanager
def collecting(*statuses: int) -> Iterator[Collector]:
    """A collector that answers with these statuses in turn, then with 200."""
    seen = Collector()
    left = list(statuses)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = left.pop(0) if left else 200
            if status == 200:
                seen.paths.append(self.path)
                seen.bodies.append(body)
            else:
                seen.refused += 1
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        seen.endpoint = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield seen
        server.shutdown()


@contextmanager
def opened(endpoint: str) -> Iterator[OtelTracing]:
    tracing = open_tracing(ObserveSettings(otlp_endpoint=endpoint))
    assert tracing is not None
    try:
        yield tracing
    finally:
        tracing.close()


def attributes(span: Span) -> dict[str, str]:
    return {attribute.key: attribute.value.string_value for attribute in span.attributes}


def test_traces_of_threads_do_not_mix() -> None:
    together = threading.Barrier(8)

    def work(tracing: OtelTracing, number: int) -> None:
        together.wait()
        with tracing.span(f"reduce {number}", f"00-{number:032x}-{number:016x}-01"):
            together.wait()
            with tracing.span(f"save {number}"):
                together.wait()

    with collecting() as collector:
        with opened(collector.endpoint) as tracing, ThreadPoolExecutor(8) as threads:
            list(threads.map(work, [tracing] * 8, range(1, 9)))
        spans = collector.spans
    assert len(spans) == 16
    for number in range(1, 9):
        outer, inner = spans[f"reduce {number}"], spans[f"save {number}"]
        assert outer.trace_id == inner.trace_id == number.to_bytes(16, "big")
        assert outer.parent_span_id == number.to_bytes(8, "big")
        assert inner.parent_span_id == outer.span_id


@pytest.mark.parametrize(
    "error, named", [(ModelUnavailable(f"It answered: {SAID}"), "model_unavailable"), (ValueError(SAID), "ValueError")]
)
def test_a_failure_leaves_its_code_and_no_text(error: Exception, named: str) -> None:
    with collecting() as collector:
        with (
            opened(collector.endpoint) as tracing,
            pytest.raises(type(error)),
            tracing.span("extract", REMOTE, cell="c"),
        ):
            raise error
        (span,) = collector.spans.values()
    assert attributes(span) == {"memforest.cell": "c", "error.type": named}
    assert (span.status.code, span.status.message) == (Status.STATUS_CODE_ERROR, "")
    assert list(span.events) == []
    assert not any(b"marzipan" in body for body in collector.bodies)


def test_the_callers_choice_not_to_trace_is_respected() -> None:
    with collecting() as collector:
        with opened(collector.endpoint) as tracing, tracing.span("enqueue", REMOTE[:-2] + "00") as trace:
            assert trace is not None
            assert trace.startswith(REMOTE[:36])
            assert trace.endswith("-00")
        assert collector.bodies == []


@pytest.mark.parametrize("trace", ["", "nonsense", REMOTE[:-3], "00-" + "0" * 32 + "-b7ad6b7169203331-01"])
def test_an_unreadable_parent_starts_a_new_trace_and_a_long_attribute_is_cut(trace: str) -> None:
    with collecting() as collector:
        with opened(collector.endpoint) as tracing, tracing.span("recall", trace, owner="x" * 10_000) as own:
            assert own is not None
            assert own.startswith("00-")
        (span,) = collector.spans.values()
    assert (span.parent_span_id, len(attributes(span)["memforest.owner"])) == (b"", 200)


def burst(tracing: OtelTracing, count: int) -> float:
    """Seconds that many spans take."""
    started = time.monotonic()
    for number in range(count):
        with tracing.span("extract", REMOTE, cell=str(number)):
            pass
    return time.monotonic() - started


@pytest.mark.parametrize("hangs", [False, True])
def test_a_collector_that_is_dead_or_hangs_costs_nothing(capsys: pytest.CaptureFixture[str], hangs: bool) -> None:
    with structlog.testing.capture_logs() as logged, create_server(("127.0.0.1", 0), backlog=64) as taken:
        endpoint = f"http://127.0.0.1:{taken.getsockname()[1]}"
        if not hangs:
            taken.close()
        tracing = open_tracing(ObserveSettings(otlp_endpoint=endpoint))
        assert tracing is not None
        assert burst(tracing, 6_000) < 5.0
        if not hangs:
            until(lambda: bool(logged))
            assert burst(tracing, 100) < 1.0
        started = time.monotonic()
        tracing.close(deadline_s=0.5)
        assert time.monotonic() - started < 3.5
        assert burst(tracing, 1) < 1.0
    assert [(line["event"], line["log_level"]) for line in logged] == [("traces_not_sent", "warning")] * (not hangs)
    assert capsys.readouterr().err == ""


def test_a_collector_that_comes_back_gets_what_waited() -> None:
    with structlog.testing.capture_logs() as logged, collecting(500, 500, 503) as collector:
        with opened(collector.endpoint) as tracing:
            for refused in (1, 2):
                with tracing.span("lost"):
                    pass
                until(lambda refused=refused: collector.refused == refused)
            until(lambda: bool(logged))
            with tracing.span("kept"):
                pass
            until(lambda: bool(collector.bodies) and len(logged) > 1)
        assert set(collector.spans) == {"kept"}
    assert [line["event"] for line in logged] == ["traces_not_sent", "traces_resumed"]


@pytest.mark.parametrize("endpoint", ["localhost:4318", "http://", "grpc://collector:4317"])
def test_an_address_that_is_none_is_refused(endpoint: str) -> None:
    with pytest.raises(InvalidSettings, match="MEMFOREST_OBSERVE__OTLP_ENDPOINT"):
        open_tracing(ObserveSettings(otlp_endpoint=endpoint))


def test_without_the_extra_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(sys.modules):
        if name == "memforest_core.observe.otel" or name.split(".")[0] == "opentelemetry":
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    assert open_tracing(ObserveSettings()) is None
    with pytest.raises(InvalidSettings, match=r"pip install 'memforest\[tracing\]'"):
        open_tracing(ObserveSettings(otlp_endpoint="http://localhost:4318"))


def test_children_send_their_own_spans_and_no_span_is_sent_twice() -> None:
    with collecting() as seen:
        tracing = OtelTracing(seen.endpoint + "/v1/traces")
        with tracing.span("first"):
            pass
        until(lambda: "first" in seen.spans)
        with tracing.span("waiting"):
            pass

        def child(name: str) -> Callable[[], object]:
            def send() -> None:
                with tracing.span(name):
                    pass
                tracing.close()

            return send

        in_children(child("one"), child("two"))
        tracing.close()
        until(lambda: {"first", "waiting", "one", "two"} <= set(seen.spans))
        names = [span.name for span in seen.every]
    assert sorted(names) == ["first", "one", "two", "waiting"]
