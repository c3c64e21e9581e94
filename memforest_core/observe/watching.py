"""The telemetry of a process: metrics over HTTP, traces to a collector, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from memforest_core.observe.prometheus import BacklogCollector, MetricsServer, PrometheusTelemetry, serve_metrics
from memforest_core.observe.rows import ObserveStore
from memforest_core.observe.tracing import open_tracing
from memforest_core.settings import Settings
from memforest_core.store.engine import Engine
from memforest_core.work.telemetry import SILENT, Telemetry


@dataclass
class Watching:
    """Where a process's telemetry goes; ``serve`` it once there is an engine, and ``close`` it at the end."""

    settings: Settings
    telemetry: Telemetry
    _close_tracing: Callable[[], None] = field(default=lambda: None)
    server: MetricsServer | None = None

    def serve(self, engine: Engine, healthy: Callable[[], bool], place: int = 0) -> None:
        """Serve metrics where the settings say, if they do, ``place`` ports further. Raises InvalidSettings."""
        host, port = self.settings.observe.metrics_host, self.settings.observe.metrics_port
        if port is not None and isinstance(self.telemetry, PrometheusTelemetry):
            collector = BacklogCollector(ObserveStore(engine), self.settings)
            # Port 0 takes any free one, which needs no offset.
            self.server = serve_metrics(self.telemetry, collector, host, port + place if port else 0, healthy)

    def close(self) -> None:
        """Stop serving, and send what is left of the traces."""
        if self.server is not None:
            self.server.close()
        self._close_tracing()


def open_watching(settings: Settings) -> Watching:
    """The telemetry that the settings name. Raises InvalidSettings when tracing is not installed."""
    tracing = open_tracing(settings.observe)
    watched = tracing is not None or settings.observe.metrics_port is not None
    telemetry: Telemetry = PrometheusTelemetry(tracing) if watched else SILENT
    return Watching(settings, telemetry, tracing.close if tracing is not None else lambda: None)
