"""Answers what an operator watches: what waits and for how long, who works, and what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from memforest_core.domain.ids import TenantId
from memforest_core.errors import InvalidInput
from memforest_core.observe.overview_records import CostBy, CostFilter, QueueDepth, Spent, SpentOn, WorkerBeat
from memforest_core.observe.rows.overview import OverviewStore
from memforest_core.store.owners import known

LAST_MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Overview:
    """A tenant's work at one moment, and the workers that serve all tenants."""

    at: datetime
    queues: tuple[QueueDepth, ...]
    workers: tuple[WorkerBeat, ...]
    last_minute: Spent
    """Model calls of the last 60 seconds."""
    today: Spent
    """Model calls since midnight UTC."""

    @property
    def dead(self) -> int:
        """Items that wait for a person."""
        return sum(depth.items for depth in self.queues if depth.dead)

    @property
    def dirty_nodes(self) -> int:
        """Nodes whose summary is behind, dead ones apart."""
        return sum(depth.items for depth in self.queues if depth.dirty)

    @property
    def summaries_stale_s(self) -> float:
        """Age in seconds of the oldest change that no summary knows."""
        return max((depth.oldest_s for depth in self.queues if depth.dirty), default=0.0)

    @property
    def index_stale_s(self) -> float:
        """Age in seconds of the oldest row that the vector index lacks."""
        return max((depth.oldest_s for depth in self.queues if depth.behind), default=0.0)


@dataclass(frozen=True, slots=True)
class Costs:
    """Spending by one thing, and in all."""

    by: CostBy
    rows: tuple[SpentOn, ...]
    total: Spent


class OverviewService:
    """Reads only; every answer is one transaction's view."""

    def __init__(self, store: OverviewStore, dead_after_s: float) -> None:
        self._store = store
        self._dead_after_s = dead_after_s

    def overview(self, tenant: TenantId) -> Overview:
        """How a tenant's work stands. Raises StoreUnavailable, InvalidSettings."""
        with self._store.watching(tenant) as rows:
            now = rows.now()
            return Overview(
                at=now,
                queues=tuple(rows.backlog()),
                workers=tuple(rows.workers(self._dead_after_s)),
                last_minute=rows.spent(now - LAST_MINUTE),
                today=rows.spent(now.replace(hour=0, minute=0, second=0, microsecond=0)),
            )

    def costs(self, tenant: TenantId, by: CostBy, which: CostFilter) -> Costs:
        """What model calls cost. Raises InvalidInput, NotFound for an unknown owner, StoreUnavailable."""
        if which.since is not None and which.until is not None and which.since >= which.until:
            raise InvalidInput("Give a --since that is before --until.", code="invalid_period")
        with self._store.watching(tenant) as rows:
            if which.owner is not None:
                known(rows.has_owner(which.owner) or None, which.owner)
            found = tuple(rows.spent_on(by, which))
        return Costs(by, found, summed([row.spent for row in found]))


def summed(parts: Sequence[Spent]) -> Spent:
    """The sum of all parts."""
    return Spent(
        calls=sum(part.calls for part in parts),
        failed=sum(part.failed for part in parts),
        prompt_tokens=sum(part.prompt_tokens for part in parts),
        completion_tokens=sum(part.completion_tokens for part in parts),
        cached_tokens=sum(part.cached_tokens for part in parts),
        cost_usd=sum(part.cost_usd for part in parts),
    )
