"""Connections: how this process reaches Postgres, and how its errors become ours."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeVar, cast
from uuid import UUID
from weakref import WeakKeyDictionary

import psycopg
import sqlalchemy as sa
from psycopg.abc import Buffer, PQGen
from psycopg.types.array import ListDumper
from psycopg.types.json import Jsonb
from sqlalchemy import Connection as Connection
from sqlalchemy import Engine as Engine
from sqlalchemy import event, exc

from memforest_core.domain.forks import abandon, in_child
from memforest_core.domain.ids import TenantId
from memforest_core.errors import InvalidSettings, InvariantViolated, StoreContended, StoreUnavailable, TenantMoved
from memforest_core.settings import DatabaseSettings
from memforest_core.store.deadlines import is_patient, seconds_left
from memforest_core.store.refusals import OWNER, SERVICE, refusal

_TEXTS = {str, type(None)}
_QUOTED = re.compile(r'^$|["{},\\\s]|^null$', re.ASCII | re.IGNORECASE)
"""Texts that stand in quotes in a list."""


class PlainLists(ListDumper):
    """Writes whole lists at once: five times as fast as item by item, of texts ten times; the same bytes."""

    def dump(self, obj: list[Any]) -> Buffer | None:
        kinds = set(map(type, obj))
        if kinds == {UUID}:
            return f"{{{','.join([f'{item.int:032x}' for item in obj])}}}".encode()
        if kinds == {int}:
            return f"{{{','.join(map(str, obj))}}}".encode()
        if kinds == {bytes}:
            return ("{" + ",".join([f'"\\\\x{item.hex()}"' for item in obj]) + "}").encode()
        if kinds == {Jsonb}:
            return self._texts([(item.dumps or json.dumps)(item.obj) for item in obj])
        if kinds <= _TEXTS and kinds:
            return self._texts(obj)
        return super().dump(obj)

    def _texts(self, obj: list[str | None]) -> Buffer | None:
        written = f"{{{','.join(map(_text, obj))}}}"
        # No text of Postgres has a NUL: the driver says so in its own error.
        return super().dump(obj) if "\0" in written else written.encode(self._encoding)

    @property
    def _encoding(self) -> str:
        return self.connection.info.encoding if self.connection is not None else "utf-8"


def _text(item: str | None) -> str:
    if item is None:
        return "NULL"
    if _QUOTED.search(item) is None:
        return item
    return '"' + item.replace("\\", "\\\\").replace('"', '\\"') + '"'


RV = TypeVar("RV")


class NoAnswer(psycopg.OperationalError):
    """Postgres did not answer in time; the connection is closed."""


class Answering(psycopg.Connection[Any]):
    """A connection that waits ``answer_s`` seconds for an answer, and never beyond the end of ``deadlines.within``.

    The server's own timeouts end a long statement; this one ends the wait for a server that does nothing any more.
    """

    answer_s: float | None = None
    """None waits for ever."""

    def wait(self, gen: PQGen[RV], *args: Any, **kwargs: Any) -> RV:
        """As psycopg, which calls it for all that it sends and reads after it has connected. Raises NoAnswer."""
        if self.answer_s is None:
            return super().wait(gen, *args, **kwargs)
        return super().wait(self._bounded(gen, min(self.answer_s, seconds_left())), *args, **kwargs)

    def _bounded(self, gen: PQGen[RV], most_s: float) -> PQGen[RV]:
        deadline = time.monotonic() + most_s
        try:
            wanted = next(gen)
            while True:
                # psycopg resumes it at least each tenth of a second.
                ready = yield wanted
                if not ready and time.monotonic() >= deadline:
                    self.pgconn.finish()
                    raise NoAnswer(
                        f"Postgres did not answer within {most_s:.1f} s: look whether its server hangs or the network"
                        " drops packets (see MEMFOREST_DATABASE__ANSWER_TIMEOUT_S)."
                    )
                wanted = gen.send(ready)
        except StopIteration as ended:
            result: RV = ended.value
            return result


SERIALIZATION_FAILURE = "40001"
DEADLOCK = "40P01"
LOCK_TIMEOUT = "55P03"
STATEMENT_TIMEOUT = "57014"
INSUFFICIENT_PRIVILEGE = "42501"
UNDEFINED_TABLE = "42P01"
UNDEFINED_SCHEMA = "3F000"
MOVED = "MF001"
"""Of ``memforest.refuse_moved``."""
MOVED_S = 5.0
"""When to try again what a move refused: what changes last is copied in some seconds."""
CONTENDED = {SERIALIZATION_FAILURE, DEADLOCK, LOCK_TIMEOUT}
TRANSIENT = {*CONTENDED, STATEMENT_TIMEOUT}

PREPARED_STATEMENT_GONE = "26000"
PREPARED_STATEMENT_TAKEN = "42P05"
SHIFTED = {PREPARED_STATEMENT_GONE, PREPARED_STATEMENT_TAKEN}
"""SQL states that show a transaction pooler: a statement prepared in one server session is missing in the next."""

PREPARE_THRESHOLD: Final = 5
"""Runs of a statement until psycopg prepares it (its default)."""
NO_TENANT: Final = TenantId("")
"""A transaction that is bound to it sees no rows: no tenant may have this name."""
_LIMITS: Final = "memforest_limits"
"""The execution option under which an engine has the settings of its transactions."""

_ANSWERS: Final = "memforest_answers"
"""The execution option with the seconds to wait for an answer: of a library call, and of a worker."""
SLOWEST_END_S: Final = 5.0
"""Seconds after a statement's timeout within which Postgres has said so."""
KEEPALIVES: Final = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}

UNLESS_MOVED = """(SELECT memforest.refuse_moved(place, move_id) FROM memforest.moved_tenant
             WHERE tenant = {} AND place IS NOT NULL)"""
"""Refuses a transaction of one whose rows another database has or gets."""

_BIND_TENANT = sa.text(f"SELECT set_config('memforest.tenant', :tenant, true), {UNLESS_MOVED.format(':tenant')}")

# One statement, and for the transaction only: a pooler passes no start options on, and gives the next transaction
# another session. Months and days are cut in UTC; compiling plans costs more than it saves here. After rows that were
# sent in a pipeline (executemany) Postgres does not count the time that a session is idle: from version 17 on the time
# of the whole transaction ends the locks of a process that is stopped there. In the driver's words: it is a fifth of
# all statements, and SQLAlchemy's way to them costs as much again.
_BEGIN = """
    SELECT set_config('memforest.tenant', %(tenant)s, true),
           set_config('statement_timeout', %(statement_timeout)s, true),
           set_config('lock_timeout', %(lock_timeout)s, true),
           set_config('idle_in_transaction_session_timeout', '60000', true),
           set_config('timezone', 'UTC', true),
           set_config('jit', 'off', true),
           CASE WHEN current_setting('server_version_num')::int >= 170000
                THEN set_config('transaction_timeout', '300000', true) END
    """
_BEGIN_TENANT = f"{_BEGIN.rstrip()}, {UNLESS_MOVED.format('%(tenant)s')}"
_UNHURRIED = sa.text("""
    SELECT set_config('statement_timeout', '0', true), set_config('idle_in_transaction_session_timeout', '0', true),
           CASE WHEN current_setting('server_version_num')::int >= 170000
                THEN set_config('transaction_timeout', '0', true) END
    """)

_HURRIED = sa.text("SELECT set_config('lock_timeout', :most, true)")

_DATABASE = sa.text("""
    SELECT (SELECT system_identifier FROM pg_control_system()),
           (SELECT oid FROM pg_database WHERE datname = current_database())
    """)
_databases: WeakKeyDictionary[sa.Engine, sa.Row[Any]] = WeakKeyDictionary()
"""Server and database of an engine, once they were read."""

_OTHER_SCHEMA = {"42703", "42883"}
"""A column or a function that this version knows is missing."""
_FOREIGN = {UNDEFINED_TABLE, UNDEFINED_SCHEMA}
_STRANGE_TRANSACTION = (
    "The transaction to join does not reach MemForest's tables: it must be one of the database in"
    f" {SERVICE}, of a role that is a member of memforest_service (GRANT memforest_service TO ROLE) or that memforest"
    " tenants grant ROLE TENANT has made one of single tenants."
)

TROUBLED = {
    "25006": "Postgres is read-only: connect to the primary, or switch default_transaction_read_only off",
    "53100": "Postgres has no disk space left: free some on its volume",
    "53200": "Postgres has no memory left: give its machine more, or lower its settings",
    "53300": "Postgres takes no more connections: raise max_connections or lower MEMFOREST_DATABASE__POOL_SIZE",
    "58030": "Postgres can't read or write its files: look at its log and its volume",
}
"""Errors that an operator has to fix, by SQL state; work succeeds afterwards."""


def on_statement(engine: sa.Engine, sent: Callable[[], None]) -> None:
    """Call ``sent`` before each statement, in its thread."""
    event.listen(engine, "before_cursor_execute", lambda *_: sent())


def open_engine(settings: DatabaseSettings, url: str | None = None) -> sa.Engine:
    """A pooled engine; connects lazily. Connections that are lost in the pool are replaced by ``tenant_transaction``.

    Statements are timed out in transactions of ``transaction`` and ``tenant_transaction``. Raises InvalidSettings.
    """
    try:
        parsed = sa.make_url(url or settings.url.get_secret_value())
    except (exc.ArgumentError, ValueError):
        parsed = None
    if parsed is None or parsed.get_backend_name() != "postgresql":
        raise InvalidSettings("Set MEMFOREST_DATABASE__URL to a postgresql+psycopg:// address.")
    engine = sa.create_engine(
        parsed.set(drivername="postgresql+psycopg"),
        pool_size=settings.pool_size,
        max_overflow=settings.max_overflow,
        pool_timeout=settings.answer_timeout_s,
        pool_recycle=1800,
        pool_use_lifo=True,  # The connection that was used last has its plans, and is in the processor's caches.
        # Parameters are conversation text: no error message may quote them.
        hide_parameters=True,
        connect_args={
            "connect_timeout": min(5, math.ceil(settings.answer_timeout_s)),
            **KEEPALIVES,
            # Of what was sent and is not acknowledged; a Unix socket has none.
            "tcp_user_timeout": round(1_000 * settings.answer_timeout_s),
            "application_name": "memforest",
            "prepare_threshold": PREPARE_THRESHOLD if settings.pooler == "auto" else None,
        },
        execution_options={
            _LIMITS: {
                "statement_timeout": str(settings.statement_timeout_ms),
                "lock_timeout": str(settings.lock_timeout_ms),
            },
            _ANSWERS: (settings.answer_timeout_s, settings.statement_timeout_ms / 1_000 + SLOWEST_END_S),
        },
    )
    # The rows of a plain insert go as one statement (those of an insert with ON CONFLICT would go one by one).
    engine.dialect.use_insertmanyvalues_wo_returning = True
    event.listen(engine, "do_connect", _connected)
    event.listen(engine, "connect", partial(_await_answers, settings.answer_timeout_s), insert=True)
    event.listen(engine, "connect", _send_plain_lists)
    event.listen(engine, "connect", _notice_pooler)
    event.listen(engine, "handle_error", _discard_shifted)
    in_child(engine, _leave_connections)
    return engine


def _connected(_dialect: object, _record: object, arguments: list[Any], named: dict[str, Any]) -> Answering:
    most_s = math.ceil(min(named["connect_timeout"], seconds_left()))
    return Answering.connect(*arguments, **named | {"connect_timeout": max(1, most_s)})


def _await_answers(answer_s: float, connection: Answering, _record: object) -> None:
    connection.answer_s = answer_s


def _leave_connections(engine: sa.Engine) -> None:
    """Begin with an empty pool in a forked child; the inherited connections are the parent's."""
    abandon(engine.pool)
    engine.dispose(close=False)


def _send_plain_lists(connection: psycopg.Connection[Any], _record: object) -> None:
    connection.adapters.register_dumper(list, PlainLists)


def _notice_pooler(connection: psycopg.Connection[Any], _record: object) -> None:
    """Switch prepared statements off behind a pooler: its process id is not that of the server."""
    if connection.prepare_threshold is None:
        return
    connection.autocommit = True
    found = connection.execute("SELECT pg_backend_pid()").fetchone()
    connection.autocommit = False
    if found is None or found[0] != connection.info.backend_pid:
        connection.prepare_threshold = None


def is_pooled(connection: sa.Connection) -> bool:
    """Whether a pooler is between this connection and the server, as far as can be known."""
    raw = connection.connection.dbapi_connection
    return getattr(raw, "prepare_threshold", PREPARE_THRESHOLD) is None


def _discard_shifted(context: sa.engine.ExceptionContext) -> None:
    """Close only the connection that lost its prepared statements: a new one begins without any."""
    if getattr(context.original_exception, "sqlstate", None) in SHIFTED:
        context.is_disconnect = True
        context.invalidate_pool_on_disconnect = False


def set_tenant(connection: sa.Connection, tenant: TenantId) -> None:
    """Bind the transaction to a tenant: row-level security shows that tenant's rows only.

    On a connection of this library it sets the timeouts too; a caller's own connection is left as it is.
    """
    limits = connection.get_execution_options().get(_LIMITS)
    if limits is None:
        connection.execute(_BIND_TENANT, {"tenant": tenant})
    else:
        limit_answers(connection.engine, _driven(connection))
        # Without a tenant it may be a database without tables.
        connection.exec_driver_sql(_BEGIN_TENANT if tenant else _BEGIN, {"tenant": tenant, **limits})


def limit_answers(engine: sa.Engine, connection: Answering) -> None:
    """Give this connection up when Postgres does not answer a library call or, longer, a worker in time."""
    answers: tuple[float, float] = engine.get_execution_options()[_ANSWERS]
    connection.answer_s = answers[is_patient()]


def await_answers(connection: sa.Connection) -> None:
    """Wait for each answer as long as Postgres needs, until the next transaction."""
    _driven(connection).answer_s = None


def _driven(connection: sa.Connection) -> Answering:
    return cast(Answering, connection.connection.driver_connection)


def statement_timeout(engine: sa.Engine) -> str:
    """How long a statement may take, in milliseconds."""
    limits: Mapping[str, str] = engine.get_execution_options()[_LIMITS]
    return limits["statement_timeout"]


def hurried(connection: sa.Connection, most_s: float) -> None:
    """Wait for no lock of this transaction longer than so many seconds: StoreContended then."""
    connection.execute(_HURRIED, {"most": f"{round(1_000 * most_s)}ms"})


def unhurried(connection: sa.Connection) -> None:
    """Let this transaction, its statements and the pauses between them take as long as their rows need."""
    await_answers(connection)
    connection.execute(_UNHURRIED)


def _where(error: exc.DBAPIError) -> str:
    """The state and the names of table, column and constraint: schema, never data."""
    diagnosis = getattr(error.orig, "diag", None)
    parts = [getattr(error.orig, "sqlstate", None)]
    parts += [getattr(diagnosis, name, None) for name in ("table_name", "column_name", "constraint_name")]
    return " ".join(str(part) for part in parts if part)


def _denied(error: exc.ProgrammingError) -> bool:
    """Whether a right is missing, rather than a row refused by a policy."""
    return "permission denied" in str(error.orig)


def _unavailable(error: exc.DBAPIError, variable: str) -> StoreUnavailable:
    """Why Postgres can't be used now."""
    state = getattr(error.orig, "sqlstate", None)
    if isinstance(error.orig, NoAnswer):
        return StoreUnavailable(str(error.orig))
    if state in TRANSIENT:
        return StoreUnavailable(f"Postgres aborted the transaction, which may be retried ({state}).")
    if state in TROUBLED:
        return StoreUnavailable(f"{TROUBLED[state]} ({state}).")
    return refusal(str(error.orig), variable)


@contextmanager
def store_errors(*, joined: bool = False, variable: str = SERVICE) -> Iterator[None]:
    """Turn driver errors into the taxonomy; statements and parameters stay out of the message.

    ``variable`` is the setting with the address. In a caller's own transaction (``joined``) contention is
    StoreUnavailable, because only the caller can run that again, and missing tables or rights are those of the caller.
    """
    try:
        yield
    except (exc.OperationalError, exc.InterfaceError, exc.InternalError) as error:
        state = getattr(error.orig, "sqlstate", None)
        if state in CONTENDED and not joined:
            raise StoreContended(state) from None
        raise _unavailable(error, variable) from None
    except exc.TimeoutError:
        raise StoreUnavailable(
            "All Postgres connections of this process are in use: raise MEMFOREST_DATABASE__POOL_SIZE."
        ) from None
    except exc.ProgrammingError as error:
        state = getattr(error.orig, "sqlstate", None)
        if joined and (state in _FOREIGN or (state == INSUFFICIENT_PRIVILEGE and _denied(error))):
            raise InvalidSettings(_STRANGE_TRANSACTION) from None
        if state in _OTHER_SCHEMA:
            raise InvalidSettings(
                f"The database is at the schema of another version of memforest ({state}): install that version, or run"
                f" memforest db upgrade of this one with {OWNER} set."
            ) from None
        if state in _FOREIGN:
            raise InvalidSettings(
                f"The database has no MemForest tables: run memforest db upgrade with {OWNER} set."
            ) from None
        if state == INSUFFICIENT_PRIVILEGE and _denied(error):
            raise InvalidSettings(
                f"The role in {variable} has no rights on MemForest's tables: run memforest db upgrade with"
                f" {OWNER} set to their owner's address."
            ) from None
        if state in SHIFTED:
            raise StoreUnavailable(
                f"A prepared statement was lost between two sessions ({state}): behind a transaction pooler such as"
                " PgBouncer set MEMFOREST_DATABASE__POOLER=transaction."
            ) from None
        raise InvariantViolated(f"Postgres refused a statement ({state}).") from None
    except exc.DBAPIError as error:
        if isinstance(error.orig, psycopg.Error) and error.orig.sqlstate == MOVED:
            raise TenantMoved(error.orig.diag.message_primary or "", retry_after=MOVED_S) from None
        raise InvariantViolated(f"Postgres refused a write ({_where(error)}).") from None


@contextmanager
def transaction(engine: sa.Engine) -> Iterator[sa.Connection]:
    """One transaction that is bound to no tenant and sees the rows of none; see ``tenant_transaction``."""
    with tenant_transaction(engine, NO_TENANT) as connection:
        yield connection


@contextmanager
def tenant_transaction(engine: sa.Engine, tenant: TenantId, **options: Any) -> Iterator[sa.Connection]:
    """One transaction bound to a tenant; commits on success, rolls back on any error.

    ``options`` are SQLAlchemy's of the connection, such as ``isolation_level``.
    """
    with store_errors(), _bound(engine, tenant, options) as connection:
        yield connection
        connection.commit()


def autocommitting(engine: sa.Engine) -> sa.Connection:
    """A connection for what can't run in a transaction, without timeouts. Raises the driver's errors."""
    connection = _bound(engine, NO_TENANT, {"isolation_level": "AUTOCOMMIT"})
    await_answers(connection)
    return connection


def _bound(engine: sa.Engine, tenant: TenantId, options: Mapping[str, Any]) -> sa.Connection:
    """A connection whose transaction is bound to a tenant.

    That is its first statement: when a pooled connection was lost meanwhile nothing has been done on it yet, and a new
    one is taken. So none has to be checked before each use.
    """
    try:
        return _begun(engine, tenant, options)
    except exc.DBAPIError as error:
        if not was_lost(error):
            raise
    # The pool has dropped all connections that it had then.
    return _begun(engine, tenant, options)


def was_lost(error: exc.DBAPIError) -> bool:
    """Whether a pooled connection had ended before it was used: another one may do."""
    shifted = getattr(error.orig, "sqlstate", None) in SHIFTED
    return error.connection_invalidated and not shifted and not isinstance(error.orig, NoAnswer)


def _begun(engine: sa.Engine, tenant: TenantId, options: Mapping[str, Any]) -> sa.Connection:
    with ExitStack() as closing:
        connection = closing.enter_context(engine.connect()).execution_options(**options)
        set_tenant(connection, tenant)
        closing.pop_all()
    return connection


def server_version(connection: sa.Connection) -> str:
    """The version of the Postgres server."""
    version: str = connection.execute(sa.text("SHOW server_version")).scalar_one()
    return version


def server_time(connection: sa.Connection) -> datetime:
    """The server's clock."""
    moment: datetime = connection.execute(sa.text("SELECT clock_timestamp()")).scalar_one()
    return moment


def is_same_database(engine: sa.Engine, connection: sa.Connection) -> bool:
    """Whether a connection that this library has not opened reaches the database of ``engine``."""
    theirs = connection.execute(_DATABASE).one()
    # A database that was restored meanwhile has another identity than the one that was read first.
    return theirs == _databases.get(engine) or theirs == _database(engine)


def _database(engine: sa.Engine) -> sa.Row[Any]:
    with transaction(engine) as connection:
        _databases[engine] = found = connection.execute(_DATABASE).one()
    return found


def place_of(url: str) -> str:
    """Database, host and port of a URL, without user and password."""
    parsed = sa.make_url(url)
    host, port = parsed.host or parsed.query.get("host") or "localhost", parsed.port or parsed.query.get("port")
    return f"{parsed.database} at {host}:{port}" if port else f"{parsed.database} at {host}"
