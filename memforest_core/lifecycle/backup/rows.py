"""Copies all rows of the database out of one snapshot, and into an empty database in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import cast

import psycopg
import sqlalchemy as sa
from psycopg import sql

from memforest_core.errors import InvalidSettings, InvariantViolated, StoreUnavailable
from memforest_core.lifecycle.backup.files import Block
from memforest_core.lifecycle.erase.service import RequestedErasure
from memforest_core.store import tables as m
from memforest_core.store.engine import (
    NO_TENANT,
    server_time,
    server_version,
    tenant_transaction,
    transaction,
    unhurried,
)
from memforest_core.store.refusals import OWNER
from memforest_core.store.schema import NOTE, current_revision, hold_back_upgrades

LEFT_OUT = frozenset({"worker", "migration"})
"""Tables whose rows belong to a server and not to its memory: live processes, and what an upgrade notes."""
MADE_AT_START = frozenset({"collection"})
"""Tables that a worker writes into before there is any memory: the backup's rows take their place."""

_ACROSS = sa.text("SELECT set_config('memforest.across', 'on', true)")
_OWNED = sa.text("""
    SELECT bool_and(pg_has_role(c.relowner, 'USAGE')) FROM pg_class c
     WHERE c.relnamespace = 'memforest'::regnamespace AND c.relkind = 'r'
    """)
_REQUESTED = sa.text("""
    SELECT k.tenant_id AS tenant, k.task_id AS task, k.created_at AS asked_at, k.actor, k.forest_id AS forest,
           k.arguments, (SELECT encode(a.owner_hash, 'hex') FROM memforest.audit a
             WHERE a.tenant_id = k.tenant_id AND a.forest_id = k.forest_id AND a.task_id = k.task_id
               AND a.owner_hash IS NOT NULL LIMIT 1) AS owner_hash
      FROM memforest.maintenance k
     WHERE k.kind = 'erase' AND k.cancelled_by IS NULL AND NOT k.arguments ? 'dry_run'
     ORDER BY k.sequence
    """)
_IDENTITIES = sa.text("""
    SELECT c.relname AS name, a.attname AS attribute FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
     WHERE c.relnamespace = 'memforest'::regnamespace AND a.attidentity <> '' AND NOT a.attisdropped
    """)
_GO_ON = sa.text("""
    SELECT setval(s.name, :highest)
      FROM (SELECT CAST(pg_get_serial_sequence(:table, :attribute) AS regclass) AS name) s
     WHERE nextval(s.name) < :highest
    """)
# What is erased next has a version above that of its point: a deletion waits for what is below the next number.
_NEWER_POINTS = sa.text("""
    SELECT setval('memforest.point_version', p.highest)
      FROM (SELECT max(version) AS highest FROM memforest.index_row) p
     WHERE nextval('memforest.point_version') < p.highest
    """)


def saved_tables() -> list[tuple[str, tuple[str, ...]]]:
    """Each table that a backup has with its columns, parents first: all but what the database computes itself."""
    return [
        (table.name, tuple(each.name for each in table.c if each.computed is None))
        for table in m.Base.metadata.sorted_tables
        if table.name not in LEFT_OUT
    ]


class Snapshot:
    """All tenants' rows as they were at one moment; use ``opened``."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        self.revision = current_revision(connection)
        self.at: datetime = server_time(connection)
        self.postgres = server_version(connection)

    @classmethod
    @contextmanager
    def opened(cls, engine: sa.Engine) -> Iterator[Snapshot]:
        """One read-only transaction; upgrades of the schema wait for its end, and writers do not.

        Raises InvalidSettings for a role that does not own the tables (it would see no row), StoreUnavailable.
        """
        options = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        with tenant_transaction(engine, NO_TENANT, **options) as connection:
            unhurried(connection)
            hold_back_upgrades(connection)
            if not connection.scalar(_OWNED):
                raise InvalidSettings(
                    f"Only the owner of MemForest's tables sees all rows: set {OWNER} to its address."
                )
            connection.execute(_ACROSS)
            yield cls(connection)

    def read(self, name: str, columns: Sequence[str]) -> Iterator[Block]:
        """A table's rows in Postgres' binary format."""
        statement = sql.SQL("COPY (SELECT {} FROM {}) TO STDOUT (FORMAT binary)").format(_names(columns), _table(name))
        with copying(), cursor_of(self._connection).copy(statement) as copy:
            yield from copy

    def erasures(self) -> list[RequestedErasure]:
        return [RequestedErasure(**row._mapping) for row in self._connection.execute(_REQUESTED)]

    def count(self, name: str) -> int:
        return int(self._connection.scalar(sa.select(sa.func.count()).select_from(_any(name))) or 0)


class Loading:
    """One transaction that fills an empty database; use ``opened``."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    @classmethod
    @contextmanager
    def opened(cls, engine: sa.Engine) -> Iterator[Loading]:
        """Commits at the end, all or nothing. Raises StoreUnavailable."""
        with transaction(engine) as connection:
            unhurried(connection)
            connection.execute(_ACROSS)
            yield cls(connection)

    def first_with_rows(self, names: Iterable[str]) -> str | None:
        """The first of these tables that is not empty; those that workers write into at their start do not count."""
        for name in names:
            if name not in MADE_AT_START and self._connection.scalar(sa.select(sa.exists().select_from(_any(name)))):
                return name
        return None

    def load(self, name: str, columns: Sequence[str], blocks: Iterable[bytes]) -> int:
        """Copy rows into a table; how many. Nobody else reads it until the commit."""
        of_tenants = "tenant_id" in columns
        if of_tenants:
            # Row-level security binds the owner too, and COPY does not go through its policies.
            self._run(sql.SQL("ALTER TABLE {} NO FORCE ROW LEVEL SECURITY"), name)
        if name in MADE_AT_START:
            self._run(sql.SQL("DELETE FROM {}"), name)
        statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT binary)").format(_table(name), _names(columns))
        with copying():
            cursor = cursor_of(self._connection)
            with cursor.copy(statement) as copy:
                for block in blocks:
                    copy.write(block)
        if of_tenants:
            self._run(sql.SQL("ALTER TABLE {} FORCE ROW LEVEL SECURITY"), name)
        return cursor.rowcount

    def go_on_counting(self) -> None:
        """Let identity columns and points' versions go on after the highest that was loaded, and never go back."""
        self._connection.execute(_NEWER_POINTS)
        for name, attribute in self._connection.execute(_IDENTITIES).all():
            column: sa.ColumnClause[int] = sa.column(attribute)
            highest = self._connection.scalar(sa.select(sa.func.max(column)).select_from(_any(name)))
            if highest is not None:
                values = {"table": f"{m.SCHEMA}.{name}", "attribute": attribute, "highest": highest}
                self._connection.execute(_GO_ON, values)

    def note(self, note: str) -> None:
        """Note on the schema which backup it was loaded from, until the restore is done."""
        statement = sql.SQL("COMMENT ON SCHEMA memforest IS {}").format(sql.Literal(note))
        cursor_of(self._connection).execute(statement)

    def _run(self, statement: sql.SQL, name: str) -> None:
        with copying():
            cursor_of(self._connection).execute(statement.format(_table(name)))


def found_state(engine: sa.Engine) -> tuple[str | None, str | None]:
    """The schema's revision, None without tables; the backup of a restore that has loaded rows and not ended."""
    with transaction(engine) as connection:
        revision = current_revision(connection)
        note = None if revision is None else connection.scalar(NOTE)
    return revision, None if note is None else str(note)


def clear_note(engine: sa.Engine) -> None:
    """The restore is done."""
    with transaction(engine) as connection:
        connection.execute(sa.text("COMMENT ON SCHEMA memforest IS NULL"))


def cursor_of(connection: sa.Connection) -> psycopg.Cursor[tuple[object, ...]]:
    """The driver's own cursor in the transaction of a connection."""
    driver = cast("psycopg.Connection[tuple[object, ...]]", connection.connection.driver_connection)
    return driver.cursor()


def _any(name: str) -> sa.TableClause:
    return sa.table(name, schema=m.SCHEMA)


def _table(name: str) -> sql.Composable:
    return sql.Identifier(m.SCHEMA, name)


def _names(columns: Sequence[str]) -> sql.Composable:
    return sql.SQL(", ").join(map(sql.Identifier, columns))


@contextmanager
def copying() -> Iterator[None]:
    """Driver errors as ours: they may quote a row."""
    try:
        yield
    except psycopg.OperationalError as error:
        raise StoreUnavailable(f"Postgres broke off the copy ({error.sqlstate or 'connection lost'}).") from None
    except psycopg.Error as error:
        raise InvariantViolated(f"Postgres refused the copy ({error.sqlstate}).") from None
