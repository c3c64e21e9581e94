"""The schema goes up from nothing and to the next version, equals the models, and is made by one process at a time."""

from __future__ import annotations

import base64
import hashlib
import hmac
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from uuid import uuid4

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from pydantic import SecretStr

from memforest_core.errors import InvalidSettings
from memforest_core.settings import DatabaseSettings
from memforest_core.store import schema
from memforest_core.store.engine import open_engine
from memforest_core.store.schema import BASELINE, SERVICE_GROUP, check_ready, current_revision, head_revision, upgrade
from memforest_core.store.tables import SCHEMA, Base
from tests.harness.next_version import NEXT, become_next_version
from tests.harness.servers import SessionServers
from tests.harness.stack import SERVICE_ROLE, admin, at

FOREST = sa.text(
    """WITH made AS (INSERT INTO memforest.tenant (tenant_id) VALUES (:t))
       INSERT INTO memforest.forest (tenant_id, forest_id, owner) VALUES (:t, gen_random_uuid(), 'bob')"""
)
TRIGGER = sa.text(
    "SELECT count(*) FROM pg_trigger WHERE tgrelid = 'memforest.cell'::regclass AND tgname = 'work_transition'"
)

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
    return [script.revision for script in ScriptDirectory.from_config(schema._config()).walk_revisions()][::-1]


def test_an_empty_database_comes_to_the_newest_revision_once(servers: SessionServers) -> None:
    """Given an empty database, then it is upgraded and ready, each migration is recorded, and again changes nothing."""
    with empty(servers) as settings:
        assert upgrade(settings) == head_revision() == revisions()[-1]

        engine = open_engine(settings)
        check_ready(engine)
        engine.dispose()
        with connected(settings) as connection:
            assert current_revision(connection) == head_revision()
            rows = connection.execute(sa.text("SELECT revision, follows FROM memforest.migration ORDER BY 1"))
            assert [tuple(row) for row in rows] == list(zip(revisions(), [None, *revisions()], strict=False))
        made = objects(settings)
        assert {row[0] for row in made["columns"]} >= {table.name for table in Base.metadata.sorted_tables}
        assert upgrade(settings) == head_revision()
        assert objects(settings) == made


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


def test_each_later_revision_goes_down_and_up_again(
    servers: SessionServers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given every revision after the first, when it is taken back and made again, then the schema is the same to the
    letter."""
    become_next_version(monkeypatch, tmp_path)
    with empty(servers) as settings:
        upgrade(settings, BASELINE)
        for before, revision in pairwise(revisions()):
            assert upgrade(settings, revision) == revision
            made = objects(settings)
            downgrade(settings, before)
            upgrade(settings, revision)
            assert objects(settings) == made


def test_nothing_is_older_than_the_first_schema(servers: SessionServers) -> None:
    with empty(servers) as settings:
        upgrade(settings)
        made = objects(settings)
        with pytest.raises(NotImplementedError, match="drop the schema"):
            downgrade(settings, "base")
        assert objects(settings) == made


@pytest.mark.parametrize("compatible", [True, False])
def test_an_upgrade_changes_all_tenants_rows_and_the_version_before_goes_on_if_it_may(
    servers: SessionServers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compatible: bool
) -> None:
    """Given a database in use by this version, then the next version needs an upgrade, which changes the rows of all
    tenants and installs all functions; afterwards this version goes on only if that migration is compatible."""
    with empty(servers) as settings:
        upgrade(settings)
        with connected(settings) as connection:
            connection.execute(sa.text("SET LOCAL memforest.across = 'on'"))
            for tenant in ("acme", "other"):
                connection.execute(FOREST, {"t": tenant})
            connection.execute(sa.text("DROP TRIGGER work_transition ON memforest.cell"))
        engine = open_engine(settings)
        try:
            with monkeypatch.context() as later:
                become_next_version(later, tmp_path, compatible=compatible)
                with pytest.raises(InvalidSettings, match=f"this version needs {NEXT}: run memforest db upgrade"):
                    check_ready(engine)
                assert upgrade(settings) == NEXT
                check_ready(engine)
            with connected(settings) as connection:
                assert current_revision(connection) == NEXT
                connection.execute(sa.text("SET LOCAL memforest.across = 'on'"))
                assert connection.scalars(sa.text("SELECT mood FROM memforest.forest")).all() == ["calm", "calm"]
                applied = connection.execute(sa.text("SELECT revision, follows, compatible FROM memforest.migration"))
                assert (NEXT, head_revision(), compatible) in [tuple(row) for row in applied]
                assert connection.scalar(TRIGGER) == 1
            if compatible:
                check_ready(engine)
            else:
                with pytest.raises(InvalidSettings, match="newer than this version"):
                    check_ready(engine)
        finally:
            engine.dispose()


@pytest.mark.parametrize("revision", ["0001", "0027"])
def test_a_database_of_a_development_version_is_refused_and_stays_as_it_is(
    servers: SessionServers, revision: str
) -> None:
    with empty(servers) as settings:
        upgrade(settings)
        with connected(settings) as connection:
            connection.execute(sa.text("UPDATE memforest.schema_version SET version_num = :r"), {"r": revision})
            if revision == "0001":
                connection.execute(sa.text("DROP TABLE memforest.migration"))
        made = objects(settings)
        engine = open_engine(settings)
        try:
            for refused in (lambda: upgrade(settings), lambda: check_ready(engine)):
                with pytest.raises(InvalidSettings, match="memforest export of that version") as caught:
                    refused()
                assert f"schema {revision} of a development version" in caught.value.message
        finally:
            engine.dispose()
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
