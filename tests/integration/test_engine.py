"""Connections: settings for a transaction only, errors that pass with time, and a pooler that shifts sessions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import pytest
import sqlalchemy as sa

from memforest_core.client.producer import MemForestClient
from memforest_core.domain.ids import TenantId
from memforest_core.errors import InvalidSettings, StoreUnavailable
from memforest_core.models.calls import Embedder
from memforest_core.settings import DatabaseSettings, DeploymentSettings, Settings
from memforest_core.store.connections import check_connections
from memforest_core.store.engine import autocommitting, open_engine, tenant_transaction, transaction, unhurried
from tests.harness.pgbouncer import pooled
from tests.harness.sayings import said
from tests.harness.servers import SessionServers
from tests.harness.stack import database, opened, settings_for

TENANT = TenantId("default")
SETTINGS = (
    "statement_timeout",
    "lock_timeout",
    "idle_in_transaction_session_timeout",
    "transaction_timeout",
    "timezone",
    "jit",
)
OURS = ["1234ms", "567ms", "1min", "5min", "UTC", "off"]


def shown(connection: sa.Connection) -> list[str]:
    return [str(connection.scalar(sa.text(f"SHOW {name}"))) for name in SETTINGS]


@pytest.fixture
def address(servers: SessionServers) -> Iterator[DatabaseSettings]:
    with database(servers) as settings:
        yield settings.model_copy(
            update={"statement_timeout_ms": 1_234, "lock_timeout_ms": 567, "pool_size": 1, "max_overflow": 0}
        )


@pytest.fixture
def engine(address: DatabaseSettings) -> Iterator[sa.Engine]:
    """With one connection, so that each transaction has the one before it on its own."""
    made = open_engine(address)
    yield made
    made.dispose()


def test_timeouts_and_time_zone_are_those_of_the_settings_and_end_with_the_transaction(engine: sa.Engine) -> None:
    with engine.connect() as connection:
        plain = shown(connection)
    with tenant_transaction(engine, TENANT) as connection:
        assert shown(connection) == OURS
        assert connection.scalar(sa.text("SELECT current_setting('memforest.tenant')")) == TENANT
    with transaction(engine) as connection:
        assert shown(connection) == OURS
        assert connection.scalar(sa.text("SELECT current_setting('memforest.tenant')")) == ""
    with engine.connect() as connection:
        assert shown(connection) == plain


@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ", "AUTOCOMMIT"])
def test_a_connection_that_was_lost_in_the_pool_is_replaced_unseen(
    engine: sa.Engine, address: DatabaseSettings, isolation: str
) -> None:
    own = sa.text("SELECT pg_backend_pid()")
    with tenant_transaction(engine, TENANT) as connection:
        lost = connection.scalar(own)
    other = open_engine(address)
    with transaction(other) as connection:
        assert connection.scalar(sa.text("SELECT pg_terminate_backend(:lost, 5000)"), {"lost": lost})
    other.dispose()
    if isolation == "AUTOCOMMIT":
        with autocommitting(engine) as connection:
            assert connection.scalar(own) != lost
    else:
        with tenant_transaction(engine, TENANT, isolation_level=isolation) as connection:
            assert connection.scalar(own) != lost
            assert connection.scalar(sa.text("SHOW transaction_isolation")) == isolation.lower()
            assert connection.scalar(sa.text("SELECT current_setting('memforest.tenant')")) == TENANT
    with tenant_transaction(engine, TENANT) as connection:
        assert connection.scalar(sa.text("SHOW transaction_isolation")) == "read committed"


def test_what_began_on_a_connection_that_is_lost_then_is_not_repeated(
    engine: sa.Engine, address: DatabaseSettings
) -> None:
    other, begun = open_engine(address), []

    def lose_it() -> None:
        with tenant_transaction(engine, TENANT) as connection:
            begun.append(connection.scalar(sa.text("SELECT pg_backend_pid()")))
            with transaction(other) as killing:
                killing.execute(sa.text("SELECT pg_terminate_backend(:lost, 5000)"), {"lost": begun[-1]})
            connection.execute(sa.text("SELECT 1"))

    with pytest.raises(StoreUnavailable):
        lose_it()
    other.dispose()
    assert len(begun) == 1


def test_a_statement_that_takes_too_long_is_ended(engine: sa.Engine) -> None:
    with pytest.raises(StoreUnavailable, match="57014"), tenant_transaction(engine, TENANT) as connection:
        connection.execute(sa.text("SELECT pg_sleep(60)"))


def test_what_takes_as_long_as_its_rows_need_has_no_timeout_but_for_locks(engine: sa.Engine) -> None:
    with tenant_transaction(engine, TENANT) as connection:
        unhurried(connection)
        assert shown(connection) == ["0", "567ms", "0", "0", "UTC", "off"]


def test_a_process_that_pauses_after_a_pipeline_does_not_hold_locks_forever(engine: sa.Engine) -> None:
    """Postgres does not count idle time after rows that were sent together, so the whole transaction has a limit."""

    def stand_still() -> None:
        with tenant_transaction(engine, TENANT) as connection:
            for limit in ("0", "300"):
                connection.execute(sa.text("SELECT set_config('transaction_timeout', :limit, true)"), {"limit": limit})
            many = [{"tenant": f"{TENANT}-{number}"} for number in range(2)]
            connection.execute(sa.text("SELECT set_config('memforest.tenant', :tenant, true)"), many)
            time.sleep(1.0)

    with pytest.raises(StoreUnavailable):
        stand_still()


LOSE = "DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$"
TAKE = "DO $$ BEGIN FOR n IN 0..9 LOOP EXECUTE 'PREPARE _pg3_' || n || ' AS SELECT 1'; END LOOP; END $$"


def backend(engine: sa.Engine) -> int:
    with engine.connect() as connection:
        return int(connection.scalar(sa.text("SELECT pg_backend_pid()")) or 0)


@pytest.mark.parametrize(("shift", "state"), [(LOSE, "26000"), (TAKE, "42P05")])
def test_a_connection_whose_prepared_statements_are_out_of_step_is_discarded(
    engine: sa.Engine, shift: str, state: str
) -> None:
    """Given a pooler that gave the connection another session, then the work can be tried again, on a new one."""

    def ask(times: int) -> None:
        for _ in range(times):
            with tenant_transaction(engine, TENANT) as connection:
                connection.execute(sa.text("SELECT count(*) FROM memforest.tenant"))

    before = backend(engine)
    ask(8 if shift == LOSE else 1)
    with engine.begin() as connection:
        connection.exec_driver_sql(shift)

    with pytest.raises(StoreUnavailable, match=rf"{state}.*MEMFOREST_DATABASE__POOLER=transaction"):
        ask(8)
    ask(8)
    assert backend(engine) != before


# PgBouncer in transaction mode


def test_everything_works_through_a_transaction_pooler(
    servers: SessionServers, tmp_path: Path, embedder: Embedder
) -> None:
    """Given three server connections, when twelve clients accept at once and workers, recall and a deletion follow,
    then nothing fails, and no setting of one transaction reaches another."""
    with database(servers) as direct, pooled(servers, direct, connections=3) as address:
        settings = settings_for(address, servers.broker_url, tmp_path / "index")

        def accept(number: int) -> None:
            client = MemForestClient(settings)
            for session in range(8):
                client.enqueue(f"owner-{number}", f"s-{session}", said(f"I live in Oslo {session}.", "Nice."))
            client.close()

        with ThreadPoolExecutor(12) as threads:
            for accepted in [threads.submit(accept, number) for number in range(12)]:
                accepted.result()

        with opened(settings, embedder) as pipeline:
            assert pipeline.counts()["session"] == 96
            pipeline.drive(300)
            assert "Oslo" in pipeline.memory.recall("owner-3", "Where do I live?").evidence[0].text
            operation = pipeline.memory.lifecycle.forget("owner-3", everything=True, actor="test")
            pipeline.drive(300)
            assert pipeline.memory.lifecycle.receipt(operation.id).clean
            assert pipeline.memory.recall("owner-4", "Where do I live?").evidence
            backends = pipeline.rows(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND usename = 'memforest_app'"
            )
            assert 1 <= backends[0][0] <= 3
            with pipeline.services.engine.connect() as connection:
                assert shown(connection)[:2] == ["0", "0"]
                assert not connection.scalar(sa.text("SELECT current_setting('memforest.tenant', true)"))


@pytest.mark.parametrize("pooler", ["auto", "transaction"])
def test_a_pooler_is_noticed_and_nothing_is_prepared(
    servers: SessionServers, tmp_path: Path, pooler: Literal["auto", "transaction"]
) -> None:
    """Given many runs of a statement over two sessions of the server, then none of them fails, and the server's
    connections are not counted: the pooler limits them."""
    with database(servers) as direct, pooled(servers, direct, connections=2) as address:
        address = address.model_copy(update={"pooler": pooler})
        engine = open_engine(address)

        def ask() -> int:
            for _ in range(40):
                with tenant_transaction(engine, TENANT) as connection:
                    connection.execute(sa.text("SELECT count(*) FROM memforest.tenant"))
            return 40

        with ThreadPoolExecutor(6) as threads:
            assert sum(requested.result() for requested in [threads.submit(ask) for _ in range(6)]) == 240
        check_connections(engine, crowded(settings_for(address, servers.broker_url, tmp_path)))
        engine.dispose()


def crowded(settings: Settings) -> Settings:
    """More processes than any server has connections for."""
    return settings.model_copy(update={"deployment": DeploymentSettings(worker_processes=10_000)})


def test_without_a_pooler_statements_are_prepared_and_connections_counted(
    servers: SessionServers, engine: sa.Engine, tmp_path: Path, address: DatabaseSettings
) -> None:
    for _ in range(8):
        with transaction(engine):
            pass
    with transaction(engine) as connection:
        assert connection.scalar(sa.text("SELECT count(*) FROM pg_prepared_statements")) >= 1
    with pytest.raises(InvalidSettings, match="max_connections"):
        check_connections(engine, crowded(settings_for(address, servers.broker_url, tmp_path)))
