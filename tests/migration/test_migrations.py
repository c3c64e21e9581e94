"""The migrations make exactly what the models describe, forwards and back, also when two processes upgrade at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from uuid import uuid4

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from memforest_core.adapters.postgres import schema
from memforest_core.adapters.postgres.models import SCHEMA, Base
from memforest_core.errors import InvalidSettings
from memforest_core.settings import DatabaseSettings
from tests.support.servers import SessionServers
from tests.support.stack import admin, at, database_settings


@pytest.fixture
def empty(servers: SessionServers) -> Iterator[DatabaseSettings]:
    """A database with nothing in it."""
    name = f"empty_{uuid4().hex}"
    admin(servers, f"CREATE DATABASE {name}")
    yield database_settings(servers, name)
    admin(servers, f"DROP DATABASE {name} WITH (FORCE)")


def owner_engine(settings: DatabaseSettings) -> sa.Engine:
    assert settings.migration_url is not None
    return sa.create_engine(settings.migration_url.get_secret_value())


def test_the_migrated_database_is_what_the_models_describe(empty: DatabaseSettings) -> None:
    assert schema.upgrade(empty) == schema.head_revision()
    engine = owner_engine(empty)
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection,
            opts={
                "version_table": "schema_version",
                "version_table_schema": SCHEMA,
                "include_schemas": True,
                "include_name": lambda name, kind, _parents: kind != "schema" or name == SCHEMA,
                "compare_type": True,
            },
        )
        assert compare_metadata(context, Base.metadata) == []
    engine.dispose()


def test_down_and_up_again(empty: DatabaseSettings) -> None:
    schema.upgrade(empty)
    engine = owner_engine(empty)
    with engine.begin() as connection:
        command.downgrade(schema._config(connection), "base")
    with engine.connect() as connection:
        left = connection.scalar(
            sa.text("SELECT count(*) FROM pg_tables WHERE schemaname = :s AND tablename <> 'schema_version'"),
            {"s": SCHEMA},
        )
        assert left == 0
    engine.dispose()
    assert schema.upgrade(empty) == schema.head_revision()


def test_two_upgrades_at_once_are_one(empty: DatabaseSettings) -> None:
    reached: list[str] = []
    threads = [threading.Thread(target=lambda: reached.append(schema.upgrade(empty))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert reached == [schema.head_revision()] * 3


def test_the_service_role_is_made_with_its_password(servers: SessionServers, empty: DatabaseSettings) -> None:
    """Given a URL with an unknown role and an awkward password, when upgraded, then the role can log in and sees rows
    of its tenant only."""
    role, password = f"app_{uuid4().hex[:8]}", 'it\'s 100% "odd"'
    assert empty.migration_url is not None
    owner = empty.migration_url.get_secret_value()
    database = sa.make_url(owner).database
    assert database is not None
    url = sa.make_url(at(owner, database=database, user=role)).set(password=password)
    settings = DatabaseSettings.model_validate(
        {"url": url.render_as_string(hide_password=False), "migration_url": owner}
    )
    schema.upgrade(settings)
    engine = sa.create_engine(url)
    schema.check_ready(engine)
    with engine.begin() as connection:
        assert connection.scalar(sa.text("SELECT count(*) FROM memforest.forest")) == 0
    engine.dispose()


def test_a_database_without_tables_and_a_superuser_are_refused(empty: DatabaseSettings) -> None:
    engine = owner_engine(empty)
    with pytest.raises(InvalidSettings, match="memforest db upgrade"):
        schema.check_ready(engine)
    schema.upgrade(empty)
    with pytest.raises(InvalidSettings, match="superuser"):
        schema.check_ready(engine)
    engine.dispose()
