"""The wire contract between producers and workers: queue names, task names, and what a message carries.

A message is a wake-up, never the work: it holds a tenant and ids, so that no conversation text reaches
the broker, Flower or a log line. Task names are versioned by hand and outlive the modules behind them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Queue(StrEnum):
    """The four queues; one service per queue in docker-compose.yml."""

    EXTRACT = "extract"
    REDUCE = "reduce"
    REFRESH = "refresh"
    MAINTAIN = "maintain"


TASK_NAMES: dict[Queue, str] = {queue: f"memforest.{queue.value}.v1" for queue in Queue}


@dataclass(frozen=True, slots=True)
class WakeUp:
    """One message: look for work of this kind; ``ref`` names what caused it (a hint, never a claim)."""

    queue: Queue
    tenant: str
    ref: str = ""
