"""The wire contract between producers and workers: the names of queues and tasks.

A message is a wake-up, never the work: it has a tenant and ids, so that no conversation text reaches
the broker, Flower or a log line. Task names are versioned by hand and outlive the modules behind them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol
from uuid import UUID

from memforest_core.domain.ids import TenantId


class WakeUps(Protocol):
    """Sends wake-ups to workers. Losing one is harmless."""

    def send(self, queue: str, tenant: TenantId, ref: UUID | str, count: int = 1) -> bool:
        """Send ``count`` messages; False when the broker could not be reached in time."""
        ...


class Queue(StrEnum):
    """The four queues; one service per queue in docker-compose.yml."""

    EXTRACT = "extract"
    REDUCE = "reduce"
    REFRESH = "refresh"
    MAINTAIN = "maintain"


MAX_WAKEUPS = 64
"""Wake-ups sent for one accepted session; running workers poll for the rest."""

TASK_NAMES: dict[Queue, str] = {queue: f"memforest.{queue.value}.v1" for queue in Queue}
