"""Reads that go together: bound to a tenant, timed out, repeated on a new connection, and behind a pooler."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

from memforest_core.domain.ids import TenantId
from memforest_core.errors import InvariantViolated, StoreUnavailable
from memforest_core.settings import DatabaseSettings
from memforest_core.store.engine import open_engine, tenant_transaction, transaction
from memforest_core.store.reads import Read, Reader, Rows
from tests.harness.pgbouncer import pooled
from tests.harness.servers import SessionServers
from tests.harness.stack import database

TENANT, OTHER = TenantId("default"), TenantId("other")


@pytest.fixture(scope="module")
def address(servers: SessionServers) -> Iterator[DatabaseSettings]:
    with database(servers) as settings:
        yield settings.model_copy(update={"statement_timeout_ms": 1_234, "pool_size": 1, "max_overflow": 0})


@pytest.fixture
def engine(address: DatabaseSettings) -> Iterator[sa.Engine]:
    """With one connection, so that each call has the one before it on its own."""
    made = open_engine(address)
    yield made
    made.dispose()


def rows_of(text: str, **values: object) -> Read[Rows]:
    return Read(sa.text(text), values, lambda rows: rows)


def number_of(text: str, **values: object) -> Read[Any]:
    return Read(sa.text(text), values, lambda rows: rows[0][0])


BACKEND = number_of("SELECT pg_backend_pid()")
TENANTS = rows_of("SELECT tenant_id FROM memforest.tenant WHERE tenant_id = ANY(:all)", all=[TENANT, OTHER])
SHOWN = rows_of(
    "SELECT name, setting FROM pg_settings WHERE name = ANY(:names) ORDER BY name", names=["TimeZone", "jit"]
)


def test_reads_one_after_the_other_have_one_connection_of_many(address: DatabaseSettings) -> None:
    many = open_engine(address.model_copy(update={"pool_size": 3}))
    opened = [many.connect() for _ in range(3)]
    for each in opened:
        each.close()
    assert len({Reader(many, TENANT).one(BACKEND) for _ in range(6)}) == 1
    many.dispose()


def test_reads_by_ids_are_planned_once_and_never_read_a_whole_table(engine: sa.Engine) -> None:
    """Given reads that look rows up by ids, when they are repeated on a connection, then each is planned once for all
    values, with an index; other reads of the same connection are planned as ever."""
    requested = rows_of("SELECT tenant_id FROM memforest.tenant WHERE tenant_id = :t", t=TENANT)
    plans = rows_of(
        "SELECT sum(generic_plans), sum(custom_plans) FROM pg_prepared_statements WHERE statement ~ :s",
        s="SELECT tenant_id FROM memforest.tenant WHERE tenant_id = ",
    )
    planning = rows_of("SELECT current_setting('plan_cache_mode'), current_setting('enable_seqscan')")
    by_ids, others = Reader(engine, TENANT, by_ids=True), Reader(engine, TENANT)
    for _ in range(9):
        by_ids.one(requested)
    [(generic, custom)] = others.one(plans)
    assert generic > 0
    assert custom == 0
    assert by_ids.one(planning) == [("force_generic_plan", "off")]
    assert others.one(planning) == [("auto", "on")]


def test_reads_are_prepared_again_when_the_driver_has_given_back_what_was_prepared(engine: sa.Engine) -> None:
    """Given reads that are prepared on a connection, when a transaction on it that the driver has prepared a statement
    for is rolled back, then the driver gives back all of them, and the next reads find their rows all the same."""
    reader = Reader(engine, TENANT, by_ids=True)
    prepared = number_of("SELECT count(*) FROM pg_prepared_statements WHERE name LIKE :own", own="memforest%")
    requested = number_of("SELECT CAST(:n AS int) + 1", n=4), number_of("SELECT CAST(:said AS text)", said="five")
    assert reader.together(*requested) == (5, "five")
    assert Reader(engine, TENANT).one(prepared) == 3
    with engine.connect() as connection:
        for _ in range(7):
            connection.execute(sa.text("SELECT 6"))
        connection.rollback()
        assert connection.scalar(sa.text("SELECT count(*) FROM pg_prepared_statements")) == 0
    assert reader.together(*requested) == (5, "five")
    assert Reader(engine, TENANT).one(prepared) == 3


def test_an_interrupt_while_answers_are_awaited_ends_that_connection_alone(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a thread that is stopped while Postgres works, then the connection is not used again with its answers in
    it: the next read has its own rows."""
    reader = Reader(engine, TENANT, by_ids=True)
    before = reader.one(BACKEND)

    class Stopped(BaseException):
        pass

    def stopped(*_: object, **__: object) -> None:
        raise Stopped

    with monkeypatch.context() as patched:
        patched.setattr("psycopg.Connection.wait", stopped)
        with pytest.raises(Stopped):
            reader.together(number_of("SELECT 1"), number_of("SELECT 2"))
    assert reader.together(number_of("SELECT 3"), number_of("SELECT 4")) == (3, 4)
    assert reader.one(BACKEND) != before


def test_what_goes_together_comes_in_its_order_and_nothing_is_sent_for_no_statement(engine: sa.Engine) -> None:
    reader = Reader(engine, TENANT)
    nothing: Read[str] = Read(None, {}, lambda rows: f"{len(rows)} rows")
    assert reader.together(number_of("SELECT :n + 1", n=1), nothing, rows_of("SELECT 'a' UNION ALL SELECT '%'")) == (
        2,
        "0 rows",
        [("a",), ("%",)],
    )
    sent: list[str] = []
    sa.event.listen(engine, "before_cursor_execute", lambda *seen: sent.append(seen[2]))
    assert reader.one(nothing) == "0 rows"
    assert not sent
    reader.together(number_of("SELECT 3"), nothing)
    assert [text.split()[0] for text in sent] == ["SELECT", "SELECT"]


def test_a_tracer_that_listens_to_statements_notes_what_it_began_in_their_contexts(engine: sa.Engine) -> None:
    """Given a listener as Sentry's, when reads succeed and fail, then each statement's span ends, the last one first."""
    spans: list[str] = []

    def begin(_connection: object, _cursor: object, text: str, _values: object, context: Any, _many: bool) -> None:
        context.span = f"{len(spans)} {context.dialect.name}"
        spans.append(context.span)

    def end(_connection: object, _cursor: object, _text: str, _values: object, context: Any, _many: bool) -> None:
        assert spans.pop() == context.span

    sa.event.listen(engine, "before_cursor_execute", begin)
    sa.event.listen(engine, "after_cursor_execute", end)
    reader = Reader(engine, TENANT)
    assert reader.together(number_of("SELECT 3"), number_of("SELECT 4")) == (3, 4)
    assert spans == []
    with pytest.raises(InvariantViolated):
        reader.one(number_of("SELECT 1 / 0"))
    assert spans == []


def test_reads_see_their_tenant_alone_and_leave_nothing_on_the_connection(engine: sa.Engine) -> None:
    for tenant in (TENANT, OTHER):
        with tenant_transaction(engine, tenant) as connection:
            insert = "INSERT INTO memforest.tenant (tenant_id) VALUES (:t) ON CONFLICT DO NOTHING"
            connection.execute(sa.text(insert), {"t": tenant})
    assert Reader(engine, TENANT).one(TENANTS) == [(TENANT,)]
    assert Reader(engine, OTHER).together(TENANTS, SHOWN) == ([(OTHER,)], [("TimeZone", "UTC"), ("jit", "off")])
    with engine.connect() as connection:
        assert not connection.scalar(sa.text("SELECT current_setting('memforest.tenant', true)"))
        assert connection.scalar(sa.text("SHOW statement_timeout")) == "0"
        # What follows is a transaction again, not one statement after the other.
        connection.execute(sa.text("CREATE TEMPORARY TABLE kept (n int)"))
        connection.rollback()
        assert not connection.scalar(sa.text("SELECT count(*) FROM pg_class WHERE relname = 'kept'"))


def test_a_statement_that_takes_too_long_is_ended_and_the_connection_goes_on(engine: sa.Engine) -> None:
    reader = Reader(engine, TENANT)
    before = reader.one(BACKEND)
    with pytest.raises(StoreUnavailable, match="57014"):
        reader.together(BACKEND, number_of("SELECT pg_sleep(60)"), number_of("SELECT 1"))
    assert reader.one(BACKEND) == before


def test_a_refused_statement_reports_its_state_and_no_values(engine: sa.Engine) -> None:
    with pytest.raises(InvariantViolated, match="22P02") as caught:
        Reader(engine, TENANT).together(BACKEND, number_of("SELECT CAST(:reported AS int)", reported="a secret"))
    assert "secret" not in str(caught.value)


def test_a_connection_that_was_lost_in_the_pool_is_replaced_unseen(
    engine: sa.Engine, address: DatabaseSettings
) -> None:
    reader = Reader(engine, TENANT)
    lost = reader.one(BACKEND)
    other = open_engine(address)
    with transaction(other) as connection:
        assert connection.scalar(sa.text("SELECT pg_terminate_backend(:lost, 5000)"), {"lost": lost})
    other.dispose()
    assert reader.one(BACKEND) != lost
    assert reader.one(SHOWN) == [("TimeZone", "UTC"), ("jit", "off")]


def test_an_unavailable_store_is_named(engine: sa.Engine) -> None:
    unavailable = open_engine(DatabaseSettings.model_validate({"url": "postgresql+psycopg://nobody@localhost:1/none"}))
    with pytest.raises(StoreUnavailable):
        Reader(unavailable, TENANT).one(BACKEND)


@pytest.mark.parametrize("pooler", ["auto", "transaction"])
def test_behind_a_pooler_concurrent_callers_find_what_they_ask_for(
    servers: SessionServers, address: DatabaseSettings, pooler: str
) -> None:
    """Given two server connections and six callers of two tenants, each sees its own tenant, each time."""
    with pooled(servers, address, connections=2) as pooled_address:
        engine = open_engine(pooled_address.model_copy(update={"pooler": pooler, "pool_size": 6}))
        bound = number_of("SELECT current_setting('memforest.tenant')")

        def ask(tenant: TenantId) -> set[tuple[str, int, str]]:
            reader = Reader(engine, tenant)
            return {reader.together(bound, number_of("SELECT 7"), bound) for _ in range(40)}

        with ThreadPoolExecutor(6) as threads:
            requested = [(tenant, threads.submit(ask, tenant)) for tenant in (TENANT, OTHER) * 3]
            assert all(found.result() == {(tenant, 7, tenant)} for tenant, found in requested)
        engine.dispose()
