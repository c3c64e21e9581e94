"""Revision 0008 on a database that was in use: samples of words go, whatever the server's version."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from uuid import uuid4

import pytest
import sqlalchemy as sa
from alembic.migration import MigrationContext
from alembic.operations import Operations
from pydantic import SecretStr

from benchmarks.support.servers import SessionServers
from benchmarks.support.stack import SERVICE_ROLE, admin, at
from memforest_core.settings import DatabaseSettings
from memforest_core.store.engine import open_engine
from memforest_core.store.schema import check_ready, upgrade

OLD = """
INSERT INTO memforest.tenant (tenant_id) VALUES ('acme'), ('other');
INSERT INTO memforest.forest (tenant_id, forest_id, owner)
SELECT 'acme', gen_random_uuid(), 'zanzibarium' || n FROM generate_series(1, 50) n;
INSERT INTO memforest.extraction_cache (tenant_id, input_hash, answer)
SELECT 'acme', sha256(n::text::bytea), jsonb_build_object('said', 'zanzibarium' || n) FROM generate_series(1, 50) n;
INSERT INTO memforest.fact (tenant_id, fact_id, forest_id, text, normalized, text_hash, mentioned_at, subject_key,
                            attribute, statement, key_time, key_ordinal, key_item)
SELECT 'acme', gen_random_uuid(), forest_id, owner, owner, sha256(owner::bytea), now(), owner, owner, '{}', 1, 1, 1
  FROM memforest.forest;
ANALYZE memforest.forest, memforest.fact, memforest.extraction_cache
"""
SAMPLES = sa.text(
    """SELECT tablename || '.' || attname FROM pg_stats WHERE schemaname = 'memforest'
          AND concat_ws(' ', most_common_vals::text, histogram_bounds::text, most_common_elems::text) LIKE '%zanzibarium%'
        ORDER BY 1"""
)


@pytest.fixture
def used(servers: SessionServers) -> Iterator[DatabaseSettings]:
    """A database of the revision before, with rows and samples of them."""
    name = f"used_{uuid4().hex}"
    admin(servers, f"CREATE DATABASE {name}")
    owner = at(servers.postgres_url, database=name)
    settings = DatabaseSettings(
        url=SecretStr(at(owner, database=name, user=SERVICE_ROLE)), migration_url=SecretStr(owner)
    )
    upgrade(settings, "0006")
    with owned(settings) as connection:
        for statement in OLD.split(";"):
            connection.execute(sa.text(statement))
    yield settings
    admin(servers, f"DROP DATABASE {name} WITH (FORCE)")


def owned(settings: DatabaseSettings) -> sa.Connection:
    assert settings.migration_url is not None
    engine = sa.create_engine(settings.migration_url.get_secret_value(), poolclass=sa.NullPool)
    return engine.connect().execution_options(isolation_level="AUTOCOMMIT")


def test_samples_that_were_taken_are_dropped_and_no_row_is(used: DatabaseSettings) -> None:
    with owned(used) as connection:
        assert {"fact.text", "fact.subject_key", "forest.owner", "ix_fact_search.to_tsvector"} <= set(
            connection.scalars(SAMPLES)
        )
    upgrade(used)

    with owned(used) as connection:
        assert connection.scalars(SAMPLES).all() == []
        connection.execute(sa.text("ANALYZE"))
        assert connection.scalars(SAMPLES).all() == []
        assert connection.scalar(sa.text("SELECT count(*) FROM memforest.fact")) == 50
    engine = open_engine(used)
    check_ready(engine)
    engine.dispose()


@pytest.mark.parametrize("version", [160_000, 180_000])
def test_samples_are_dropped_on_servers_without_a_function_for_it(
    used: DatabaseSettings, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importlib.import_module("memforest_core.store.migrations.versions.0007_access")
    monkeypatch.setattr(module, "_version", lambda: version)
    with owned(used) as connection, Operations.context(MigrationContext.configure(connection)):
        before = set(connection.scalars(SAMPLES))
        module._without_statistics()
        assert {"fact.text", "forest.owner", "extraction_cache.answer"} <= before
        # Those of full-text indexes go with the indexes.
        assert [place for place in connection.scalars(SAMPLES) if not place.startswith("ix_")] == []
        assert connection.scalar(sa.text("SELECT count(*) FROM memforest.fact WHERE text LIKE 'zanzibarium%'")) == 50
