"""How many Postgres connections a deployment opens, and whether the server has room for them."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from memforest_core.errors import InvalidSettings
from memforest_core.settings import Settings
from memforest_core.store.engine import is_pooled, transaction


@dataclass(frozen=True, slots=True)
class ConnectionPlan:
    """What a deployment may open at most: pools are per process, whatever its concurrency."""

    per_process: int
    worker_processes: int
    client_processes: int
    reserved: int

    @property
    def total(self) -> int:
        """Connections that the server must allow."""
        return self.per_process * (self.worker_processes + self.client_processes) + self.reserved


def connection_plan(settings: Settings) -> ConnectionPlan:
    """The plan that the settings make."""
    return ConnectionPlan(
        settings.database.pool_size + settings.database.max_overflow,
        settings.deployment.worker_processes,
        settings.deployment.client_processes,
        settings.deployment.reserved_connections,
    )


def check_connections(engine: sa.Engine, settings: Settings) -> None:
    """Refuse to start into a server that would run out of connections. Raises InvalidSettings, StoreUnavailable.

    Behind a pooler it is the pooler's limit that counts, which can't be asked for here.
    """
    plan = connection_plan(settings)
    with transaction(engine) as connection:
        if is_pooled(connection):
            return
        allowed = int(
            connection.scalar(
                sa.text(
                    "SELECT current_setting('max_connections')::int"
                    " - current_setting('superuser_reserved_connections')::int"
                )
            )
        )
    if plan.total > allowed:
        raise InvalidSettings(
            f"{plan.worker_processes} workers and {plan.client_processes} clients with {plan.per_process} connections"
            f" each, and {plan.reserved} reserved, make {plan.total}, but Postgres allows {allowed}: raise its"
            " max_connections, or lower MEMFOREST_DATABASE__POOL_SIZE, MEMFOREST_DATABASE__MAX_OVERFLOW or"
            " MEMFOREST_DEPLOYMENT__WORKER_PROCESSES."
        )
