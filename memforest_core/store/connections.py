"""How many Postgres connections a deployment opens, and whether the server has room for them."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from memforest_core.domain.ids import WorkerId
from memforest_core.errors import InvalidSettings
from memforest_core.settings import Settings
from memforest_core.store.engine import is_pooled, transaction

RESERVED = 5
"""Connections left for migrations, backups and people."""


@dataclass(frozen=True, slots=True)
class ConnectionPlan:
    """What a deployment may open at most: pools are per process, whatever its concurrency."""

    per_process: int
    worker_processes: int
    client_processes: int
    reserved: int

    @property
    def others(self) -> int:
        """Connections of all but workers."""
        return self.per_process * self.client_processes + self.reserved

    @property
    def total(self) -> int:
        """Connections that the server must allow."""
        return self.per_process * self.worker_processes + self.others


def connection_plan(settings: Settings) -> ConnectionPlan:
    """The plan that the settings make."""
    return ConnectionPlan(
        settings.database.pool_size + settings.database.max_overflow,
        settings.deployment.worker_processes,
        settings.deployment.client_processes,
        RESERVED,
    )


@dataclass(frozen=True, slots=True)
class ConnectionUse:
    """What the server allows, and what the workers that live may open together."""

    allowed: int
    workers: int
    theirs: int

    def wanted(self, plan: ConnectionPlan) -> int:
        """Connections for the workers that are planned or live, whichever is more, and for all others."""
        return max(plan.per_process * plan.worker_processes, self.theirs) + plan.others


_USE = sa.text("""
    WITH live AS (
        SELECT w.connections FROM memforest.worker w
          LEFT JOIN memforest.worker newcomer ON newcomer.worker_id = :newcomer
         WHERE w.heartbeat_at > clock_timestamp() - make_interval(secs => :dead_after)
           AND (newcomer.worker_id IS NULL
                OR (w.started_at, w.worker_id) <= (newcomer.started_at, newcomer.worker_id)))
    SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int AS allowed,
           (SELECT count(*) FROM live) AS workers, (SELECT coalesce(sum(connections), 0) FROM live) AS theirs
    """)


def connections_in_use(engine: sa.Engine, settings: Settings, newcomer: WorkerId | None = None) -> ConnectionUse | None:
    """What the server allows and its live workers may open; None behind a pooler, whose limit can't be read here.

    With a registered ``newcomer`` those that started after it do not count: of workers that start at the same
    time as many go on as there is room for. Raises StoreUnavailable.
    """
    with transaction(engine) as connection:
        if is_pooled(connection):
            return None
        values = {"newcomer": newcomer, "dead_after": settings.worker.dead_after_s}
        found = connection.execute(_USE, values).one()
        return ConnectionUse(int(found.allowed), int(found.workers), int(found.theirs))


def check_connections(engine: sa.Engine, settings: Settings, newcomer: WorkerId | None = None) -> None:
    """Refuse to start into a server that would run out of connections, by plan or by the workers that live already.

    Raises InvalidSettings, StoreUnavailable.
    """
    plan = connection_plan(settings)
    use = connections_in_use(engine, settings, newcomer)
    if use is None or use.wanted(plan) <= use.allowed:
        return
    workers = f"{use.workers} live" if use.theirs > plan.per_process * plan.worker_processes else plan.worker_processes
    raise InvalidSettings(
        f"{workers} workers and {plan.client_processes} clients with {plan.per_process} connections"
        f" each, and {plan.reserved} reserved, make {use.wanted(plan)}, but Postgres allows {use.allowed}: raise its"
        " max_connections, put PgBouncer before it, or lower MEMFOREST_DATABASE__POOL_SIZE,"
        " MEMFOREST_DATABASE__MAX_OVERFLOW or the number of workers (MEMFOREST_DEPLOYMENT__WORKER_PROCESSES)."
    )
