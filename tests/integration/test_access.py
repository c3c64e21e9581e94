"""Who sees what: the owner of the tables is bound to its tenant too, and a role of single tenants reaches no other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest
import sqlalchemy as sa
import typer
from pydantic import SecretStr
from typer.testing import CliRunner

from memforest_core.client.api import MemForest
from memforest_core.client.producer import MemForestClient
from memforest_core.client.services.service import open_services
from memforest_core.domain.ids import TenantId
from memforest_core.errors import InvalidInput, InvalidSettings, InvariantViolated, MemForestError
from memforest_core.models.calls import Embedder
from memforest_core.settings import DatabaseSettings, Settings
from memforest_core.store.access import grant, revoke
from memforest_core.store.cli import tenants as tenants_command
from memforest_core.store.engine import open_engine, tenant_transaction, transaction
from memforest_core.store.schema import check_ready, upgrade
from memforest_core.work.audit import AuditLog
from memforest_core.work.jobs import WorkKind
from memforest_core.work.records import AuditEntry
from memforest_core.work.rows.operation_rows import OperationRows
from tests.harness.sayings import said
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack, admin, at, database, settings_for

ACME, OTHER = TenantId("acme"), TenantId("other")


@contextmanager
def role(servers: SessionServers, options: str = "") -> Iterator[str]:
    """A login role; what it owns is dropped with its database before."""
    name = f"role_{uuid4().hex[:12]}"
    admin(servers, f"CREATE ROLE {name} LOGIN {options}")
    try:
        yield name
    finally:
        admin(servers, f"DROP OWNED BY {name}")
        admin(servers, f"DROP ROLE {name}")


@contextmanager
def owned_by(servers: SessionServers, owner: str) -> Iterator[DatabaseSettings]:
    """A database that its owner has upgraded and serves from: nothing but one address is set."""
    name = f"solo_{uuid4().hex}"
    admin(servers, f"CREATE DATABASE {name} OWNER {owner}")
    try:
        settings = DatabaseSettings(url=SecretStr(at(servers.postgres_url, database=name, user=owner)))
        upgrade(settings)
        yield settings
    finally:
        admin(servers, f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def engine_of(settings: DatabaseSettings, user: str | None = None) -> Iterator[sa.Engine]:
    url = settings.url.get_secret_value()
    engine = open_engine(settings, sa.make_url(url).set(username=user).render_as_string(False) if user else url)
    try:
        yield engine
    finally:
        engine.dispose()


def working_as(settings: Settings, user: str) -> Settings:
    """The same installation, with another role in its address."""
    url = sa.make_url(settings.database.url.get_secret_value()).set(username=user)
    address = settings.database.model_copy(update={"url": SecretStr(url.render_as_string(False))})
    return settings.model_copy(update={"database": address})


# The owner of the tables


def test_the_owner_of_the_tables_sees_its_tenants_rows_only(servers: SessionServers) -> None:
    """Given one address for everything, then row-level security binds it as it binds a role of its own."""
    with role(servers, "CREATEROLE") as owner, owned_by(servers, owner) as settings, engine_of(settings) as engine:
        check_ready(engine)
        for tenant in (ACME, OTHER):
            with tenant_transaction(engine, tenant) as connection:
                connection.execute(sa.text("INSERT INTO memforest.tenant (tenant_id) VALUES (:t)"), {"t": tenant})

            with OperationRows.opened(engine, tenant) as noting:
                noting.note(AuditEntry("tester", "erase", "done"))
            assert AuditLog(partial(OperationRows.opened, engine), None).verify(tenant).head.rows == 1

        rows = sa.text("SELECT tenant_id FROM memforest.tenant")
        with transaction(engine) as connection:
            assert connection.scalars(rows).all() == []
        with tenant_transaction(engine, ACME) as connection:
            assert connection.scalars(rows).all() == [ACME]
        with pytest.raises(InvariantViolated, match="42501"), tenant_transaction(engine, ACME) as connection:
            connection.execute(sa.text("UPDATE memforest.tenant SET tenant_id = 'third'"))


def test_the_whole_of_memory_works_for_the_owner_of_the_tables(
    servers: SessionServers, tmp_path: Path, embedder: Embedder
) -> None:
    """Given one address, then workers find the work of all tenants, and it is done."""
    from memforest_workers.runtime import Runtime

    with role(servers, "CREATEROLE") as owner, owned_by(servers, owner) as address:
        settings = settings_for(address, servers.broker_url, tmp_path / "index")
        services = open_services(settings, embedder=embedder)
        services.index.prepare()
        runtime = Runtime(services, ["extract", "reduce", "refresh", "maintain"], name="test")
        services.jobs.register(runtime.worker, runtime.name, runtime.queues)
        for tenant, city in ((ACME, "Oslo"), (OTHER, "Davis")):
            client = MemForestClient(settings.model_copy(update={"tenant": tenant}))
            client.enqueue("bob", "s1", said(f"I live in {city}.", "Nice."))
            client.close()

        assert sorted(services.jobs.waiting(WorkKind.EXTRACT)) == [ACME, OTHER]
        while runtime.extract() + runtime.reduce() + runtime.maintain():
            pass

        found = services.recall.recall(ACME, "bob", "Where does Bob live?")
        assert "Oslo" in found.evidence[0].text
        assert not any("Davis" in piece.text for piece in found.evidence)
        upgrade(address)
        services.close()


@pytest.mark.parametrize("options", ["SUPERUSER", "BYPASSRLS"])
def test_a_role_that_row_security_does_not_bind_is_refused(servers: SessionServers, options: str) -> None:
    with role(servers, options) as name, database(servers) as settings:
        grants = f"GRANT memforest_service TO {name}"
        admin(servers, grants)
        with engine_of(settings, name) as engine, pytest.raises(InvalidSettings, match="sees rows of all tenants"):
            check_ready(engine)


@pytest.mark.parametrize(
    "hole",
    [
        "ALTER TABLE memforest.turn NO FORCE ROW LEVEL SECURITY",
        "ALTER TABLE memforest.fact DISABLE ROW LEVEL SECURITY",
        "CREATE POLICY everybody ON memforest.tenant USING (true)",
    ],
)
def test_a_hole_in_row_security_is_found_by_trying(servers: SessionServers, hole: str) -> None:
    with role(servers, "CREATEROLE") as owner, owned_by(servers, owner) as settings, engine_of(settings) as engine:
        check_ready(engine)
        with engine.begin() as connection:
            connection.execute(sa.text(hole))

        with pytest.raises(InvalidSettings, match="sees rows of all tenants"):
            check_ready(engine)


def test_the_check_leaves_nothing_behind(pipeline: Stack) -> None:
    before = pipeline.counts()
    check_ready(pipeline.services.engine)
    assert pipeline.counts() == before


def test_each_table_of_a_tenant_is_forced_and_each_look_across_returns_ids(pipeline: Stack) -> None:
    """Given the schema, then each table with a tenant has a fence, a right of single-tenant roles and the owner's way
    in, and every function that runs as the owner lifts the fence for its own query only."""
    open_tables = pipeline.rows(
        """SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
            WHERE c.relnamespace = 'memforest'::regnamespace AND c.relkind = 'r' AND a.attname = 'tenant_id'
              AND NOT (c.relrowsecurity AND c.relforcerowsecurity
                       AND (SELECT array_agg(polname::text ORDER BY polname) FROM pg_policy WHERE polrelid = c.oid)
                           = '{across_tenants,granted_tenants,tenant_isolation}'
                       AND has_any_column_privilege('memforest_limited', c.oid, 'INSERT'))"""
    )
    assert open_tables == []
    functions = pipeline.rows(
        """SELECT proname, prosrc FROM pg_proc WHERE pronamespace = 'memforest'::regnamespace
              AND prosecdef AND proretset AND 'tenant_id' = ANY(proargnames)"""
    )
    assert {"waiting", "next_waiting", "lost", "backlog", "tenants"} <= {row.proname for row in functions}
    for row in functions:
        assert "set_config('memforest.across', 'on', true)" in row.prosrc, row.proname
        assert row.prosrc.rstrip().endswith("PERFORM set_config('memforest.across', '', true);\nEND"), row.proname


def test_the_service_cannot_lift_the_fence(pipeline: Stack) -> None:
    """Given a worker's role, then the setting that the owner's policy reads opens nothing to it."""
    pipeline.memory.client.enqueue("bob", "s1", said("I live in Oslo."))
    with transaction(pipeline.services.engine) as connection:
        connection.execute(sa.text("SELECT set_config('memforest.across', 'on', true)"))
        assert connection.scalar(sa.text("SELECT count(*) FROM memforest.turn")) == 0


# Roles of single tenants


@pytest.fixture
def shop(servers: SessionServers, pipeline: Stack) -> Iterator[str]:
    """A login role that was granted the tenant acme; there are sessions of acme and of another tenant, worked through."""
    for tenant, city in ((ACME, "Oslo"), (OTHER, "Davis")):
        client = MemForestClient(pipeline.settings.model_copy(update={"tenant": tenant}))
        client.enqueue("bob", "s1", said(f"I live in {city}.", "Nice."))
        client.close()
    pipeline.drive()
    with role(servers) as name:
        assert grant(pipeline.settings.database, name, ACME) == [ACME]
        yield name


def test_the_credentials_of_one_tenant_reach_no_other(pipeline: Stack, shop: str) -> None:
    """Given a taken-over app server's role, when it binds itself to another tenant, then it sees and writes nothing."""
    with engine_of(pipeline.settings.database, shop) as engine:
        with tenant_transaction(engine, ACME) as connection:
            assert connection.scalars(sa.text("SELECT DISTINCT tenant_id FROM memforest.turn")).all() == [ACME]
        with tenant_transaction(engine, OTHER) as connection:
            tables = [row[0] for row in pipeline.rows("SELECT relname FROM pg_class WHERE relrowsecurity")]
            assert len(tables) >= 15
            for table in tables:
                assert connection.scalar(sa.text(f"SELECT count(*) FROM memforest.{table}")) == 0
        with pytest.raises(InvariantViolated, match="42501"), tenant_transaction(engine, OTHER) as connection:
            connection.execute(
                sa.text(
                    "INSERT INTO memforest.forest (tenant_id, forest_id, owner)"
                    " VALUES ('other', gen_random_uuid(), 'eve')"
                )
            )
        with transaction(engine) as connection:
            assert connection.scalars(sa.text("SELECT tenant_id FROM memforest.tenants()")).all() == [ACME]
            assert {row.tenant_id for row in connection.execute(sa.text("SELECT * FROM memforest.backlog()"))} <= {ACME}


@pytest.mark.parametrize(
    "attempt",
    [
        "SELECT * FROM memforest.tenant_role",
        "INSERT INTO memforest.tenant_role (role, tenant) VALUES (session_user, 'other')",
        "DELETE FROM memforest.worker",
        "UPDATE memforest.collection SET live = false",
        "SET ROLE memforest_service",
        "DROP POLICY granted_tenants ON memforest.turn",
    ],
)
def test_a_role_of_single_tenants_cannot_widen_its_reach(pipeline: Stack, shop: str, attempt: str) -> None:
    with (
        engine_of(pipeline.settings.database, shop) as engine,
        pytest.raises(MemForestError, match=r"42501|has no rights"),
        transaction(engine) as connection,
    ):
        connection.execute(sa.text(attempt))


def test_an_app_server_with_such_a_role_accepts_recalls_and_forgets(
    pipeline: Stack, shop: str, embedder: Embedder, tmp_path: Path
) -> None:
    """Given an app server of one tenant and workers of all tenants, then its sessions are stored, found and deleted."""
    settings = working_as(pipeline.settings, shop).model_copy(update={"tenant": ACME})
    settings = settings.model_copy(update={"index": settings.index.model_copy(update={"path": tmp_path / "empty"})})
    services = open_services(settings, embedder=embedder)
    services.index.prepare()
    memory = MemForest(services)
    memory.client.enqueue("bob", "s2", said("I adopted a dog called Rex.", "Nice."))
    pipeline.drive()

    # Its index is empty: recall reads all tables and finds nothing in it.
    assert memory.recall("bob", "What is the dog called?", trees=["entity"]).owner_known
    assert any("Rex" in fact.text for fact in memory.facts("bob").items)
    memory.timeline("bob", entity="bob")
    operation = memory.lifecycle.forget("bob", everything=True, actor="test")
    pipeline.drive()
    assert memory.lifecycle.receipt(operation.id).clean
    services.close()


def test_grants_are_given_and_taken_by_command(pipeline: Stack, shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    database = pipeline.settings.database
    assert database.migration_url is not None
    monkeypatch.setenv("MEMFOREST_DATABASE__URL", database.url.get_secret_value())
    monkeypatch.setenv("MEMFOREST_DATABASE__MIGRATION_URL", database.migration_url.get_secret_value())
    program = typer.Typer()
    program.add_typer(tenants_command.app)

    def run(*arguments: str) -> object:
        result = CliRunner().invoke(program, [*arguments, "--json"])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    assert run("tenants", "grant", shop, OTHER) == {"role": shop, "tenants": [ACME, OTHER]}
    with engine_of(database, shop) as engine, tenant_transaction(engine, OTHER) as connection:
        assert connection.scalar(sa.text("SELECT count(*) FROM memforest.turn")) == 2
    assert run("tenants", "revoke", shop, OTHER) == {"role": shop, "tenants": [ACME]}
    assert run("tenants", "revoke", shop, ACME) == {"role": shop, "tenants": []}
    with engine_of(database, shop) as engine:
        for tenant in (ACME, OTHER):
            with tenant_transaction(engine, tenant) as connection:
                assert connection.scalar(sa.text("SELECT count(*) FROM memforest.turn")) == 0


def test_only_a_login_role_of_its_own_can_be_limited(servers: SessionServers, pipeline: Stack) -> None:
    workers = sa.make_url(pipeline.settings.database.url.get_secret_value()).username
    assert workers is not None
    for name, why in (
        (workers, "reaches all tenants"),
        ("postgres", "reaches all tenants"),
        ("nobody", "no login role"),
    ):
        with pytest.raises(InvalidInput, match=why):
            grant(pipeline.settings.database, name, ACME)
    assert revoke(pipeline.settings.database, "nobody", ACME) == []


def test_an_upgrade_leaves_a_role_of_single_tenants_as_it_is(pipeline: Stack, shop: str) -> None:
    upgrade(working_as(pipeline.settings, shop).database)
    member = pipeline.rows("SELECT pg_has_role(:r, 'memforest_service', 'MEMBER') AS is_member", r=shop)
    assert not member[0].is_member
