"""The schema goes up from nothing, down and up again, equals the models, and is made by one process at a time."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID, uuid4

import numpy as np
import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from pydantic import SecretStr

from benchmarks.support.servers import SessionServers
from benchmarks.support.stack import SERVICE_ROLE, admin, at
from memforest_core.errors import InvalidSettings
from memforest_core.settings import DatabaseSettings
from memforest_core.store import schema
from memforest_core.store.engine import open_engine
from memforest_core.store.schema import SERVICE_GROUP, check_ready, current_revision, head_revision, upgrade
from memforest_core.store.tables import SCHEMA, Base

Objects = dict[str, list[tuple[object, ...]]]


@contextmanager
def empty(
    servers: SessionServers, *, role: str = SERVICE_ROLE, password: str | None = None
) -> Iterator[DatabaseSettings]:
    """An empty database; the service connects as ``role``."""
    name = f"migration_{uuid4().hex}"
    admin(servers, f"CREATE DATABASE {name}")
    owner = at(servers.postgres_url, database=name)
    service = sa.make_url(owner).set(username=role, password=password)
    try:
        yield DatabaseSettings(
            url=SecretStr(service.render_as_string(hide_password=False)),
            migration_url=SecretStr(owner),
            lock_timeout_ms=300,
        )
    finally:
        admin(servers, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@contextmanager
def connected(settings: DatabaseSettings) -> Iterator[sa.Connection]:
    """As the owner, in one transaction."""
    assert settings.migration_url is not None
    engine = open_engine(settings, settings.migration_url.get_secret_value())
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def objects(settings: DatabaseSettings) -> Objects:
    """Everything that a migration may make: columns, indexes, constraints, functions, policies, rights."""
    queries = {
        "columns": """SELECT table_name, column_name, data_type, is_nullable, column_default, identity_generation
                        FROM information_schema.columns WHERE table_schema = 'memforest' ORDER BY 1, 2""",
        "indexes": "SELECT indexdef FROM pg_indexes WHERE schemaname = 'memforest' ORDER BY 1",
        "constraints": """SELECT conname, conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint
                           WHERE connamespace = 'memforest'::regnamespace ORDER BY 1, 2""",
        "functions": """SELECT proname, prosrc, prosecdef, proacl::text FROM pg_proc
                         WHERE pronamespace = 'memforest'::regnamespace ORDER BY 1""",
        "policies": "SELECT tablename, policyname, qual, with_check FROM pg_policies ORDER BY 1, 2",
        "rights": """SELECT relname, relkind, relrowsecurity, reloptions, relacl::text FROM pg_class
                      WHERE relnamespace = 'memforest'::regnamespace ORDER BY 1""",
    }
    with connected(settings) as connection:
        return {name: [tuple(row) for row in connection.execute(sa.text(query))] for name, query in queries.items()}


def downgrade(settings: DatabaseSettings, revision: str) -> None:
    with connected(settings) as connection:
        command.downgrade(schema._config(connection), revision)


def revisions() -> list[str]:
    """Every revision, the oldest first."""
    config = Config()
    config.set_main_option("script_location", "memforest_core.store:migrations")
    return [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()][::-1]


def test_an_empty_database_comes_to_the_newest_revision(servers: SessionServers) -> None:
    with empty(servers) as settings:
        assert upgrade(settings) == head_revision() == revisions()[-1]

        engine = open_engine(settings)
        check_ready(engine)
        engine.dispose()
        with connected(settings) as connection:
            assert current_revision(connection) == head_revision()
        assert {row[0] for row in objects(settings)["columns"]} >= {table.name for table in Base.metadata.sorted_tables}


def test_the_models_are_the_migrated_schema(servers: SessionServers) -> None:
    with empty(servers) as settings:
        upgrade(settings)
        with connected(settings) as connection:
            context = MigrationContext.configure(
                connection,
                opts={
                    "include_schemas": True,
                    "include_name": lambda name, kind, _parents: kind != "schema" or name == SCHEMA,
                    "compare_type": True,
                    "compare_server_default": True,
                    "version_table": "schema_version",
                    "version_table_schema": SCHEMA,
                },
            )
            assert compare_metadata(context, Base.metadata) == []


def test_each_revision_goes_down_and_up_again(servers: SessionServers) -> None:
    """Given every revision in turn, when it is taken back and made again, then the schema is the same to the letter."""
    with empty(servers) as settings:
        for before, revision in zip(["base", *revisions()], revisions(), strict=False):
            assert upgrade(settings, revision) == revision
            made = objects(settings)
            downgrade(settings, before)
            upgrade(settings, revision)
            assert objects(settings) == made


def test_all_the_way_down_leaves_nothing_but_the_mark(servers: SessionServers) -> None:
    with empty(servers) as settings:
        upgrade(settings)
        downgrade(settings, "base")

        left = objects(settings)
        assert {row[0] for row in left["columns"]} == {"schema_version"}
        assert left["functions"] == left["policies"] == []
        engine = open_engine(settings)
        with pytest.raises(InvalidSettings, match="run memforest db upgrade"):
            check_ready(engine)
        engine.dispose()


def test_upgrading_again_changes_nothing(servers: SessionServers) -> None:
    with empty(servers) as settings:
        upgrade(settings)
        made = objects(settings)

        assert upgrade(settings) == head_revision()
        assert objects(settings) == made


def test_two_processes_that_upgrade_at_once_both_succeed(servers: SessionServers) -> None:
    with empty(servers) as settings:
        start, found = threading.Barrier(3), list[str]()

        def run() -> None:
            start.wait()
            found.append(upgrade(settings))

        threads = [threading.Thread(target=run) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=30)

        assert found == [head_revision()] * 3


def test_a_long_upgrade_is_waited_for(servers: SessionServers) -> None:
    """Given another upgrade that takes longer than the lock timeout, then this one waits for it and does not fail."""
    with empty(servers) as settings:
        found: list[str] = []
        waiting = threading.Thread(target=lambda: found.append(upgrade(settings)))
        with connected(settings) as connection:
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": schema._LOCK})
            waiting.start()
            time.sleep(2 * settings.lock_timeout_ms / 1_000)
            assert waiting.is_alive()
        waiting.join(timeout=30)

        assert found == [head_revision()]


def test_a_failed_upgrade_leaves_the_database_as_it_was(servers: SessionServers) -> None:
    """Given a service address without a role, when the upgrade fails at its end, then nothing of it stays."""
    with empty(servers) as settings:
        named = sa.make_url(settings.url.get_secret_value())
        nameless = sa.URL.create(named.drivername, host=named.host, database=named.database, query=named.query)
        broken = settings.model_copy(update={"url": SecretStr(str(nameless))})

        with pytest.raises(InvalidSettings, match="Name the service role"):
            upgrade(broken)

        with connected(settings) as connection:
            assert connection.scalar(sa.text("SELECT to_regnamespace('memforest')")) is None
        assert upgrade(settings) == head_revision()


AWKWARD = """it's 100% "safe" \\ %s %(x)s {y} :z @/?#&é"""


@pytest.mark.parametrize("role", ["plain_login", 'odd "Login" 100%s'])
def test_the_services_login_gets_its_password_whatever_is_in_it(servers: SessionServers, role: str) -> None:
    quoted = role.replace('"', '""').replace("%", "%%")
    with empty(servers, role=role, password=AWKWARD) as settings:
        try:
            upgrade(settings)
            upgrade(settings)

            with connected(settings) as connection:
                [made] = connection.execute(
                    sa.text(
                        """SELECT rolcanlogin, rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolpassword,
                                  pg_has_role(rolname, :g, 'member') AS member
                             FROM pg_authid WHERE rolname = :n"""
                    ),
                    {"n": role, "g": SERVICE_GROUP},
                ).all()
            assert made.rolcanlogin and made.member
            assert not (made.rolsuper or made.rolbypassrls or made.rolcreaterole or made.rolcreatedb)
            assert verifies(made.rolpassword, AWKWARD)
            assert not verifies(made.rolpassword, AWKWARD.replace("%", "%%"))
            engine = open_engine(settings)
            check_ready(engine)
            engine.dispose()
        finally:
            admin(servers, f'DROP OWNED BY "{quoted}"')
            admin(servers, f'DROP ROLE "{quoted}"')


def verifies(stored: str, password: str) -> bool:
    """Whether a SCRAM-SHA-256 verifier (RFC 5802, as Postgres stores it) is that of a password."""
    _, iterations_salt, keys = stored.split("$")
    iterations, salt = iterations_salt.split(":")
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(salt), int(iterations))
    server_key = hmac.new(salted, b"Server Key", hashlib.sha256).digest()
    return base64.b64encode(server_key).decode() == keys.split(":")[1]


@pytest.mark.parametrize(
    ("follows_ours", "compatible", "served"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_workers_accept_one_compatible_migration_ahead(
    servers: SessionServers, follows_ours: bool, compatible: bool, served: bool
) -> None:
    """Given a database that a newer version has upgraded, then we go on if that one step says we may."""
    with empty(servers) as settings:
        upgrade(settings)
        with connected(settings) as connection:
            connection.execute(sa.text("UPDATE memforest.schema_version SET version_num = '9999'"))
            connection.execute(
                sa.text("INSERT INTO memforest.migration (revision, follows, compatible) VALUES ('9999', :f, :c)"),
                {"f": head_revision() if follows_ours else "9998", "c": compatible},
            )
        engine = open_engine(settings)
        try:
            if served:
                check_ready(engine)
            else:
                with pytest.raises(InvalidSettings, match="newer than this version"):
                    check_ready(engine)
        finally:
            engine.dispose()


def test_every_applied_migration_is_written_down(servers: SessionServers) -> None:
    with empty(servers) as settings:
        upgrade(settings)
        with connected(settings) as connection:
            rows = connection.execute(sa.text("SELECT revision, follows FROM memforest.migration ORDER BY 1")).all()
        assert [row.revision for row in rows] == revisions()
        assert [row.follows for row in rows] == [None, *revisions()[:-1]]


def test_vectors_go_to_each_forest_that_has_their_text(servers: SessionServers) -> None:
    """Given vectors shared by their texts, when they are given to forests, then each forest that says a text has its
    vector, cells are found by the hash of what is embedded of them, and what nobody says is gone."""
    day, text = "Monday 8 May 2023", "Bob: I live in Davis."
    told = hashlib.sha256(f"{day}\n{text}".encode()).digest()
    with empty(servers) as settings:
        upgrade(settings, "0004")
        with connected(settings) as connection:
            connection.execute(sa.text("INSERT INTO memforest.tenant (tenant_id) VALUES ('t')"))
            for number in (1, 2):
                values = {"f": UUID(int=number), "s": UUID(int=10 + number), "c": UUID(int=20 + number), "x": text}
                for statement in (
                    "INSERT INTO memforest.forest (tenant_id, forest_id, owner) VALUES ('t', :f, CAST(:f AS text))",
                    "INSERT INTO memforest.session (tenant_id, session_id, forest_id, external_id, time_zone, started_at)"
                    " VALUES ('t', :s, :f, 's', 'UTC', now())",
                    "INSERT INTO memforest.cell (tenant_id, cell_id, forest_id, session_id, ordinal, window_ordinal,"
                    " first_turn, last_turn, text, text_hash, time_start, time_end) VALUES ('t', :c, :f, :s, 0, 0, 0, 0,"
                    " :x, sha256(convert_to(:x, 'UTF8')), '2023-05-08 12:00+00', '2023-05-08 12:00+00')",
                ):
                    used = {name: value for name, value in values.items() if f":{name}" in statement}
                    connection.execute(sa.text(statement), used)
            for key in (told, b"nobody says this"):
                connection.execute(
                    sa.text("INSERT INTO memforest.vector VALUES ('t', 'model', :h, :v)"), {"h": key, "v": b"1234"}
                )
        upgrade(settings)
        with connected(settings) as connection:
            kept = connection.execute(sa.text("SELECT forest_id, text_hash FROM memforest.vector ORDER BY 1")).all()
            cells = connection.scalars(sa.text("SELECT DISTINCT text_hash FROM memforest.cell")).all()
    assert [(row.forest_id, bytes(row.text_hash)) for row in kept] == [(UUID(int=1), told), (UUID(int=2), told)]
    assert [bytes(each) for each in cells] == [told]


def test_vectors_are_in_full_again_for_the_version_before(servers: SessionServers) -> None:
    """Given vectors of half precision and some in full, when the schema goes back, then all are in full."""
    vector = np.linspace(-1, 1, 384).astype("<f4")
    half, full = vector.astype("<f2").tobytes() + b"h", vector.tobytes()
    rounded = vector.astype("<f2").astype("<f4").tobytes()
    with empty(servers) as settings:
        upgrade(settings, "0021")
        with connected(settings) as connection:
            values = {"f": UUID(int=1), "r": UUID(int=2), "half": half, "full": full}
            for statement in (
                "INSERT INTO memforest.tenant (tenant_id) VALUES ('t')",
                "INSERT INTO memforest.forest (tenant_id, forest_id, owner) VALUES ('t', :f, 'anna')",
                "INSERT INTO memforest.vector VALUES ('t', :f, 'm', '1', :half), ('t', :f, 'm', '2', :full)",
                "INSERT INTO memforest.tree (tenant_id, tree_id, forest_id, kind, scope_key, label, state, k)"
                " VALUES ('t', :r, :f, 'entity', 'anna', 'Anna', 'active', 3)",
                "INSERT INTO memforest.node (tenant_id, node_id, tree_id, level, key_time, key_ordinal, key_item, key_id,"
                " leaf_count, version, clean_version) SELECT 't', CAST(md5(CAST(n AS text)) AS uuid), :r, 1, n, 0, 0, '',"
                " 1, 1, 1 FROM generate_series(1, 2) n",
                "INSERT INTO memforest.node_summary (tenant_id, node_id, text, source, model, input_hash, version, vector,"
                " vector_model, pooled, terms) SELECT 't', node_id, '', 'model', 'm', '', 1, :half, 'm',"
                " CASE key_time WHEN 1 THEN CAST(:full AS bytea) END, '' FROM memforest.node",
            ):
                used = {name: value for name, value in values.items() if f":{name}" in statement}
                connection.execute(sa.text(statement), used)
        downgrade(settings, "0020")
        with connected(settings) as connection:
            stored = connection.scalars(sa.text("SELECT vector FROM memforest.vector ORDER BY text_hash")).all()
            summaries = connection.execute(
                sa.text(
                    "SELECT s.vector, s.pooled FROM memforest.node_summary s JOIN memforest.node n USING (node_id)"
                    " ORDER BY n.key_time"
                )
            ).all()
    assert [bytes(each) for each in stored] == [rounded, full]
    assert [(bytes(row.vector), bytes(row.pooled)) for row in summaries] == [(rounded, full), (rounded, rounded)]


def test_operations_under_way_keep_their_forests_and_their_order(servers: SessionServers) -> None:
    """Given tasks of the version before, when the schema is upgraded, then those that are not done touch their forests
    in their roles, a dry run touches none, and they stand in the order in which they were asked for."""
    source, target = uuid4(), uuid4()
    tasks = (
        ("merge", target, "ready", {"source_0": str(source), "keep_sources": 0}, 3),
        ("erase", source, "dead", {"target": "fact"}, 1),
        ("retain", source, "ready", {"dry_run": 1}, 2),
        ("export", source, "done", {}, 0),
    )
    with empty(servers) as settings:
        upgrade(settings, "0005")
        with connected(settings) as connection:
            for kind, forest, state, arguments, at in tasks:
                connection.execute(
                    sa.text(
                        """INSERT INTO memforest.maintenance (tenant_id, task_id, kind, forest_id, state, arguments,
                                  created_at)
                           VALUES ('acme', gen_random_uuid(), :kind, :forest, :state, CAST(:arguments AS jsonb),
                                   timestamptz 'epoch' + make_interval(secs => :at))"""
                    ),
                    {"kind": kind, "forest": forest, "state": state, "arguments": json.dumps(arguments), "at": at},
                )
        upgrade(settings)
        with connected(settings) as connection:
            touched = connection.execute(
                sa.text(
                    """SELECT k.kind, x.forest_id, x.role FROM memforest.maintenance_forest x
                         JOIN memforest.maintenance k USING (tenant_id, task_id) ORDER BY k.asked, x.role"""
                )
            )
            assert [tuple(row) for row in touched] == [
                ("erase", source, "erase"),
                ("merge", source, "merge_from"),
                ("merge", target, "merge_into"),
            ]
            waits = sa.text("SELECT memforest.waits_for('acme', task_id) FROM memforest.maintenance WHERE kind = :k")
            assert connection.scalar(waits, {"k": "merge"}) is not None
            assert connection.scalar(waits, {"k": "erase"}) is None
