"""Several statements in one message to Postgres, and their rows in one message back.

psycopg's own pipeline sends each statement by itself, and polls after each for an answer: a recall of 33
statements made 87 such calls. This one uses the parts that psycopg's cursors are made of (``Connection.pgconn``,
``psycopg.generators`` and ``psycopg.adapt``), and caches for each connection what it has prepared and how values and
rows are written and read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import count
from typing import Any, NamedTuple

import psycopg
import sqlalchemy as sa
from psycopg import generators
from psycopg.abc import Buffer, PQGen
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import InvalidSqlStatementName, error_from_result
from psycopg.pq import ConnStatus, ExecStatus, Format
from psycopg.pq.abc import PGconn, PGresult
from sqlalchemy.dialects.postgresql.psycopg import dialect

Rows = list[tuple[Any, ...]]
Statement = tuple["Wording", Mapping[str, object]]
"""What to run, and its values by name."""

MOST_PREPARED = 200
"""Prepared statements of a connection; reads have some 60. Further ones are planned each time."""

DIALECT: sa.Dialect = dialect(paramstyle="numeric_dollar")  # type: ignore[no-untyped-call]
_Key = tuple[bytes, tuple[int, ...]]
"""A statement with the types of its values, by their numbers in Postgres."""


class Wording(NamedTuple):
    """A statement as Postgres takes it, with $1, $2 instead of the values that are named in this order."""

    text: str
    sent: bytes
    names: tuple[str, ...]


@lru_cache(maxsize=256)
def wording(statement: sa.TextClause) -> Wording:
    """A statement with :names of values."""
    compiled = statement.compile(dialect=DIALECT)
    return Wording(compiled.string, compiled.string.encode(), tuple(compiled.positiontup or ()))


class Pipelines:
    """Runs statements on one connection, which nobody else uses meanwhile and which is in no transaction."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._adapt = Transformer(connection)
        self._prepared: dict[_Key, bytes] = {}
        self._names = map(b"memforest_%d".__mod__, count())

    def rows(self, statements: Sequence[Statement], *, prepared: bool) -> list[Rows]:
        """The rows of each statement, all in one transaction of their own; a statement sees what is committed when it
        begins. With ``prepared`` the connection caches their plans, unless a pooler is between.

        Raises psycopg.Error: of the first statement that failed, after which none has done anything.
        """
        try:
            return self._run(statements, prepared)
        except InvalidSqlStatementName:
            # The driver gives back all that is prepared on its connection after a transaction that was rolled back.
            self._prepared.clear()
            return self._run(statements, prepared)

    def _run(self, statements: Sequence[Statement], prepared: bool) -> list[Rows]:
        wire = self._connection.pgconn
        caches = prepared and self._connection.prepare_threshold is not None
        written = [self._written(*statement) for statement in statements]
        fresh: dict[_Key, bytes] = {}
        parts: list[_Key | None] = []
        wire.enter_pipeline_mode()
        try:
            for key, given, formats in written:
                name = self._prepared.get(key) or fresh.get(key) if caches else None
                if name is None and caches and len(self._prepared) + len(fresh) < MOST_PREPARED:
                    name = fresh[key] = next(self._names)
                    wire.send_prepare(name, *key)
                    parts.append(key)
                if name is None:
                    wire.send_query_params(key[0], given, key[1], formats, Format.BINARY)
                else:
                    wire.send_query_prepared(name, given, formats, Format.BINARY)
                parts.append(None)
            wire.pipeline_sync()
            results = self._connection.wait(_answers(wire, len(parts)))
        finally:
            _leave(wire)
        for prepares, result in zip(parts, results, strict=True):
            if result.status == ExecStatus.FATAL_ERROR:
                raise error_from_result(result, encoding=self._adapt.encoding)
            if prepares is not None:
                self._prepared[prepares] = fresh[prepares]
        return [self._read(result) for prepares, result in zip(parts, results, strict=True) if prepares is None]

    def _written(self, statement: Wording, values: Mapping[str, object]) -> tuple[_Key, Sequence[Buffer | None], Any]:
        given = [values[name] for name in statement.names]
        dumped = self._adapt.dump_sequence(given, [PyFormat.AUTO] * len(given))
        return (statement.sent, self._adapt.types or ()), dumped, self._adapt.formats

    def _read(self, result: PGresult) -> Rows:
        self._adapt.set_pgresult(result)
        try:
            return self._adapt.load_rows(0, result.ntuples, tuple)
        finally:
            self._adapt.set_pgresult(None)


def _answers(wire: PGconn, parts: int) -> PQGen[list[PGresult]]:
    """Send what was written and read the result of each part; what follows a part that failed has one too."""
    yield from generators.send(wire)
    results: list[PGresult] = []
    for _ in range(parts):
        results += yield from generators.fetch_many(wire)
    yield from generators.fetch_many(wire)
    return results


def _leave(wire: PGconn) -> None:
    """End the pipeline, or the connection when answers are left in it, as after an interrupt."""
    if wire.status == ConnStatus.OK:
        try:
            wire.exit_pipeline_mode()
        except psycopg.OperationalError:
            wire.finish()
