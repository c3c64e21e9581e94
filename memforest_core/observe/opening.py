"""Watching needs a database only: no index, no broker, no models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from memforest_core.observe.exposition import BacklogCollector, MetricsServer, serve_metrics
from memforest_core.observe.overview import OverviewService
from memforest_core.observe.prometheus import PrometheusTelemetry
from memforest_core.observe.rows.overview import OverviewStore
from memforest_core.settings import Settings
from memforest_core.store.engine import Engine, open_engine


def open_overview(engine: Engine, settings: Settings) -> OverviewService:
    """The watching side over a connection pool."""
    return OverviewService(OverviewStore(engine), settings.worker.dead_after_s)


@contextmanager
def watched_engine(settings: Settings) -> Iterator[Engine]:
    """A pool for one command that reads the database and nothing else. Raises InvalidSettings."""
    engine = open_engine(settings.database)
    try:
        yield engine
    finally:
        engine.dispose()


def open_metrics(
    engine: Engine, settings: Settings, telemetry: PrometheusTelemetry, healthy: Callable[[], bool], offset: int = 0
) -> MetricsServer | None:
    """Serve metrics where the settings say, ``offset`` ports further; None without a port. Raises InvalidSettings."""
    port = settings.observe.metrics_port
    if port is None:
        return None
    collector = BacklogCollector(OverviewStore(engine), settings)
    # Port 0 asks for any free one, which needs no offset.
    return serve_metrics(telemetry, collector, settings.observe.metrics_host, port + offset if port else 0, healthy)
