"""Creating and upgrading the schema and the service role, under one lock, from the installed package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING
from uuid import uuid4

import sqlalchemy as sa
from pydantic import SecretStr
from sqlalchemy import exc
from sqlalchemy.dialects.postgresql import insert

from memforest_core.domain.ids import TenantId
from memforest_core.errors import InvalidSettings
from memforest_core.settings import DatabaseSettings
from memforest_core.store import functions
from memforest_core.store.engine import (
    INSUFFICIENT_PRIVILEGE,
    await_answers,
    open_engine,
    set_tenant,
    store_errors,
    transaction,
)
from memforest_core.store.refusals import OWNER, SERVICE
from memforest_core.store.tables import SCHEMA, MigrationRow, Tenant

if TYPE_CHECKING:
    from alembic.config import Config

SERVICE_GROUP = "memforest_service"
"""The group role with the service's rights; the login role of the service URL is its member."""

LIMITED_GROUP = "memforest_limited"
"""The group role whose members may bind to the tenants that they were granted, and to no other."""

SHOWN_TABLES = 3
"""Tables that the refusal of an unbound role names."""

NOTE = sa.text("SELECT obj_description(to_regnamespace('memforest'), 'pg_namespace')")
RESTORE_NOTE = "memforest restore "
"""Begins the note on the schema that stays from a restore's load until its end; then comes the backup's id."""

_RESTORING: ContextVar[bool] = ContextVar("restoring", default=False)

BASELINE = "0100"
"""The first revision. Those of development versions, which were never released, sort before it."""

_LOCK = 0x6D656D66
"""Key of the advisory lock that lets one upgrade run at a time."""


_UNBOUND = sa.text("""
    SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
     WHERE c.relnamespace = 'memforest'::regnamespace AND c.relkind = 'r'
       AND a.attname = 'tenant_id' AND NOT a.attisdropped AND NOT row_security_active(c.oid) ORDER BY 1
    """)


def _config(connection: sa.Connection | None = None) -> Config:
    # Alembic takes 50 ms to import, which only a migration needs.
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "memforest_core.store:migrations")
    config.attributes["connection"] = connection
    return config


def upgrade(settings: DatabaseSettings, revision: str = "head") -> str:
    """Bring the schema to ``revision`` and give the service role its rights; the new revision.

    Connects with ``database.migration_url`` (a role that may create schemas and roles). Raises InvalidSettings when
    that role has not a right, StoreUnavailable, and StoreRefused for a wrong password, role or database.
    """
    with opened_owner(settings) as engine, transaction(engine) as connection, _needs_rights(settings):
        await_answers(connection)
        # The lock timeout is off while it waits for another upgrade, whose migration may be long.
        connection.execute(sa.text("SET LOCAL statement_timeout = '15min'"))
        connection.execute(sa.text("SET LOCAL lock_timeout = 0"))
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        connection.execute(sa.text("SET LOCAL lock_timeout = '10s'"))
        # Migrations change rows of all tenants, and row-level security binds the owner too.
        connection.execute(sa.text("SET LOCAL memforest.across = 'on'"))
        connection.execute(sa.schema.CreateSchema(SCHEMA, if_not_exists=True))
        before, newest = current_revision(connection), head_revision()
        _refuse_others(before)
        if (before, revision) != (newest, "head"):
            _migrate(connection, revision)
        if current_revision(connection) == newest != before:
            functions.install(connection)
        elif before == newest and not functions.has_rules(connection):
            functions.install_rules(connection)
        _ensure_service_role(connection, sa.make_url(settings.url.get_secret_value()))
        return current_revision(connection) or ""


@contextmanager
def opened_owner(settings: DatabaseSettings, address: str | None = None) -> Iterator[sa.Engine]:
    """An engine that connects as the owner of the schema, of another database by its ``address``. Raises
    StoreUnavailable naming what to change."""
    engine = open_engine(settings, address or (settings.migration_url or settings.url).get_secret_value())
    try:
        with store_errors(variable="the address" if address else _owner_variable(settings)), engine.connect():
            pass
        yield engine
    finally:
        engine.dispose()


def owners_address(settings: DatabaseSettings, owner: str) -> DatabaseSettings:
    """The settings with an owner's address that differs from the service's in the role alone."""
    address = sa.make_url(settings.url.get_secret_value()).set(username=owner)
    return settings.model_copy(update={"migration_url": SecretStr(address.render_as_string(hide_password=False))})


def hold_back_upgrades(connection: sa.Connection) -> None:
    """Wait for an upgrade that runs; the next one waits for the end of this transaction."""
    connection.execute(sa.text("SELECT pg_advisory_xact_lock_shared(:key)"), {"key": _LOCK})


def _owner_variable(settings: DatabaseSettings) -> str:
    return SERVICE if settings.migration_url is None else OWNER


@contextmanager
def _needs_rights(settings: DatabaseSettings) -> Iterator[None]:
    try:
        yield
    except exc.ProgrammingError as error:
        if getattr(error.orig, "sqlstate", None) != INSUFFICIENT_PRIVILEGE:
            raise
        unset = f" ({OWNER} is not set)" if settings.migration_url is None else ""
        raise InvalidSettings(
            f"The role in {_owner_variable(settings)} may not create MemForest's schema and roles{unset}: set {OWNER}"
            " to the address of a role that may, such as the database's owner with CREATEROLE."
        ) from None


def _migrate(connection: sa.Connection, revision: str) -> None:
    """Run the migrations, and record them: workers of the version before read whether they may go on."""
    from alembic import command
    from alembic.script import ScriptDirectory

    config = _config(connection)
    command.upgrade(config, revision)
    scripts = ScriptDirectory.from_config(config)
    applied = scripts.iterate_revisions(current_revision(connection), "base")
    connection.execute(
        insert(MigrationRow).on_conflict_do_nothing(),
        [
            {
                "revision": script.revision,
                "follows": script.down_revision,
                "compatible": bool(getattr(script.module, "compatible", False)),
            }
            for script in applied
        ],
    )


def _ensure_service_role(connection: sa.Connection, url: sa.URL) -> None:
    """Create the login role named in the service URL, with its password, as a member of the group."""
    name = url.username
    if name is None:
        raise InvalidSettings("Name the service role in MEMFOREST_DATABASE__URL (user@host).")
    if name == connection.scalar(sa.text("SELECT current_user")):
        return
    quote = connection.dialect.identifier_preparer.quote
    known = connection.scalar(sa.text("SELECT 1 FROM pg_roles WHERE rolname = :n"), {"n": name})
    if not known:
        connection.exec_driver_sql(f"CREATE ROLE {quote(name)} LOGIN NOSUPERUSER NOBYPASSRLS")
    if url.password:
        statement = connection.scalar(
            sa.text("SELECT format('ALTER ROLE %I PASSWORD %L', CAST(:n AS text), CAST(:p AS text))"),
            {"n": name, "p": str(url.password)},
        )
        connection.exec_driver_sql(str(statement).replace("%", "%%"))
    if not _limited(connection, name):
        connection.exec_driver_sql(f"GRANT {SERVICE_GROUP} TO {quote(name)}")


def _limited(connection: sa.Connection, role: str) -> bool:
    """Whether a role is one of single tenants."""
    return bool(
        connection.scalar(
            sa.text(
                "SELECT EXISTS (SELECT 1 FROM pg_auth_members"
                " WHERE roleid = to_regrole(:g) AND member = to_regrole(:n))"
            ),
            {"g": LIMITED_GROUP, "n": connection.dialect.identifier_preparer.quote(role)},
        )
    )


def current_revision(connection: sa.Connection) -> str | None:
    """The revision that the database is at."""
    if connection.scalar(sa.text("SELECT to_regclass('memforest.schema_version')")) is None:
        return None
    found = connection.scalar(sa.text("SELECT version_num FROM memforest.schema_version"))
    return None if found is None else str(found)


@cache
def head_revision() -> str:
    """The newest revision that this installation knows: the number that the last migration's file begins with."""
    versions = files("memforest_core.store.migrations.versions").iterdir()
    return max(file.name.partition("_")[0] for file in versions if file.name[:1].isdigit())


def _one_ahead(connection: sa.Connection, found: str | None) -> bool:
    """Whether the database is one compatible migration ahead: an upgrade in progress need not stop the workers."""
    if found is None or found < BASELINE:
        return False
    follows = connection.scalar(
        sa.select(MigrationRow.follows).where(MigrationRow.revision == found, MigrationRow.compatible)
    )
    return follows is not None and follows == head_revision()


@contextmanager
def restoring() -> Iterator[None]:
    """What is opened meanwhile, by this thread, may use a database whose restore has not ended."""
    token = _RESTORING.set(True)
    try:
        yield
    finally:
        _RESTORING.reset(token)


def _refuse_others(found: str | None) -> None:
    """Raise InvalidSettings for a schema that a newer version has made, or a development version."""
    if found is not None and found > head_revision():
        raise InvalidSettings(
            f"The database is at schema {found}, which is newer than this version of memforest ({head_revision()}):"
            " install the version that upgraded it, or a newer one."
        )
    if found is not None and found < BASELINE:
        raise InvalidSettings(
            f"The database is at schema {found} of a development version, which cannot be upgraded: run memforest"
            " export of that version for each owner and import the files into a new database, or begin with a new one."
        )


def check_ready(engine: sa.Engine) -> None:
    """Refuse to serve from a database at another revision or before its restore has ended, or as a role without rights
    or with too many.

    One compatible migration ahead is accepted: its new columns and tables are not needed yet. Row-level security is
    tried out. Raises InvalidSettings, StoreUnavailable.
    """
    with transaction(engine) as connection:
        usable = connection.scalar(
            sa.text("SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = :s"), {"s": SCHEMA}
        )
        if usable is False:
            raise InvalidSettings(
                "The role in MEMFOREST_DATABASE__URL has no rights on MemForest's tables: run memforest db upgrade"
                f" with {OWNER} set."
            )
        if not _RESTORING.get() and str(connection.scalar(NOTE) or "").startswith(RESTORE_NOTE):
            raise InvalidSettings(
                "The restore of this database has not ended: run memforest restore again, with the same options."
            )
        found = current_revision(connection)
        if found != head_revision() and not _one_ahead(connection, found):
            _refuse_others(found)
            raise InvalidSettings(
                f"The database is at schema {found or 'none'}, this version needs {head_revision()}:"
                f" run memforest db upgrade with {OWNER} set."
            )
        if found == head_revision() and not functions.has_rules(connection):
            raise InvalidSettings(
                "The database has other rules than this version about which operations run concurrently: run"
                f" memforest db upgrade of this version with {OWNER} set."
            )
    _check_separate(engine)


def _check_separate(engine: sa.Engine) -> None:
    """Write a row as one tenant that does not exist, and look for it as another; nothing of it stays."""
    mine, other = (TenantId(f"memforest-check-{uuid4().hex}") for _ in range(2))
    with transaction(engine) as connection:
        set_tenant(connection, mine)
        try:
            with connection.begin_nested():
                connection.execute(sa.insert(Tenant).values(tenant_id=mine))
        except exc.ProgrammingError as error:
            # A role of single tenants can't even write it.
            if getattr(error.orig, "sqlstate", None) != INSUFFICIENT_PRIVILEGE:
                raise
        set_tenant(connection, other)
        seen = connection.scalar(sa.text("SELECT EXISTS (SELECT 1 FROM memforest.tenant)"))
        unbound = connection.scalars(_UNBOUND).all()
        connection.rollback()
    if seen or unbound:
        raise InvalidSettings(
            "The role in MEMFOREST_DATABASE__URL sees rows of all tenants"
            f" ({', '.join(unbound[:SHOWN_TABLES]) or 'tenant'}): use the service role, which is no superuser and has"
            " no BYPASSRLS, and run memforest db upgrade."
        )
