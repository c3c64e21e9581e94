"""VACUUM of the tables with tenants' rows: as a task of the service role, and by the owner at once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal
from uuid import uuid4

import sqlalchemy as sa

from memforest_core.domain.ids import TenantId
from memforest_core.errors import InvalidSettings
from memforest_core.settings import DatabaseSettings
from memforest_core.store.engine import autocommitting, store_errors, tenant_transaction, transaction
from memforest_core.store.schema import opened_owner
from memforest_core.store.tables import SCHEMA, Base

MARGIN_S = 30.0
"""A task begins at least so long after it was requested, so that the requesting operation has ended by then."""

# The end of a span of time is the task's subject: one that has begun is never requested once more.
_REQUEST = sa.text("""
    INSERT INTO memforest.maintenance (tenant_id, task_id, kind, subject, arguments, lane, available_at)
    SELECT :t, :id, 'vacuum', due::bigint::text,
           jsonb_build_object('after', CAST(CAST(pg_current_xact_id() AS text) AS bigint)), 1, to_timestamp(due)
      FROM (SELECT ceil((extract(epoch FROM clock_timestamp()) + :margin) / :every) * :every) AS span (due)
        ON CONFLICT (tenant_id, kind, subject) WHERE state IN ('held', 'ready', 'running')
        DO UPDATE SET arguments = excluded.arguments
""")

TABLES = sorted(f"{SCHEMA}.{table.name}" for table in Base.metadata.tables.values() if "tenant_id" in table.c)
"""The tables that hold a tenant's rows."""

# Both columns may be read by everybody; a session without either delays no vacuum. A number that is still to come is
# one of the server that a backup or a move brought the task from.
_HELD_BACK = sa.text("""
    SELECT CAST(:after AS xid8) < pg_snapshot_xmax(pg_current_snapshot())
       AND EXISTS (SELECT 1 FROM pg_stat_activity
                    WHERE pid <> pg_backend_pid() AND (datid IS NULL OR datname = current_database())
                      AND greatest(age(backend_xid), age(backend_xmin)) >= age(CAST(CAST(:after AS xid8) AS xid)))
""")

_MAY = sa.text("""
    SELECT CASE WHEN current_setting('server_version_num')::int >= 170000
                THEN has_table_privilege(CAST(:name AS text), 'MAINTAIN')
                ELSE pg_has_role(relowner, 'USAGE') END
      FROM pg_class WHERE oid = CAST(:name AS regclass)
""")

# VACUUM skips what it may not or can't have, with a warning: that it was done is seen by its time.
_LAST = sa.text("SELECT max(last_vacuum) FROM pg_stat_all_tables WHERE relid = CAST(:name AS regclass)")

_OWNS_DATABASE = sa.text("SELECT pg_has_role(datdba, 'USAGE') FROM pg_database WHERE datname = current_database()")

_DONE_SINCE = sa.text("""
    SELECT EXISTS (SELECT 1 FROM memforest.maintenance
                    WHERE tenant_id = :t AND kind = 'vacuum' AND state = 'done'
                      AND CAST(subject AS bigint) >= extract(epoch FROM CAST(:moment AS timestamptz))
                      AND coalesce(CAST(progress ->> 'skipped' AS int), 0) = 0)
""")


Vacuumed = Literal["vacuumed", "skipped", "busy"]
"""What became of a table: the role may not (before Postgres 17 only owners can), or another vacuum or DDL has it."""


def request_vacuum(engine: sa.Engine, tenant: TenantId, every_s: float) -> None:
    """Request a vacuum of all tables at the end of the span of ``every_s`` seconds, one task for all its deletions."""
    with tenant_transaction(engine, tenant) as connection:
        connection.execute(_REQUEST, {"t": tenant, "id": uuid4(), "every": every_s, "margin": min(MARGIN_S, every_s)})


def held_back(engine: sa.Engine, transaction_id: int) -> bool:
    """Whether an open transaction is older than this one, so that the rows that this one deleted stay for it."""
    with transaction(engine) as connection:
        return bool(connection.scalar(_HELD_BACK, {"after": str(transaction_id)}))


def vacuum(engine: sa.Engine, name: str) -> Vacuumed:
    """Vacuum one of ``TABLES`` and its indexes, outside of a transaction and without waiting for a lock."""
    with store_errors(), autocommitting(engine) as connection:
        if not connection.scalar(_MAY, {"name": name}):
            return "skipped"
        before = connection.scalar(_LAST, {"name": name})
        # The entries of indexes go too, however few they are.
        connection.exec_driver_sql(f"VACUUM (INDEX_CLEANUP ON, SKIP_LOCKED) {name}")
        return "busy" if connection.scalar(_LAST, {"name": name}) == before else "vacuumed"


def vacuumed_since(engine: sa.Engine, tenant: TenantId, moment: datetime) -> bool:
    """Whether all tables were vacuumed by a task that began after this moment. Raises StoreUnavailable."""
    with tenant_transaction(engine, tenant) as connection:
        return bool(connection.scalar(_DONE_SINCE, {"t": tenant, "moment": moment}))


def vacuum_now(settings: DatabaseSettings, *, full: bool) -> Sequence[str]:
    """Vacuum all tables with tenants' rows as their owner; the names of those tables.

    ``full`` rewrites each table and its indexes, so that no byte of a deleted row is left in their files, and the
    planner's statistics too if the role owns the database; meanwhile the table can't be read or written. Raises
    InvalidSettings for a role that may not vacuum, StoreUnavailable.
    """
    with opened_owner(settings) as engine, store_errors(), autocommitting(engine) as connection:
        if not all(connection.scalar(_MAY, {"name": name}) for name in TABLES):
            raise InvalidSettings("Name the owner of the tables in MEMFOREST_DATABASE__MIGRATION_URL.")
        statistics = ["pg_catalog.pg_statistic"] if full and connection.scalar(_OWNS_DATABASE) else []
        for name in (tables := [*TABLES, *statistics]):
            connection.exec_driver_sql(f"VACUUM ({'FULL' if full else 'INDEX_CLEANUP ON'}) {name}")
    return tables
