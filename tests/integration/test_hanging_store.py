"""A Postgres that hangs: no error comes, and every call ends all the same, with a sentence that says so."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
import sqlalchemy as sa
from pydantic import SecretStr

from memforest_core import MemForest
from memforest_core.client.embedded.node import embedded_settings
from memforest_core.client.embedded.servers import EmbeddedServers
from memforest_core.errors import StoreUnavailable
from memforest_core.models.calls import Embedder
from memforest_core.settings import DatabaseSettings, Settings, load_settings
from memforest_core.store.deadlines import patiently, within
from memforest_core.store.engine import autocommitting, open_engine, transaction, unhurried
from memforest_core.store.schema import upgrade
from tests.harness.proxy import Door, door
from tests.harness.sayings import said
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack, database, opened, settings_for

SHORT = {"answer_timeout_s": 0.5, "statement_timeout_ms": 60_000}
CALLS: dict[str, Callable[[MemForest], object]] = {
    "enqueue": lambda memory: memory.enqueue("ann", "other", said("I like tea.")),
    "append": lambda memory: memory.append("ann", None, said("I like tea.")[0]),
    "remember": lambda memory: memory.remember("ann", "I like tea."),
    "status": lambda memory: memory.status("ann", "base"),
    "recall": lambda memory: memory.recall("ann", "Where do I live?"),
    "context": lambda memory: memory.context("ann", "base"),
    "quota": lambda memory: memory.quota(),
}
WAITING: dict[str, Callable[[MemForest], object]] = {
    "enqueue": lambda memory: memory.enqueue("ann", "third", said("I like tea."), wait="facts", timeout_s=0.5),
    "wait": lambda memory: memory.wait("ann", "base", timeout_s=0.5),
    "flush": lambda memory: memory.flush("ann", timeout_s=0.5),
}
PATIENCE_S = 60.0
"""Only a call that hangs takes so long."""


def refused(call: Callable[[MemForest], object], memory: MemForest) -> str:
    """The sentence of a call that must end by itself."""
    sentences: list[str] = []

    def run() -> None:
        try:
            call(memory)
        except StoreUnavailable as error:
            sentences.append(error.message)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive(), "the call hangs"
    [sentence] = sentences
    return sentence


@contextmanager
def stopped(servers: EmbeddedServers) -> Iterator[None]:
    """All processes of a Postgres stand still."""
    parent = psutil.Process(servers.postgres.pid)
    family = [parent, *parent.children(recursive=True)]
    for process in family:
        process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for process in family:
            process.send_signal(signal.SIGCONT)


@contextmanager
def behind_network(address: DatabaseSettings) -> Iterator[tuple[DatabaseSettings, Door]]:
    """The same database over TCP, by way of a network that can stop to carry answers."""
    url = sa.make_url(address.url.get_secret_value())
    with door(f"unix://{url.query['host']}/.s.PGSQL.{url.query['port']}") as network:
        outside = url.set(host="127.0.0.1", port=urlsplit(network.url).port, query={})
        shown = outside.render_as_string(hide_password=False)
        yield address.model_copy(update={"url": SecretStr(shown)}), network


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServers]:
    with EmbeddedServers.start(tmp_path_factory.mktemp("hanging") / "data") as servers:
        yield servers


@pytest.fixture(scope="module")
def settings(own: EmbeddedServers, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    settings = embedded_settings(load_settings(database=SHORT), own)
    upgrade(settings.database)
    index = settings.index.model_copy(update={"path": tmp_path_factory.mktemp("hanging") / "index"})
    return settings.model_copy(update={"index": index})


@contextmanager
def reported(settings: Settings, embedder: Embedder) -> Iterator[Stack]:
    """A stack whose memory has what Ann said."""
    with opened(settings, embedder) as running:
        running.memory.enqueue("ann", "base", said("I live in Oslo."))
        running.drive()
        yield running


@pytest.fixture(scope="module")
def shared(settings: Settings, embedder: Embedder) -> Iterator[Stack]:
    """One for all calls: a connection that gave up an answer is not used again."""
    with reported(settings, embedder) as running:
        yield running


@pytest.mark.parametrize("name", CALLS)
def test_a_call_to_a_stopped_postgres_ends_on_a_pooled_connection_and_on_a_new_one(
    own: EmbeddedServers, shared: Stack, name: str
) -> None:
    with stopped(own):
        first, second = refused(CALLS[name], shared.memory), refused(CALLS[name], shared.memory)
    assert "did not answer within" in first
    assert "Postgres" in second
    CALLS[name](shared.memory)


def test_a_wait_for_a_stage_ends_with_its_own_timeout(
    own: EmbeddedServers, settings: Settings, tmp_path: Path, embedder: Embedder
) -> None:
    """Given a deadline of calls that is long, when a call waits for a stage, then its own timeout bounds each answer."""
    database = settings.database.model_copy(update={"answer_timeout_s": 3_600.0})
    index = settings.index.model_copy(update={"path": tmp_path / "index"})
    long = settings.model_copy(update={"database": database, "index": index})
    with reported(long, embedder) as running:
        for call in WAITING.values():
            running.memory.quota()  # on a connection that goes to the pool
            with stopped(own):
                assert "did not answer within" in refused(call, running.memory)


def test_calls_over_a_network_that_drops_packets_end(
    servers: SessionServers, tmp_path: Path, embedder: Embedder
) -> None:
    with database(servers) as direct, behind_network(direct) as (address, network):
        settings = settings_for(address.model_copy(update=SHORT), servers.broker_url, tmp_path / "index")
        with reported(settings, embedder) as running:
            for call in CALLS.values():
                call(running.memory)
                network.freeze()
                assert "did not answer within" in refused(call, running.memory)
                network.reopen()


@pytest.fixture
def short(servers: SessionServers) -> Iterator[DatabaseSettings]:
    with database(servers) as address:
        yield address.model_copy(update={"answer_timeout_s": 0.2, "pool_size": 1, "max_overflow": 0})


SLOW = sa.text("SELECT pg_sleep(0.8)")


def test_long_work_waits_for_its_statements(short: DatabaseSettings) -> None:
    """A statement of a worker, of an unhurried transaction and outside of transactions may take longer than a call."""
    engine = open_engine(short)
    with patiently(), transaction(engine) as connection:
        connection.execute(SLOW)
    with transaction(engine) as connection:
        unhurried(connection)
        connection.execute(SLOW)
    with autocommitting(engine) as connection:
        connection.execute(SLOW)
    with pytest.raises(StoreUnavailable, match="did not answer within"), transaction(engine) as connection:
        connection.execute(SLOW)
    engine.dispose()


def test_what_one_block_waits_for_is_bounded_as_a_whole(short: DatabaseSettings) -> None:
    engine = open_engine(short.model_copy(update={"answer_timeout_s": 3_600.0}))

    def many() -> None:
        with within(0.5), transaction(engine) as connection:
            for _ in range(10):
                connection.execute(sa.text("SELECT pg_sleep(0.2)"))

    with pytest.raises(StoreUnavailable, match="did not answer within"):
        many()
    engine.dispose()


def test_tcp_connections_notice_a_peer_that_is_gone(servers: SessionServers) -> None:
    with database(servers) as direct, behind_network(direct) as (address, _):
        engine = open_engine(address)
        with engine.connect() as connection:
            driver = connection.connection.driver_connection
            assert driver is not None
            options = driver.info.get_parameters()
        engine.dispose()
    assert options["tcp_user_timeout"] == "10000"
    assert options["keepalives_idle"] == "10"
