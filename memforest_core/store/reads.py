"""Reads that go to Postgres together: statements in one round trip, and rows as the driver makes them.

SQLAlchemy takes three times as long for a small statement, and each question to Postgres costs another wait. What
changes anything, or reads under a lock, is a transaction (``store/engine.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Generic, TypeVar, cast, overload

import psycopg
import sqlalchemy as sa
from sqlalchemy import exc

from memforest_core.domain.ids import TenantId
from memforest_core.store.engine import (
    SHIFTED,
    UNLESS_MOVED,
    Answering,
    limit_answers,
    statement_timeout,
    store_errors,
    tenant_transaction,
    was_lost,
)
from memforest_core.store.pipelines import DIALECT, Pipelines, Statement, wording
from memforest_core.store.pipelines import Rows as Rows

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")


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
    table: planning them each time takes Postgres as long as some of them.
    """

    def __init__(self, engine: sa.Engine, tenant: TenantId, *, by_ids: bool = False) -> None:
        self._engine = engine
        self._tenant = tenant
        self._by_ids = by_ids
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
    def together(self, *reads: Read[Any]) -> tuple[Any, ...]:
        """What several statements find, in one round trip. Raises StoreUnavailable."""
        return tuple(self._all(reads))

    def _all(self, reads: Sequence[Read[Any]]) -> list[Any]:
        sent = [(wording(read.statement), read.values) for read in reads if read.statement is not None]
        found = iter(self._found(sent) if sent else ())
        return [read.made([] if read.statement is None else next(found)) for read in reads]

    def _found(self, sent: Sequence[Statement]) -> list[Rows]:
        with store_errors():
            try:
                return self._sent(sent)
            except exc.DBAPIError as error:
                if not was_lost(error):
                    raise
            # It was lost in the pool, perhaps all of them were: a transaction begins on one that is there.
            with tenant_transaction(self._engine, self._tenant):
                pass
            return self._sent(sent)

    def _sent(self, sent: Sequence[Statement]) -> list[Rows]:
        """The rows of each statement. Postgres takes what one pipeline sends for one transaction."""
        begin = {"tenant": self._tenant, "most": statement_timeout(self._engine)}
        statements = [(wording(self._begin), begin), *sent]
        try:
            # A connection of SQLAlchemy's own takes a third of the time of such a call.
            pooled = self._engine.raw_connection()
        except psycopg.Error as error:
            raise _as_sqlalchemy(error, lost=False) from None
        with closing(pooled) as connection:
            driver = cast(Answering, connection.driver_connection)
            limit_answers(self._engine, driver)
            # Who listens to the engine's statements, as Sentry does, hears of these too, each in a context.
            heard, dispatch = sa.Connection(self._engine, pooled), self._engine.dispatch
            events = [
                (heard, None, words.text, values, SimpleNamespace(dialect=self._engine.dialect), False)
                for words, values in statements
            ]
            for each in events:
                dispatch.before_cursor_execute(*each)
            pipelines: Pipelines | None = connection.info.get(_PIPELINES)
            if pipelines is None:
                pipelines = connection.info[_PIPELINES] = Pipelines(driver)
            try:
                return pipelines.rows(statements, prepared=self._by_ids)[1:]
            except psycopg.Error as error:
                lost = driver.closed or error.sqlstate in SHIFTED
                if lost:
                    connection.invalidate(error)
                raise _as_sqlalchemy(error, lost=lost) from None
            finally:
                for each in reversed(events):
                    dispatch.after_cursor_execute(*each)


def _as_sqlalchemy(error: psycopg.Error, *, lost: bool) -> exc.DBAPIError:
    """The error as SQLAlchemy raises it, without statement and values: those are conversation text."""
    made = exc.DBAPIError.instance(
        None, None, error, psycopg.Error, hide_parameters=True, connection_invalidated=lost, dialect=DIALECT
    )
    return cast(exc.DBAPIError, made)


_PIPELINES = "memforest_pipelines"

# What of store/engine.py's settings concerns reads: they take no locks, and nothing waits between them.
_SETTINGS = f"""
    SELECT set_config('memforest.tenant', :tenant, true), set_config('statement_timeout', :most, true),
           set_config('timezone', 'UTC', true), set_config('jit', 'off', true), {UNLESS_MOVED.format(":tenant")}
    """
# A plan that was made while a table was small must not read all of it once it has grown.
_SETTINGS_BY_IDS = f"""{_SETTINGS.rstrip()},
           set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true)
    """
_BEGIN, _BEGIN_BY_IDS = sa.text(_SETTINGS), sa.text(_SETTINGS_BY_IDS)
