"""What Prometheus scrapes equals what was counted and what the rows say, over real HTTP."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from memforest_core.cli.program import app
from memforest_core.domain.ids import TenantId
from memforest_core.errors import InvalidSettings
from memforest_core.models.calls import CallRecord, Step
from memforest_core.observe.prometheus import (
    MAX_TENANTS,
    SNAPSHOT_S,
    BacklogCollector,
    MetricsServer,
    PrometheusTelemetry,
    serve_metrics,
)
from memforest_core.observe.rows import ObserveStore
from memforest_core.observe.watching import Watching
from memforest_core.store.engine import open_engine, transaction
from memforest_core.work.messages import Queue
from memforest_core.work.telemetry import Telemetry
from tests.harness.kustomize import waiting_query
from tests.harness.processes import free_port
from tests.harness.stack import Stack
from tests.integration.test_pipeline import said

LOCALHOST = "127.0.0.1"
ACME = TenantId("acme")
CALL = CallRecord(Step.EXTRACT, "gpt", 900, 80, 600, 0.25, 1_500.0, "ok")


@dataclass
class Hands:
    """A clock that does not run until it is moved."""

    at: float = 1_000.0

    def __call__(self) -> float:
        return self.at


Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


def scraped(server: MetricsServer) -> Series:
    """Every series of one scrape."""
    answer = httpx.get(f"http://{server.host}:{server.port}/metrics", timeout=10)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def value(series: Series, name: str, **labels: str) -> float:
    return series[name, frozenset(labels.items())]


def named(series: Series, name: str) -> dict[tuple[str, ...], float]:
    """All series of a metric, by their label values in the labels' alphabetical order."""
    return {tuple(v for _, v in sorted(labels)): found for (n, labels), found in series.items() if n == name}


@contextmanager
def watched(pipeline: Stack, clock: Hands | None = None, **serving: Any) -> Iterator[MetricsServer]:
    """A server that reports the pipeline's rows; its numbers are as old as the clock lets them be."""
    collector = BacklogCollector(ObserveStore(pipeline.services.engine), pipeline.settings, clock or Hands())
    options = {"telemetry": PrometheusTelemetry(), "host": LOCALHOST, "port": 0} | serving
    with serve_metrics(collector=collector, **options) as server:
        yield server


def ingest(pipeline: Stack, sessions: int) -> None:
    for number in range(sessions):
        pipeline.memory.ingest("bob", f"s{number}", said(*[f"I bought {number + n + 2} lamps." for n in range(8)]))


def test_what_waits_is_what_the_rows_say(pipeline: Stack) -> None:
    ingest(pipeline, 3)
    pipeline.execute("UPDATE memforest.cell SET created_at = clock_timestamp() - interval '90 s' WHERE ordinal = 0")
    pipeline.execute("UPDATE memforest.tenant SET max_waiting_cells = 24")
    tenant = pipeline.tenant
    with watched(pipeline) as server:
        series = scraped(server)
    ready = pipeline.rows("SELECT count(*) FROM memforest.cell WHERE ordinal = window_ordinal AND state = 'ready'")
    assert value(series, "memforest_queue_items", tenant=tenant, kind="extract", state="ready") == ready[0][0] == 6
    oldest = value(series, "memforest_queue_oldest_seconds", tenant=tenant, kind="extract", state="ready")
    assert 90 <= oldest < 120
    assert value(series, "memforest_queue_fill_ratio", tenant=tenant) == 0.5
    assert value(series, "memforest_store_up") == 1
    assert value(series, "memforest_workers", state="alive") == 1
    assert value(series, "memforest_queue_workers", queue="extract") == 1
    assert named(series, "memforest_dead_items") == {}


def test_dirty_nodes_and_staleness_follow_the_work(pipeline: Stack) -> None:
    ingest(pipeline, 2)
    while pipeline.runtime.extract() + pipeline.runtime.reduce():
        pass
    pipeline.execute(
        "UPDATE memforest.tree SET first_mark_at = clock_timestamp() - interval '50 s' WHERE first_mark_at IS NOT NULL"
    )
    pipeline.execute(
        "UPDATE memforest.index_row SET state = 'ready', version = version + 1, available_at = clock_timestamp() - interval '9 s'"
    )
    dirty = pipeline.rows("SELECT count(*) FROM memforest.node WHERE version > clean_version")[0][0]
    clock = Hands()
    with watched(pipeline, clock) as server:
        before = scraped(server)
        pipeline.drive()
        clock.at += SNAPSHOT_S
        after = scraped(server)
    assert value(before, "memforest_dirty_nodes", tenant=pipeline.tenant) == dirty > 0
    assert 50 <= value(before, "memforest_staleness_seconds", tenant=pipeline.tenant, artifact="summaries") < 80
    assert 9 <= value(before, "memforest_staleness_seconds", tenant=pipeline.tenant, artifact="index") < 39
    assert named(after, "memforest_queue_items") == {}
    assert named(after, "memforest_staleness_seconds") == {}


def test_dead_cells_and_silent_workers_are_seen_at_the_next_reading(pipeline: Stack) -> None:
    clock = Hands()
    with watched(pipeline, clock) as server:
        assert named(scraped(server), "memforest_queue_items") == {}
        ingest(pipeline, 1)
        pipeline.execute("UPDATE memforest.cell SET state = 'running' WHERE ordinal = 0")
        pipeline.execute("UPDATE memforest.cell SET state = 'dead' WHERE ordinal = 0")
        pipeline.execute("UPDATE memforest.worker SET heartbeat_at = clock_timestamp() - interval '1 hour'")
        clock.at += SNAPSHOT_S - 0.1
        assert named(scraped(server), "memforest_queue_items") == {}
        clock.at += 0.1
        series = scraped(server)
    assert named(series, "memforest_dead_items") == {("extract", pipeline.tenant): 1.0}
    assert named(series, "memforest_workers") == {("alive",): 0.0, ("silent",): 1.0}
    assert set(named(series, "memforest_queue_workers").values()) == {0.0}


def test_while_postgres_is_unavailable_no_old_number_is_reported(pipeline: Stack) -> None:
    ingest(pipeline, 1)
    engine = open_engine(pipeline.settings.database)
    unavailable = open_engine(pipeline.settings.database, "postgresql+psycopg://app@127.0.0.1:1/none")
    store, clock = ObserveStore(engine), Hands()
    collector = BacklogCollector(store, pipeline.settings, clock)
    with serve_metrics(PrometheusTelemetry(), collector, LOCALHOST, 0) as server:
        assert value(scraped(server), "memforest_store_up") == 1
        store._engine = unavailable
        clock.at += 60
        down = scraped(server)
        store._engine = engine
        clock.at += 60
        up = scraped(server)
    engine.dispose()
    assert value(down, "memforest_store_up") == 0
    rows = {name for name, _ in down if name.startswith("memforest_") and name != "memforest_store_up"}
    assert rows == set()
    assert value(up, "memforest_store_up") == 1
    assert sum(named(up, "memforest_queue_items").values()) > 0


def test_counters_are_what_was_reported(pipeline: Stack) -> None:
    telemetry: Telemetry = (counted := PrometheusTelemetry())
    failed = CallRecord(Step.EXTRACT, "gpt", 0, 0, 0, 0.0, 30.0, "model_rate_limited")
    telemetry.called(ACME, [CALL, CALL, failed])
    telemetry.saved_call("extract", ACME, 3)
    telemetry.retried("extract", ACME, "model_rate_limited")
    telemetry.buried("extract", ACME, "content_fault")
    telemetry.worked("reduce", ACME, 0.03, "done")
    telemetry.reached("facts", ACME, 7.0)
    with watched(pipeline, telemetry=counted) as server:
        series = scraped(server)
    ok = {"step": "extract", "model": "gpt", "tenant": "acme", "outcome": "ok"}
    done = {"step": "reduce", "outcome": "done"}
    expected: list[tuple[str, dict[str, str], float]] = [
        ("llm_calls_total", ok, 2),
        ("llm_calls_total", ok | {"outcome": "model_rate_limited"}, 1),
        ("llm_prompt_tokens_total", ok, 1_800),
        ("llm_completion_tokens_total", ok, 160),
        ("llm_cached_tokens_total", ok, 1_200),
        ("llm_cost_dollars_total", ok, 0.5),
        ("llm_call_duration_seconds_sum", {"step": "extract", "model": "gpt"}, 3.03),
        ("llm_saved_calls_total", {"step": "extract", "tenant": "acme"}, 3),
        ("work_retries_total", {"step": "extract", "code": "model_rate_limited"}, 1),
        ("work_dead_total", {"step": "extract", "code": "content_fault"}, 1),
        ("step_duration_seconds_count", done, 1),
        ("step_duration_seconds_bucket", done | {"le": "0.025"}, 0),
        ("step_duration_seconds_bucket", done | {"le": "0.05"}, 1),
        ("time_to_stage_seconds_sum", {"stage": "facts"}, 7.0),
    ]
    for name, labels, amount in expected:
        assert value(series, f"memforest_{name}", **labels) == pytest.approx(amount), name


def test_a_worker_is_watched_while_it_works(pipeline: Stack) -> None:
    pipeline.services.telemetry = telemetry = PrometheusTelemetry()
    ingest(pipeline, 2)
    pipeline.drive()
    with watched(pipeline, telemetry=telemetry) as server:
        series = scraped(server)
    steps = {labels[1] for labels in named(series, "memforest_step_duration_seconds_count")}
    assert {"extract", "reduce", "refresh"} <= steps
    assert value(series, "memforest_time_to_stage_seconds_count", stage="facts") > 0
    assert named(series, "memforest_work_dead_total") == {}
    recorded = pipeline.rows(
        "SELECT count(*), coalesce(sum(prompt_tokens), 0) FROM memforest.llm_call WHERE step = 'embed'"
    )[0]
    for name, expected in zip(("calls", "prompt_tokens"), recorded, strict=True):
        found = named(series, f"memforest_llm_{name}_total")
        assert sum(count for labels, count in found.items() if labels[2] == "embed") == expected > 0


def test_many_tenants_do_not_swell_the_series() -> None:
    telemetry = PrometheusTelemetry()
    for number in range(MAX_TENANTS + 25):
        telemetry.called(TenantId(f"t{number}"), [CALL])
    samples = [
        sample
        for family in telemetry.registry.collect()
        for sample in family.samples
        if sample.name == "memforest_llm_calls_total"
    ]
    assert len(samples) == MAX_TENANTS + 1
    assert sum(sample.value for sample in samples) == MAX_TENANTS + 25
    assert {sample.value for sample in samples if sample.labels["tenant"] == "other"} == {25}


def test_health_is_what_the_process_says(pipeline: Stack) -> None:
    well = [True]
    with watched(pipeline, healthy=lambda: well[0]) as server:
        at = f"http://{LOCALHOST}:{server.port}"
        assert (httpx.get(f"{at}/healthz").status_code, httpx.get(f"{at}/healthz").text) == (200, "ok\n")
        well[0] = False
        assert httpx.get(f"{at}/healthz").status_code == 503
        assert httpx.get(f"{at}/").status_code == 404
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{at}/healthz")


def test_a_port_that_is_taken_or_a_host_that_is_not_ours_is_one_sentence(pipeline: Stack) -> None:
    with socket.create_server((LOCALHOST, 0)) as holder:
        for wrong, what in (
            ({"port": holder.getsockname()[1]}, "PORT to a free port"),
            ({"host": "192.0.2.1"}, "HOST"),
        ):
            with pytest.raises(InvalidSettings, match=f"MEMFOREST_OBSERVE__METRICS_{what}"), watched(pipeline, **wrong):
                pass


def test_settings_open_metrics(pipeline: Stack) -> None:
    def served(port: int | None, place: int = 0) -> MetricsServer | None:
        observe = pipeline.settings.observe.model_copy(update={"metrics_port": port})
        watching = Watching(pipeline.settings.model_copy(update={"observe": observe}), PrometheusTelemetry())
        watching.serve(pipeline.services.engine, lambda: True, place)
        return watching.server

    assert served(None) is None
    first = served(free_port(2))
    assert first is not None
    with first:
        next_to_it = served(first.port, place=1)
        assert next_to_it is not None
        with next_to_it:
            assert next_to_it.port == first.port + 1
            assert value(scraped(next_to_it), "memforest_store_up") == 1


def test_an_autoscaler_gets_what_metrics_prints(pipeline: Stack) -> None:
    pipeline.memory.enqueue("bob", "s1", said("I live in Oslo.", "Nice."))
    pipeline.execute("UPDATE memforest.cell SET created_at = clock_timestamp() - interval '100 s'")

    def both() -> dict[str, tuple[float, float]]:
        with transaction(pipeline.services.engine) as connection:
            requested = {queue: float(connection.scalar(sa.text(waiting_query(queue)))) for queue in Queue}
        printed = CliRunner().invoke(app, ["metrics"], env=variables(pipeline))
        assert printed.exit_code == 0, printed.output
        reported = {
            sample.labels["queue"]: sample.value
            for family in text_string_to_metric_families(printed.output)
            for sample in family.samples
            if sample.name == "memforest_queue_waiting_seconds"
        }
        return {queue.value: (requested[queue], reported[queue.value]) for queue in Queue}

    waiting = both()
    assert 100 <= waiting["extract"][0] <= waiting["extract"][1] < waiting["extract"][0] + 60
    pipeline.drive()
    assert {queue: pair for queue, pair in both().items() if max(pair) > 60} == {}


def variables(pipeline: Stack) -> dict[str, str]:
    return {
        "MEMFOREST_DATABASE__URL": pipeline.settings.database.url.get_secret_value(),
        "MEMFOREST_BROKER__URL": pipeline.settings.broker.url.get_secret_value(),
    }
