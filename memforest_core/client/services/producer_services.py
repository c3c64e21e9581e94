"""What an app server needs to enqueue: Postgres and the broker; no model library, no worker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from memforest_core.ingest.accept.flushing import Flushing
from memforest_core.ingest.accept.redaction import open_redactor
from memforest_core.ingest.accept.service import Acceptance
from memforest_core.observe.tracing import open_tracing
from memforest_core.settings import Settings
from memforest_core.store.engine import Engine, open_engine
from memforest_core.work.messages import MAX_WAKEUPS
from memforest_core.work.publishing import CeleryWakeUps
from memforest_core.work.telemetry import SILENT, Tracer


@dataclass(frozen=True, slots=True)
class Producer:
    """The accepting side of a process."""

    engine: Engine
    wakeups: CeleryWakeUps
    acceptance: Acceptance
    flushing: Flushing
    tracer: Tracer = SILENT
    _close_tracing: Callable[[], None] = lambda: None

    def close(self) -> None:
        """Send what is left of the traces, and release connections."""
        self._close_tracing()
        self.wakeups.close()
        self.engine.dispose()


def open_producer(settings: Settings, tracer: Tracer | None = None) -> Producer:
    """Wire the accepting side; connects on first use.

    Without a ``tracer`` it makes its own if the settings ask for traces. Raises InvalidSettings.
    """
    tracing = open_tracing(settings.observe) if tracer is None else None
    engine = open_engine(settings.database)
    wakeups = CeleryWakeUps(settings.broker)
    redactor = open_redactor(settings.accept.redact)
    acceptance = Acceptance(engine, wakeups, settings.accept, MAX_WAKEUPS, lambda: datetime.now(UTC), redactor=redactor)
    close = tracing.close if tracing is not None else lambda: None
    return Producer(engine, wakeups, acceptance, Flushing(engine, wakeups), tracer or tracing or SILENT, close)
