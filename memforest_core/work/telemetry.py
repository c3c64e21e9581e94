"""What the pipeline measures of itself while it works: numbers, codes and ids, never text."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from memforest_core.domain.ids import TenantId
from memforest_core.models.calls import CallRecord


class Tracer(Protocol):
    """Where spans go. Thread-safe; never raises."""

    def span(self, name: str, trace: str | None = None, **ids: str) -> AbstractContextManager[str | None]:
        """A span around a block, child of ``trace`` (a W3C traceparent) when given, with ``ids`` as attributes; yields
        its own traceparent, without tracing ``trace``."""
        return nullcontext(trace)


class Telemetry(Tracer, Protocol):
    """Where measurements go. Every method is thread-safe, never raises, and does nothing unless it is overridden."""

    def worked(self, step: str, tenant: TenantId, seconds: float, outcome: str) -> None:
        """One unit of a step ("extract", "reduce", "refresh", "index", "maintain") took so long and ended so."""
        return

    def called(self, tenant: TenantId, calls: Sequence[CallRecord]) -> None:
        """Model calls that were made, failed ones included."""
        return

    def saved_call(self, step: str, tenant: TenantId, hits: int = 1) -> None:
        """Calls that were not made, because their answer was paid for before."""
        return

    def retried(self, step: str, tenant: TenantId, code: str) -> None:
        """A unit of work was given back because of an error with this code."""
        return

    def buried(self, step: str, tenant: TenantId, code: str) -> None:
        """A unit of work became a dead letter."""
        return

    def reached(self, stage: str, tenant: TenantId, seconds: float) -> None:
        """Accepted text reached a stage ("raw", "facts", "summaries") so long after it was accepted."""
        return

    def dropped(self, queue: str) -> None:
        """A message of this queue could not be read ("" where not even the queue is known); it is gone."""
        return


class _Silent(Telemetry):
    """Of a process that is not observed."""


SILENT: Telemetry = _Silent()
