"""A real worker, watched from outside: one trace follows a session across tasks, and metrics tell what it did and cost."""

from __future__ import annotations

from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.harness.processes import deployment, free_port
from tests.harness.sayings import said
from tests.harness.servers import SessionServers
from tests.harness.timing import until
from tests.integration.test_tracing import collecting

PLANTED = "kumquat"


def series(port: int) -> dict[str, float]:
    """Every series that the worker serves, summed over its labels."""
    answer = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=10)
    assert answer.status_code == 200
    assert PLANTED not in answer.text
    sums: dict[str, float] = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
    return sums


def test_one_trace_follows_a_session_and_metrics_count_it(servers: SessionServers, tmp_path: Path) -> None:
    """Given a worker with metrics and traces, when a session becomes ready, then both tell its way, and no word of it."""
    port = free_port()
    with collecting() as collector:
        watching = {
            "MEMFOREST_OBSERVE__METRICS_PORT": str(port),
            "MEMFOREST_OBSERVE__OTLP_ENDPOINT": collector.endpoint,
            "MEMFOREST_LLM__PRICES": '{"openai/test-model": {"input": 1, "output": 2}}',
        }
        with deployment(servers, tmp_path, **watching) as running:
            running.start_worker()
            client = running.client()
            handle = client.enqueue("ann", "s1", said(*[f"I bought {n} {PLANTED}s in Oslo." for n in range(12)]))
            handle.wait("summaries", 60.0)
            found = series(port)
            client.close()
            stages = {"enqueue", "extract", "reduce", "refresh"}
            until(lambda: stages <= collector.spans.keys(), 30, lambda: collector.spans.keys())

    # The index is written for many sessions at once, in traces of its own.
    assert {collector.spans[stage].trace_id for stage in stages} == {collector.spans["enqueue"].trace_id}
    assert not any(PLANTED.encode() in body for body in collector.bodies)
    windows = 3
    assert found["memforest_llm_calls_total"] >= windows
    assert found["memforest_llm_cost_dollars_total"] > 0
    assert found["memforest_step_duration_seconds_count"] >= windows
    assert found["memforest_time_to_stage_seconds_count"] >= 3 * windows  # raw, facts and summaries
    assert found["memforest_queue_workers"] >= 1
    assert found["memforest_store_up"] == 1
