"""Creating and upgrading the schema and the service role, under one lock, from the installed package."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.dialects.postgresql import insert

from memforest_core.adapters.postgres.engine import open_engine, store_errors
from memforest_core.adapters.postgres.models import SCHEMA, MigrationRow
from memforest_core.errors import InvalidSettings
from memforest_core.settings import DatabaseSettings

SERVICE_GROUP = "memforest_service"
"""The group role that holds the service's rights; the login role of the service URL is its member."""

_LOCK = 0x6D656D66
"""Key of the advisory lock that lets one upgrade run at a time."""


def _config(connection: sa.Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", "memforest_core.adapters.postgres:migrations")
    config.attributes["connection"] = connection
    return config


def upgrade(settings: DatabaseSettings, revision: str = "head") -> str:
    """Bring the schema to ``revision`` and give the service role its rights; the new revision.

    Connects with ``database.migration_url`` (a role that may create schemas and roles).
    """
    owner = (settings.migration_url or settings.url).get_secret_value()
    engine = open_engine(settings, owner)
    try:
        with store_errors(), engine.begin() as connection:
            # Another upgrade is waited for longer than any table: it may be at a long migration.
            connection.execute(sa.text("SET LOCAL statement_timeout = '15min'"))
            connection.execute(sa.text("SET LOCAL lock_timeout = 0"))
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
            connection.execute(sa.text("SET LOCAL lock_timeout = '10s'"))
            connection.execute(sa.schema.CreateSchema(SCHEMA, if_not_exists=True))
            command.upgrade(_config(connection), revision)
            _note_migrations(connection)
            _ensure_service_role(connection, sa.make_url(settings.url.get_secret_value()))
            return current_revision(connection) or ""
    finally:
        engine.dispose()


def _note_migrations(connection: sa.Connection) -> None:
    """Write down what is applied, so that workers of the version before can tell whether they may go on."""
    if not sa.inspect(connection).has_table("migration", schema=SCHEMA):
        return
    scripts = ScriptDirectory.from_config(_config(connection))
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
    connection.exec_driver_sql(f"GRANT {SERVICE_GROUP} TO {quote(name)}")


def current_revision(connection: sa.Connection) -> str | None:
    """The revision that the database is at."""
    context = MigrationContext.configure(
        connection, opts={"version_table": "schema_version", "version_table_schema": SCHEMA}
    )
    return context.get_current_revision()


def head_revision() -> str:
    """The newest revision that this installation knows."""
    config = Config()
    config.set_main_option("script_location", "memforest_core.adapters.postgres:migrations")
    head = ScriptDirectory.from_config(config).get_current_head()
    return head or ""


def _one_ahead(connection: sa.Connection, found: str | None) -> bool:
    """Whether the database is one compatible migration ahead: an upgrade in progress need not stop the workers."""
    if found is None or not sa.inspect(connection).has_table("migration", schema=SCHEMA):
        return False
    follows = connection.scalar(
        sa.select(MigrationRow.follows).where(MigrationRow.revision == found, MigrationRow.compatible)
    )
    return follows is not None and follows == head_revision()


def check_ready(engine: sa.Engine) -> None:
    """Refuse to serve from a database at another revision, or as a role without rights or with too many.

    One compatible migration ahead is accepted: its new columns and tables are not needed yet.
    """
    with store_errors(), engine.connect() as connection:
        usable = connection.scalar(
            sa.text("SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = :s"), {"s": SCHEMA}
        )
        if usable is False:
            raise InvalidSettings(
                "The role in MEMFOREST_DATABASE__URL has no rights on MemForest's tables: run memforest db upgrade."
            )
        found = current_revision(connection)
        if found != head_revision() and not _one_ahead(connection, found):
            raise InvalidSettings(
                f"The database is at schema {found or 'none'}, this version needs {head_revision()}:"
                " run memforest db upgrade."
            )
        unbound = connection.scalar(
            sa.text("SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user")
        )
        if unbound:
            raise InvalidSettings(
                "MEMFOREST_DATABASE__URL names a superuser: use the service role, so that tenants stay apart."
            )
