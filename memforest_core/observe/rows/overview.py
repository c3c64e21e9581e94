"""Watching a running system, in Postgres: what waits across tenants, and what one tenant spent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import ProgrammingError

from memforest_core.accept.rows.accepting import AcceptRows
from memforest_core.domain.ids import TenantId
from memforest_core.errors import InvalidSettings
from memforest_core.observe.overview_records import CostBy, CostFilter, QueueDepth, Spent, SpentOn, WorkerBeat
from memforest_core.store import tables as m
from memforest_core.store.engine import tenant_transaction, transaction
from memforest_core.store.owners import forest_id

UNDEFINED_FUNCTION = "42883"

_BACKLOG = sa.text(
    """
    SELECT tenant_id, kind, state, items, oldest_s FROM memforest.backlog()
     WHERE CAST(:t AS text) IS NULL OR tenant_id = :t ORDER BY tenant_id, kind, state
    """
)

_WORKERS = sa.text(
    """
    SELECT name, queues, version,
           greatest(0, extract(epoch FROM clock_timestamp() - heartbeat_at))::float8 AS silent_s
      FROM memforest.worker ORDER BY started_at, worker_id
    """
)

_CALL = m.LlmCall.__table__.c

_SUMS = (
    sa.func.count().label("calls"),
    sa.func.count().filter(_CALL.outcome != "ok").label("failed"),
    *(
        sa.func.coalesce(sa.func.sum(_CALL[name]), 0).label(name)
        for name in ("prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd")
    ),
)


def _backlog(connection: sa.Connection, tenant: TenantId | None) -> list[QueueDepth]:
    try:
        rows = connection.execute(_BACKLOG, {"t": tenant}).all()
    except ProgrammingError as error:
        if getattr(error.orig, "sqlstate", None) == UNDEFINED_FUNCTION:
            raise InvalidSettings("The database is at an older version: run memforest db upgrade.") from None
        raise
    return [QueueDepth(TenantId(row.tenant_id), row.kind, row.state, row.items, row.oldest_s) for row in rows]


def _workers(connection: sa.Connection, dead_after_s: float) -> list[WorkerBeat]:
    return [
        WorkerBeat(row.name, tuple(row.queues), row.version, row.silent_s, row.silent_s <= dead_after_s)
        for row in connection.execute(_WORKERS)
    ]


def _spent(row: sa.Row[Any]) -> Spent:
    return Spent(
        calls=row.calls,
        failed=row.failed,
        prompt_tokens=int(row.prompt_tokens),
        completion_tokens=int(row.completion_tokens),
        cached_tokens=int(row.cached_tokens),
        cost_usd=float(row.cost_usd),
    )


# What was deleted has no name any more, but its calls were paid for: they keep the id.
_OWNER = sa.func.coalesce(m.Forest.owner, sa.cast(_CALL.forest_id, sa.Text), "")
_SESSION = sa.func.coalesce(m.Session.external_id, sa.cast(_CALL.session_id, sa.Text), "")
_DAY = sa.func.to_char(sa.func.timezone("UTC", _CALL.at), "YYYY-MM-DD")
_NAMES: dict[CostBy, tuple[sa.ColumnElement[str], sa.ColumnElement[str]]] = {
    CostBy.SESSION: (_SESSION, _OWNER),
    CostBy.OWNER: (_OWNER, sa.literal("")),
    CostBy.STEP: (_CALL.step, sa.literal("")),
    CostBy.DAY: (_DAY, sa.literal("")),
    CostBy.MODEL: (_CALL.model, sa.literal("")),
}


class OverviewRows:
    """Reads of one transaction of a tenant."""

    def __init__(self, connection: sa.Connection, tenant: TenantId) -> None:
        self._db = connection
        self._tenant = tenant

    def now(self) -> datetime:
        """The database's clock."""
        moment: datetime = self._db.execute(sa.select(sa.func.clock_timestamp())).scalar_one()
        return moment.astimezone(UTC)

    def backlog(self) -> list[QueueDepth]:
        """What waits, of this tenant."""
        return _backlog(self._db, self._tenant)

    def workers(self, dead_after_s: float) -> list[WorkerBeat]:
        """Enlisted workers, oldest first; silent for longer than ``dead_after_s`` they are not alive."""
        return _workers(self._db, dead_after_s)

    def spent(self, since: datetime) -> Spent:
        """All calls since then."""
        statement = sa.select(*_SUMS).where(_CALL.tenant_id == self._tenant, _CALL.at >= since)
        return _spent(self._db.execute(statement).one())

    def has_owner(self, owner: str) -> bool:
        """Whether the owner has a forest."""
        return forest_id(self._db, self._tenant, owner) is not None

    def spent_on(self, by: CostBy, which: CostFilter) -> list[SpentOn]:
        """Spending by one thing: days in order, all else the dearest first."""
        name, owner = _NAMES[by]
        statement = (
            sa.select(name.label("name"), owner.label("owner"), *_SUMS)
            .select_from(m.LlmCall)
            .outerjoin(m.Forest, sa.and_(m.Forest.tenant_id == _CALL.tenant_id, m.Forest.forest_id == _CALL.forest_id))
            .outerjoin(
                m.Session, sa.and_(m.Session.tenant_id == _CALL.tenant_id, m.Session.session_id == _CALL.session_id)
            )
            .where(_CALL.tenant_id == self._tenant)
            .group_by(sa.text("1, 2"))
            .order_by(
                *([] if by is CostBy.DAY else [sa.desc("cost_usd"), sa.desc("prompt_tokens"), sa.desc("calls")]),
                sa.text("1, 2"),
            )
        )
        if which.since is not None:
            statement = statement.where(_CALL.at >= which.since)
        if which.until is not None:
            statement = statement.where(_CALL.at < which.until)
        if which.owner is not None:
            statement = statement.where(m.Forest.owner == which.owner)
        return [SpentOn(row.name, row.owner, _spent(row)) for row in self._db.execute(statement)]


class OverviewStore:
    """Opens watching transactions, and looks across tenants at numbers."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    @contextmanager
    def watching(self, tenant: TenantId) -> Iterator[OverviewRows]:
        """One transaction of a tenant."""
        with tenant_transaction(self._engine, tenant) as connection:
            yield OverviewRows(connection, tenant)

    def backlog(self) -> list[QueueDepth]:
        """What waits, of all tenants. Raises StoreUnavailable, InvalidSettings."""
        with transaction(self._engine) as connection:
            return _backlog(connection, None)

    def workers(self, dead_after_s: float) -> list[WorkerBeat]:
        """Enlisted workers, as ``OverviewRows.workers``. Raises StoreUnavailable, InvalidSettings."""
        with transaction(self._engine) as connection:
            return _workers(connection, dead_after_s)

    def fills(self, tenants: Sequence[TenantId], limit: int) -> dict[TenantId, float]:
        """Cells that wait for extraction, as a share of those that may: the tenant's own limit, or else ``limit``.

        Counted as ``enqueue`` counts them, which refuses from 1 on. Raises StoreUnavailable.
        """
        found: dict[TenantId, float] = {}
        for tenant in tenants:
            with tenant_transaction(self._engine, tenant) as connection:
                rows = AcceptRows(connection, tenant)
                most = rows.limits().max_waiting_cells or limit
                found[tenant] = rows.waiting_cells(most + 1).cells / most
        return found
