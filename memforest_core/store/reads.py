"""Reads that go to Postgres together: statements in one round trip, and rows as the driver makes them.

SQLAlchemy takes three times as long for a small statement, and each question to Postgres costs another wait. What
changes anything, or reads under a lock, is a transaction (``store/engine.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, TypeVar, cast, overload

import psycopg
import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.dialects.postgresql.psycopg import dialect

from memforest_core.domain.ids import TenantId
from memforest_core.store.engine import SHIFTED, statement_timeout, store_errors, tenant_transaction

Rows = list[tuple[Any, ...]]
T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class Read(Generic[T]):
    """A statement with its values, and what is made of its rows; of ``None`` for a statement, what is made of none."""

    statement: sa.TextClause | None
    values: Mapping[str, object]
    made: Callable[[Rows], T]


class Reader:
    """Reads of one tenant, each call in a short transaction of its own: nothing is held between two of them.

    A statement sees what was committed when it began, as in a transaction that reads committed rows. ``by_ids``: the
    statements look rows up by their ids, so that each connection plans each of them once, and never to read a whole
    table: planning them anew takes Postgres as long as some of them.
    """

    def __init__(self, engine: sa.Engine, tenant: TenantId, *, by_ids: bool = False) -> None:
        self._engine = engine
        self._tenant = tenant
        self._begin = _BEGIN_BY_IDS if by_ids else _BEGIN

    def one(self, read: Read[T]) -> T:
        """What one statement finds. Raises StoreUnavailable."""
        [found] = self._all([read])
        made: T = found
        return made

    @overload
    def together(self, first: Read[A], second: Read[B], /) -> tuple[A, B]: ...
    @overload
    def together(self, first: Read[A], second: Read[B], third: Read[C], /) -> tuple[A, B, C]: ...
    @overload
    def together(self, first: Read[A], second: Read[B], third: Read[C], fourth: Read[D], /) -> tuple[A, B, C, D]: ...
    @overload
    def together(
        self, first: Read[A], second: Read[B], third: Read[C], fourth: Read[D], fifth: Read[E], /
    ) -> tuple[A, B, C, D, E]: ...
    def together(self, *reads: Read[Any]) -> tuple[Any, ...]:
        """What several statements find, in one round trip. Raises StoreUnavailable."""
        return tuple(self._all(reads))

    def _all(self, reads: Sequence[Read[Any]]) -> list[Any]:
        sent = [(driver_text(read.statement), read.values) for read in reads if read.statement is not None]
        found = iter(self._found(sent) if sent else ())
        return [read.made([] if read.statement is None else next(found)) for read in reads]

    def _found(self, sent: Sequence[tuple[str, Mapping[str, object]]]) -> list[Rows]:
        with store_errors():
            try:
                return self._sent(sent)
            except exc.DBAPIError as error:
                if not error.connection_invalidated or getattr(error.orig, "sqlstate", None) in SHIFTED:
                    raise
            # It was lost in the pool, perhaps all of them were: a transaction begins on one that is there.
            with tenant_transaction(self._engine, self._tenant):
                pass
            return self._sent(sent)

    def _sent(self, sent: Sequence[tuple[str, Mapping[str, object]]]) -> list[Rows]:
        """The rows of each statement. Postgres takes what one pipeline sends for one transaction."""
        begin = (self._begin, {"tenant": self._tenant, "most": statement_timeout(self._engine)})
        with self._engine.connect() as connection:
            driver = cast("psycopg.Connection[Any]", connection.connection.driver_connection)
            driver.autocommit = True
            try:
                with driver.pipeline():
                    cursors = [_run(connection, driver, *each) for each in (begin, *sent)]
                return [cursor.fetchall() for cursor in cursors[1:]]
            except psycopg.Error as error:
                lost = driver.closed or error.sqlstate in SHIFTED
                if lost:
                    connection.invalidate(error)
                raise _as_sqlalchemy(error, lost=lost) from None
            finally:
                if not driver.closed:
                    driver.autocommit = False


def _run(
    connection: sa.Connection, driver: psycopg.Connection[Any], statement: str, values: Mapping[str, object]
) -> psycopg.Cursor[Any]:
    cursor = driver.cursor(binary=True)
    # Who listens to the engine's statements hears of these too.
    connection.engine.dispatch.before_cursor_execute(connection, cursor, statement, values, None, False)
    return cursor.execute(statement.encode(), values)


def _as_sqlalchemy(error: psycopg.Error, *, lost: bool) -> exc.DBAPIError:
    """The error as SQLAlchemy raises it, without statement and values: those are conversation text."""
    made = exc.DBAPIError.instance(
        None, None, error, psycopg.Error, hide_parameters=True, connection_invalidated=lost, dialect=_DIALECT
    )
    return cast(exc.DBAPIError, made)


# What of store/engine.py's settings concerns reads: they take no locks, and nothing waits between them.
_BEGIN = """
    SELECT set_config('memforest.tenant', %(tenant)s, true), set_config('statement_timeout', %(most)s, true),
           set_config('timezone', 'UTC', true), set_config('jit', 'off', true)
    """
# A plan that was made while a table was small must not read all of it once it has grown.
_BEGIN_BY_IDS = f"""{_BEGIN.rstrip()},
           set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true)
    """

_DIALECT: sa.Dialect = dialect()  # type: ignore[no-untyped-call]


@lru_cache(maxsize=256)
def driver_text(statement: sa.TextClause) -> str:
    """A statement as the driver wants it, with %(names)s in the place of :names."""
    return str(statement.compile(dialect=_DIALECT))
