"""What the pipeline tells about itself while it works: numbers, codes and ids, never text."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from memforest_core.domain.ids import TenantId
from memforest_core.models.calls import CallRecord


class Tracer(Protocol):
    """Where spans go. Thread-safe; never raises."""

    def span(self, name: str, trace: str | None = None, **ids: str) -> AbstractContextManager[str | None]:
        """A span around a block, child of ``trace`` (a W3C traceparent) when given; yields its own traceparent.

        ``ids`` become attributes. Without tracing it yields ``trace`` as it is.
        """
        ...


class Telemetry(Tracer, Protocol):
    """Where measurements go. Every method is thread-safe and never raises."""

    def worked(self, step: str, tenant: TenantId, seconds: float, outcome: str) -> None:
        """One unit of a step ("extract", "reduce", "refresh", "index", "maintain") took so long and ended so."""
        ...

    def called(self, tenant: TenantId, calls: Sequence[CallRecord]) -> None:
        """Model calls that were made, failed ones included."""
        ...

    def saved_call(self, step: str, tenant: TenantId, hits: int = 1) -> None:
        """Calls that were not made, because their answer was paid for before."""
        ...

    def retried(self, step: str, tenant: TenantId, code: str) -> None:
        """A unit of work was given back because of an error with this code."""
        ...

    def buried(self, step: str, tenant: TenantId, code: str) -> None:
        """A unit of work was dead-lettered."""
        ...

    def reached(self, stage: str, tenant: TenantId, seconds: float) -> None:
        """Accepted text reached a stage ("raw", "facts", "summaries") so long after it was accepted."""
        ...

    def dropped(self, queue: str) -> None:
        """A message of this queue could not be read ("" where not even the queue is known); it is gone."""
        ...


class _Silent:
    """Does nothing."""

    def worked(self, step: str, tenant: TenantId, seconds: float, outcome: str) -> None:
        """Nothing."""

    def called(self, tenant: TenantId, calls: Sequence[CallRecord]) -> None:
        """Nothing."""

    def saved_call(self, step: str, tenant: TenantId, hits: int = 1) -> None:
        """Nothing."""

    def retried(self, step: str, tenant: TenantId, code: str) -> None:
        """Nothing."""

    def buried(self, step: str, tenant: TenantId, code: str) -> None:
        """Nothing."""

    def reached(self, stage: str, tenant: TenantId, seconds: float) -> None:
        """Nothing."""

    def dropped(self, queue: str) -> None:
        """Nothing."""

    def span(self, name: str, trace: str | None = None, **ids: str) -> AbstractContextManager[str | None]:
        """The trace as it came."""
        return nullcontext(trace)


SILENT: Telemetry = _Silent()
"""Telemetry of a process that nobody watches."""
