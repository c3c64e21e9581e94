"""Telemetry as Prometheus metrics: counters and histograms of one process, with a bounded number of series."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, disable_created_metrics

from memforest_core.domain.forks import renewed_in_child
from memforest_core.domain.ids import TenantId
from memforest_core.models.calls import CallRecord
from memforest_core.work.messages import Queue
from memforest_core.work.telemetry import SILENT, Tracer

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
