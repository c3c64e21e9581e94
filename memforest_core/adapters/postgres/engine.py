"""Connections: how this process reaches Postgres, and how its errors become ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa
from sqlalchemy import exc

from memforest_core.domain.ids import TenantId
from memforest_core.errors import InvalidSettings, InvariantViolated, StoreUnavailable
from memforest_core.settings import DatabaseSettings

SERIALIZATION_FAILURE = "40001"
DEADLOCK = "40P01"
LOCK_TIMEOUT = "55P03"
STATEMENT_TIMEOUT = "57014"
UNDEFINED_TABLE = "42P01"
UNDEFINED_SCHEMA = "3F000"
TROUBLED = {
    "53100": "Postgres has no disk space left: free some on its volume",
    "53200": "Postgres has no memory left: give its machine more, or lower its settings",
    "53300": "Postgres takes no more connections: raise max_connections or lower MEMFOREST_DATABASE__POOL_SIZE",
    "58030": "Postgres can't read or write its files: look at its log and its volume",
}
"""What a server that answers says of its own machine; such work succeeds later, once somebody has looked."""
TRANSIENT = {SERIALIZATION_FAILURE, DEADLOCK, LOCK_TIMEOUT, STATEMENT_TIMEOUT}


def open_engine(settings: DatabaseSettings, url: str | None = None) -> sa.Engine:
    """A pooled engine; connects lazily, checks connections before use, times statements out."""
    try:
        parsed = sa.make_url(url or settings.url.get_secret_value())
    except (exc.ArgumentError, ValueError):
        parsed = None
    if parsed is None or parsed.get_backend_name() != "postgresql":
        raise InvalidSettings("Set MEMFOREST_DATABASE__URL to a postgresql+psycopg:// address.")
    return sa.create_engine(
        parsed.set(drivername="postgresql+psycopg"),
        pool_size=settings.pool_size,
        max_overflow=settings.max_overflow,
        pool_timeout=10,
        pool_pre_ping=True,
        pool_recycle=1800,
        # Parameters are conversation text: no error message may quote them.
        hide_parameters=True,
        connect_args={
            "connect_timeout": 5,
            "keepalives_idle": 30,
            "application_name": "memforest",
            "options": f"-c statement_timeout={settings.statement_timeout_ms}"
            f" -c lock_timeout={settings.lock_timeout_ms}"
            " -c idle_in_transaction_session_timeout=60000"
            " -c timezone=UTC -c jit=off",
        },
    )


def set_tenant(connection: sa.Connection, tenant: TenantId) -> None:
    """Bind the transaction to a tenant: row-level security shows that tenant's rows only."""
    connection.execute(sa.text("SELECT set_config('memforest.tenant', :tenant, true)"), {"tenant": tenant})


def _where(error: exc.DBAPIError) -> str:
    """The state and the names of table, column and constraint: schema, never data."""
    diagnosis = getattr(error.orig, "diag", None)
    parts = [getattr(error.orig, "sqlstate", None)]
    parts += [getattr(diagnosis, name, None) for name in ("table_name", "column_name", "constraint_name")]
    return " ".join(str(part) for part in parts if part)


@contextmanager
def store_errors() -> Iterator[None]:
    """Turn driver errors into the taxonomy; statements and parameters stay out of the message."""
    try:
        yield
    except (exc.OperationalError, exc.InterfaceError, exc.InternalError) as error:
        state = getattr(error.orig, "sqlstate", None)
        if state in TRANSIENT:
            raise StoreUnavailable(f"Postgres asked to try again ({state}).") from None
        if state in TROUBLED:
            raise StoreUnavailable(f"{TROUBLED[state]} ({state}).") from None
        raise StoreUnavailable(
            "Postgres can't be reached: check MEMFOREST_DATABASE__URL and that the server runs."
        ) from None
    except exc.TimeoutError:
        raise StoreUnavailable(
            "All Postgres connections of this process are in use: raise MEMFOREST_DATABASE__POOL_SIZE."
        ) from None
    except exc.ProgrammingError as error:
        state = getattr(error.orig, "sqlstate", None)
        if state in {UNDEFINED_TABLE, UNDEFINED_SCHEMA}:
            raise InvalidSettings("The database has no MemForest tables: run memforest db upgrade.") from None
        raise InvariantViolated(f"Postgres refused a statement ({state}).") from None
    except exc.DBAPIError as error:
        raise InvariantViolated(f"Postgres refused a write ({_where(error)}).") from None


@contextmanager
def tenant_transaction(engine: sa.Engine, tenant: TenantId) -> Iterator[sa.Connection]:
    """One transaction bound to a tenant; commits on success, rolls back on any error."""
    with store_errors(), engine.begin() as connection:
        set_tenant(connection, tenant)
        yield connection
