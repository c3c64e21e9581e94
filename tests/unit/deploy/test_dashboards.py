"""Dashboard, alerts and scraping ask for metrics that the code exports, with labels that these have."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import pytest
import yaml

from memforest_core.domain.ids import TenantId
from memforest_core.models.calls import CallRecord, Step
from memforest_core.observe.prometheus import BacklogCollector, PrometheusTelemetry
from memforest_core.observe.records import QueueDepth, WorkerBeat
from memforest_core.observe.rows import ObserveRows
from memforest_core.settings import Settings
from tests.unit.deploy.builders import ROOT

TENANT = TenantId("acme")
GRAFANA = ROOT / "deploy/grafana"
DASHBOARD = json.loads((GRAFANA / "dashboards/memforest.json").read_text())
PROMETHEUS = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())
RULES = [
    rule
    for group in yaml.safe_load((ROOT / "deploy/prometheus/alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
SHOWN = [target["expr"] for panel in PANELS for target in panel["targets"]]
WATCHED = [rule["expr"] for rule in RULES]

SELECTOR = re.compile(r"\b(?P<name>(?:memforest|process)_[a-z_]+)(?:\{(?P<matchers>[^}]*)\})?")
MATCHER = re.compile(r"([a-z_]+)\s*(?:=~|!~|!=|=)")
GROUPED = re.compile(r"\bby \(([^)]*)\)")
OF_THE_TARGET = {"job", "instance"}
"""Labels that scraping adds."""


class OneOfEach:
    """A store with work of every kind that makes a metric of its own."""

    def backlog(self) -> list[QueueDepth]:
        kinds = (("extract", "ready"), ("extract", "dead"), ("refresh", "ready"), ("index_fact", "ready"))
        return [QueueDepth(TENANT, kind, state, 1, 1.0) for kind, state in kinds]

    def workers(self, dead_after_s: float) -> list[WorkerBeat]:
        return [WorkerBeat("host:1", ("extract",), "0.1.0", 1.0, True)]

    def fills(self, tenants: Sequence[TenantId], limit: int) -> dict[TenantId, float]:
        return {tenant: 0.5 for tenant in tenants}

    def observing(self, tenant: TenantId) -> AbstractContextManager[ObserveRows]:
        raise AssertionError("metrics look across tenants")


def exported() -> dict[str, set[str]]:
    """Every series that a worker can export: its name and its labels."""
    telemetry = PrometheusTelemetry()
    telemetry.worked("extract", TENANT, 0.1, "done")
    telemetry.called(TENANT, [CallRecord(Step.EXTRACT, "m", 3, 2, 1, 0.5, 10.0, "ok")])
    telemetry.saved_call("extract", TENANT)
    telemetry.retried("extract", TENANT, "store_unavailable")
    telemetry.buried("extract", TENANT, "content_fault")
    telemetry.reached("raw", TENANT, 0.1)
    telemetry.registry.register(BacklogCollector(OneOfEach(), Settings()))
    names: dict[str, set[str]] = {}
    for family in telemetry.registry.collect():
        for sample in family.samples:
            names.setdefault(sample.name, set()).update(sample.labels)
    return names


EXPORTED = exported()


def selectors(expression: str) -> Iterator[tuple[str, set[str]]]:
    """Series that an expression reads, with the labels that it matches on."""
    for match in SELECTOR.finditer(expression):
        yield match["name"], set(MATCHER.findall(match["matchers"] or ""))


@pytest.mark.parametrize("expression", SHOWN + WATCHED)
def test_every_queried_series_is_exported(expression: str) -> None:
    """Given an expression, then each of its series exists, and has the labels that it is chosen and grouped by."""
    requested = list(selectors(expression))
    assert requested
    for name, labels in requested:
        assert name in EXPORTED, name
        assert labels <= EXPORTED[name] | OF_THE_TARGET, (name, labels)
    grouped = {label.strip() for group in GROUPED.findall(expression) for label in group.split(",")}
    shared = set.intersection(*(EXPORTED[name] for name, _ in requested))
    assert grouped <= shared | OF_THE_TARGET


def test_all_that_is_exported_is_shown() -> None:
    """Given a metric of ours, then the dashboard has it; a histogram counts when any of its series is there."""
    shown = {name for expression in SHOWN for name, _ in selectors(expression)}
    parts = re.compile(r"_(bucket|count|sum)$")
    ours = {parts.sub("", name) for name in EXPORTED if name.startswith("memforest_")}
    assert ours == {parts.sub("", name) for name in shown if name.startswith("memforest_")}


def test_gauges_from_rows_are_not_counted_once_per_worker() -> None:
    """Given a gauge that every worker reports alike, then expressions take its maximum before anything else."""
    from_rows = {
        name for name in EXPORTED if re.match(r"memforest_(queue|dead_items|dirty|staleness|workers|store_up)", name)
    }
    assert len(from_rows) == 10
    for expression in SHOWN + WATCHED:
        for match in SELECTOR.finditer(expression):
            if match["name"] in from_rows:
                before = expression[: match.start()].rstrip()
                assert re.search(r"(max(?: by \([^)]*\))?|absent) ?\($", before), expression


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_an_alert_says_what_to_do(rule: dict[str, Any]) -> None:
    """Given a rule, then it has a severity, what happened and what to do; labels that it names are in its result."""
    assert rule["labels"]["severity"] in {"warning", "critical"}
    for text in (rule["annotations"]["summary"], rule["annotations"]["action"]):
        assert text.endswith(".")
        grouped = {label.strip() for group in GROUPED.findall(rule["expr"]) for label in group.split(",")}
        assert set(re.findall(r"\$labels\.([a-z_]+)", text)) <= grouped


def test_prometheus_scrapes_every_worker() -> None:
    """Given the compose file, then the services that serve metrics are scraped, on the port that they serve on."""
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    serving = {
        name: int(service["environment"]["MEMFOREST_OBSERVE__METRICS_PORT"])
        for name, service in services.items()
        if service.get("command", [])[:2] == ["memforest", "worker"]
    }
    job = next(job for job in PROMETHEUS["scrape_configs"] if job["job_name"] == "memforest")
    (found,) = job["dns_sd_configs"]
    assert {name: found["port"] for name in found["names"]} == serving
    assert [(ROOT / "deploy/prometheus" / name).is_file() for name in PROMETHEUS["rule_files"]] == [True]
