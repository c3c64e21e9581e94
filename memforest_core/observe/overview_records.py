"""What watching a running system needs from the store: depths, ages, workers, spending; ids and numbers only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from memforest_core.domain.ids import TenantId


class CostBy(StrEnum):
    """What spending is summed by."""

    SESSION = "session"
    OWNER = "owner"
    STEP = "step"
    DAY = "day"
    MODEL = "model"


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """Work of one tenant, kind and state that is under way or stuck."""

    tenant: TenantId
    kind: str
    """extract, reextract, reduce, refresh, maintain, or index_ and the kind of point."""
    state: str
    """held, ready, running or dead."""
    items: int
    oldest_s: float
    """Age of the oldest of them in seconds."""

    @property
    def dead(self) -> bool:
        """Whether it waits for a person."""
        return self.state == "dead"

    @property
    def dirty(self) -> bool:
        """Whether these are nodes that refresh has still to do."""
        return self.kind == "refresh" and not self.dead

    @property
    def behind(self) -> bool:
        """Whether these are rows that the vector index lacks."""
        return self.kind.startswith("index_") and not self.dead

    @property
    def unextracted(self) -> bool:
        """Whether this counts towards what a tenant may have waiting."""
        return self.kind == "extract" and self.state == "ready"


@dataclass(frozen=True, slots=True)
class WorkerBeat:
    """A worker process and the seconds since its last heartbeat, on the database's clock."""

    name: str
    queues: tuple[str, ...]
    version: str
    silent_s: float
    alive: bool


@dataclass(frozen=True, slots=True)
class Spent:
    """Model calls and what they cost, failed ones included. ``cached_tokens`` are part of ``prompt_tokens``."""

    calls: int
    failed: int
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    cost_usd: float


@dataclass(frozen=True, slots=True)
class SpentOn:
    """What was spent on one thing."""

    name: str
    """The caller's name of it; empty for calls that belong to none."""
    owner: str
    """Of a session its owner; else empty."""
    spent: Spent


@dataclass(frozen=True, slots=True)
class CostFilter:
    """Which calls count: from ``since`` (included) to ``until`` (not included), of one owner or of all."""

    since: datetime | None = None
    until: datetime | None = None
    owner: str | None = None
