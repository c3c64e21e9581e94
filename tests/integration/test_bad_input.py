"""Bad input and wrong settings: one sentence that says what to change, a stable code, nothing half-written."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from pydantic import SecretStr

from memforest_core.client.api import MemForest
from memforest_core.client.producer import MemForestClient
from memforest_core.client.services.service import open_services
from memforest_core.errors import InvalidSettings, MemForestError, StoreUnavailable
from memforest_core.index.collection_rows import claim_collection
from memforest_core.models.calls import Embedded
from memforest_core.settings import DatabaseSettings, Settings, load_settings
from memforest_core.store.schema import head_revision, upgrade
from tests.harness.next_version import become_next_version
from tests.harness.sayings import said
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack, admin, at, database, owner_of, settings_for, stack

NOWHERE = "postgresql+psycopg://memforest_app@127.0.0.1:1/memforest"


@pytest.fixture(scope="module")
def stored(servers: SessionServers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack with a stored session and an appended one, that no refusal below may change."""
    with stack(servers, tmp_path_factory.mktemp("kept")) as running:
        running.memory.client.enqueue("bob", "stored", said("One.", "Two.", "Three."))
        running.memory.client.append("bob", "live", said("One.")[0])
        yield running


def refusal(call: Callable[[], object]) -> MemForestError:
    """What a call is refused with, checked to be one sentence for people."""
    with pytest.raises(MemForestError) as refused:
        call()
    message = refused.value.message
    assert message == str(refused.value)
    assert message.endswith(".") and message[0].isupper() | message.startswith(("owner", "session_id", "started_at"))
    assert "\n" not in message and ". " not in message.removesuffix(".")
    assert len(message) < 300
    assert refused.value.__cause__ is None, "a cause may hold rows, and it reaches logs"
    return refused.value


@dataclass(frozen=True)
class Case:
    """Turns that are refused, the code, and what the sentence says to change."""

    turns: object
    code: str
    says: str


def one(**fields: object) -> list[dict[str, object]]:
    return [{"role": "user", "content": "Hello there.", "timestamp": 1_700_000_000, **fields}]


CASES = {
    "empty session": Case([], "empty_session", "Send at least one turn"),
    "no list": Case("hello", "invalid_turns", "Send turns as a list"),
    "turn without content": Case([{"role": "user"}], "missing_content", "give a non-empty content"),
    "blank content": Case(one(content=" \n "), "missing_content", "give a non-empty content"),
    "unknown role": Case(one(role="robot"), "unknown_role", "set role to one of user, assistant, system, tool"),
    "impossible timestamp": Case(one(timestamp="2023-02-30T10:00:00Z"), "invalid_timestamp", "ISO 8601 or unix"),
    "absurd timestamp": Case(one(timestamp=1e300), "invalid_timestamp", "ISO 8601 or unix"),
    "1 MB turn": Case(one(content="x" * 1_048_576), "turn_too_long", "shorten the content to 262144 bytes"),
    "20,001 turns": Case(one() * 20_001, "too_many_turns", "split it into several sessions"),
    "NUL bytes": Case(one(content="a\x00b"), "nul_character", "remove the NUL"),
    "lone surrogate": Case(one(content="a\ud83d b"), "invalid_unicode", "replace the unpaired surrogate"),
    "NUL in metadata": Case(one(metadata={"a": ["\x00"]}), "nul_character", "remove the NUL"),
    "surrogate in metadata": Case(one(metadata={"\udc00": 1}), "invalid_unicode", "replace the unpaired surrogate"),
    "metadata that is no JSON": Case(one(metadata={"a": object()}), "invalid_metadata", "must hold JSON values"),
    "metadata that is not finite": Case(one(metadata={"a": float("nan")}), "invalid_metadata", "finite numbers"),
    "duplicate ids": Case(one(id="a") + one(id="a"), "duplicate_turn_id", "used twice in this session"),
    "unknown field": Case(one(text="x"), "unknown_field", "into metadata"),
    "a bad turn after good ones": Case(one() * 3 + [{"role": "user"}], "missing_content", "Turn 4"),
}


@pytest.mark.parametrize("session_id", ["new", "stored"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_bad_session_is_refused_whole(stored: Stack, case: Case, session_id: str) -> None:
    before = stored.counts()

    turns: Any = case.turns
    refused = refusal(lambda: stored.memory.client.enqueue("new-owner", session_id, turns))

    assert refused.code == case.code
    assert case.says in refused.message
    assert stored.counts() == before


@pytest.mark.parametrize("name", ["", " ", None, 7, "x" * 513, "a\x00b", "a\ud800b"])
def test_bad_names_are_refused(stored: Stack, name: Any) -> None:
    before = stored.counts()
    client = stored.memory.client

    for call in (
        lambda: client.enqueue(name, "s", one()),
        lambda: client.enqueue("bob", name, one()),
        lambda: client.append(name, "s", one()[0]),
        # Without a session a turn goes to the one that runs.
        *(() if name is None else (lambda: client.append("bob", name, one()[0]),)),
        lambda: client.enqueue("new-owner", "new", one(id="a" if name is None else name, speaker_id=name or " ")),
    ):
        assert refusal(call).code in {"invalid_name", "nul_character", "invalid_unicode"}
    assert stored.counts() == before


@pytest.mark.parametrize("name", ["", None, "nobody", "x" * 10_000, "a\x00b", "a\ud800b"])
def test_an_unknown_owner_or_session_is_not_found(stored: Stack, name: Any) -> None:
    client = stored.memory.client
    before = stored.counts()

    for call in (
        lambda: client.status(name, "stored"),
        lambda: client.status("bob", name),
        lambda: client.wait(name, "stored", "facts", 1.0),
        lambda: client.flush(name, 1.0),
    ):
        refused = refusal(call)
        assert refused.code in {"not_found", "invalid_name", "nul_character", "invalid_unicode"}
        if name == "nobody":
            assert refused.code == "not_found"
            assert "enqueue" in refused.message
    assert stored.counts() == before


# Connecting


def producing(settings: Settings) -> MemForestError:
    """What a producer is refused with when it enqueues."""

    def call() -> None:
        with MemForestClient(settings) as client:
            client.enqueue("bob", "s1", one())

    return refusal(call)


def opening(settings: Settings) -> MemForestError:
    """What a whole service is refused with when it opens."""
    return refusal(lambda: open_services(settings).close())


def with_database(stored: Stack, url: str) -> Settings:
    return stored.settings.model_copy(update={"database": DatabaseSettings(url=SecretStr(url))})


def test_a_postgres_that_cannot_be_reached_is_named(stored: Stack) -> None:
    settings = with_database(stored, NOWHERE)
    started = time.monotonic()

    for refused in (producing(settings), opening(settings)):
        assert refused.code == "store_unavailable"
        assert "MEMFOREST_DATABASE__URL" in refused.message
    assert time.monotonic() - started < 10


@pytest.mark.parametrize(
    "role, name, code, says",
    [
        ("nobody_known", "postgres", "store_role_missing", "'nobody_known'"),
        ("memforest_app", "no_such_database", "store_database_missing", "'no_such_database'"),
        ("memforest_app", "with_password", "store_auth_failed", "password of role 'memforest_app'"),
    ],
)
def test_a_postgres_that_refuses_is_distinguished_from_an_unavailable_one(
    stored: Stack, password_wanted: str, servers: SessionServers, role: str, name: str, code: str, says: str
) -> None:
    """Given a missing role, a missing database or a wrong password, then the sentence says which, and what to change."""
    url = sa.make_url(at(servers.postgres_url, database=name, user=role)).set(password="wrong")
    address = url.render_as_string(hide_password=False)
    settings = with_database(stored, address)
    upgrading = DatabaseSettings(url=stored.settings.database.url, migration_url=SecretStr(address))

    for refused, variable in (
        (producing(settings), "MEMFOREST_DATABASE__URL"),
        (opening(settings), "MEMFOREST_DATABASE__URL"),
        (refusal(lambda: upgrade(DatabaseSettings(url=SecretStr(address)))), "MEMFOREST_DATABASE__URL"),
        (refusal(lambda: upgrade(upgrading)), "MEMFOREST_DATABASE__MIGRATION_URL"),
    ):
        assert refused.code == code
        assert says in refused.message
        assert variable in refused.message
        assert "wrong" not in refused.message


@pytest.fixture
def password_wanted(servers: SessionServers) -> Iterator[str]:
    """A database that lets nobody in without a password."""
    admin(servers, "DROP DATABASE IF EXISTS with_password")
    admin(servers, "CREATE DATABASE with_password")
    engine = sa.create_engine(servers.postgres_url)
    with engine.connect() as connection:
        former = str(connection.scalar(sa.text("SELECT pg_read_file('pg_hba.conf')")))
    write_rules(engine, f"local with_password all scram-sha-256\n{former}")
    try:
        # A signal makes the server reload; new connections follow the new rules.
        while whether_refused(at(servers.postgres_url, database="with_password")) == "ok":
            pass
        yield "with_password"
    finally:
        write_rules(engine, former)
        engine.dispose()


def write_rules(engine: sa.Engine, rules: str) -> None:
    """Let the server itself write who may connect: its files may be another account's."""
    with engine.connect() as connection:
        place = str(connection.scalar(sa.text("SHOW hba_file")))
        lines = sa.text(
            "SELECT format('COPY (SELECT unnest(%L::text[])) TO %L', CAST(:lines AS text[]), CAST(:place AS text))"
        )
        connection.exec_driver_sql(str(connection.scalar(lines, {"lines": rules.splitlines(), "place": place})))
        connection.execute(sa.text("SELECT pg_reload_conf()"))


def whether_refused(url: str) -> str:
    engine = sa.create_engine(url)
    try:
        engine.connect().close()
    except sa.exc.OperationalError:
        return "refused"
    finally:
        engine.dispose()
    return "ok"


def test_an_upgrade_without_rights_names_the_variable_of_the_owner(servers: SessionServers) -> None:
    """Given the service role alone, as after a first ``export MEMFOREST_DATABASE__URL``, then the sentence says what
    else to set; given it as the owner's address, then what to change."""
    admin(servers, "DROP DATABASE IF EXISTS empty_one")
    admin(servers, "CREATE DATABASE empty_one")
    url = SecretStr(at(servers.postgres_url, database="empty_one", user="memforest_app"))

    unset = refusal(lambda: upgrade(DatabaseSettings(url=url)))
    wrong = refusal(lambda: upgrade(DatabaseSettings(url=url, migration_url=url)))

    for refused in (unset, wrong):
        assert refused.code == "invalid_settings"
        assert "set MEMFOREST_DATABASE__MIGRATION_URL" in refused.message
    assert "is not set" in unset.message
    assert "is not set" not in wrong.message


@pytest.mark.parametrize("url", ["", "nonsense", "mysql://localhost/x", "postgresql://host:port/x"])
def test_an_address_that_is_no_postgres_is_named(stored: Stack, url: str) -> None:
    settings = with_database(stored, url)

    for refused in (producing(settings), opening(settings)):
        assert refused.code == "invalid_settings"
        assert "MEMFOREST_DATABASE__URL" in refused.message


def test_a_database_that_is_not_migrated_is_named(stored: Stack, servers: SessionServers) -> None:
    admin(servers, "DROP DATABASE IF EXISTS empty_one")
    admin(servers, "CREATE DATABASE empty_one")
    url = at(servers.postgres_url, database="empty_one")
    settings = with_database(stored, url)

    for refused in (producing(settings), opening(settings)):
        assert refused.code == "invalid_settings"
        assert "run memforest db upgrade" in refused.message


@pytest.mark.parametrize(
    "revision, says",
    [
        ("9999", ["9999, which is newer than this version", "install the version that upgraded it"]),
        ("0027", ["0027 of a development version", "run memforest export"]),
    ],
)
def test_a_database_of_another_version_is_named(
    servers: SessionServers, tmp_path: Path, revision: str, says: list[str]
) -> None:
    with database(servers) as address:
        engine = owner_of(address)
        with engine.begin() as connection:
            connection.execute(sa.text("UPDATE memforest.schema_version SET version_num = :r"), {"r": revision})
        engine.dispose()
        opened = opening(settings_for(address, servers.broker_url, tmp_path))
        for refused in (opened, refusal(lambda: upgrade(address))):
            assert refused.code == "invalid_settings"
            assert all(each in refused.message for each in says)


def test_a_database_of_an_older_version_is_named(
    servers: SessionServers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database(servers) as address:
        older = head_revision()
        become_next_version(monkeypatch, tmp_path)
        refused = opening(settings_for(address, servers.broker_url, tmp_path))

    assert refused.code == "invalid_settings"
    assert older in refused.message and "run memforest db upgrade" in refused.message


def test_a_schema_that_changed_under_a_running_program_is_named(servers: SessionServers, tmp_path: Path) -> None:
    with database(servers) as address:
        settings = settings_for(address, servers.broker_url, tmp_path)
        with MemForestClient(settings) as client:
            client.enqueue("ann", "base", said("One."))
            engine = owner_of(address)
            with engine.begin() as connection:
                connection.execute(sa.text("ALTER TABLE memforest.session RENAME COLUMN metadata TO fields"))
            engine.dispose()
            with pytest.raises(InvalidSettings, match="at the schema of another version of memforest"):
                client.enqueue("ann", "next", said("One."))


def test_a_read_only_postgres_is_named(servers: SessionServers, tmp_path: Path) -> None:
    with database(servers) as address:
        name = sa.make_url(address.url.get_secret_value()).database
        admin(servers, f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
        settings = settings_for(address, servers.broker_url, tmp_path)
        for refused in (producing(settings), opening(settings)):
            assert refused.code == "store_unavailable"
            assert "Postgres is read-only" in refused.message


def test_an_embedded_node_whose_postgres_has_ended_is_named(tmp_path: Path) -> None:
    with MemForest.embedded(tmp_path / "data") as memory:
        node = memory.embedded_node
        assert node is not None
        node.servers.postgres.kill()
        with pytest.raises(StoreUnavailable, match="The Postgres of the embedded node does not run") as refused:
            memory.enqueue("ann", "base", said("One."))
    assert "logs/postgres.log" in refused.value.message


def test_a_role_without_rights_is_named(servers: SessionServers, tmp_path: Path) -> None:
    """Given a role that no upgrade has made, then the sentence says what makes it."""
    with database(servers) as address:
        admin(servers, "CREATE ROLE stranger LOGIN")
        name = sa.make_url(address.url.get_secret_value()).database or ""
        strange = DatabaseSettings(url=SecretStr(at(servers.postgres_url, database=name, user="stranger")))
        refused = opening(settings_for(strange, servers.broker_url, tmp_path))
        admin(servers, "DROP ROLE stranger")

    assert refused.code == "invalid_settings"
    assert "MEMFOREST_DATABASE__URL" in refused.message and "run memforest db upgrade" in refused.message


class WrongEmbedder:
    """Another model, of another width."""

    model = "other-model"
    dimension = 7

    def embed(self, texts: Any) -> Embedded:
        raise AssertionError("nothing is embedded before the collection is checked")

    embed_query = embed


def test_an_embedding_model_of_another_dimension_is_refused(stored: Stack, tmp_path: Path) -> None:
    before = stored.counts()
    live = stored.services.embedder
    settings = stored.settings.model_copy(
        update={"index": stored.settings.index.model_copy(update={"path": tmp_path / "other"})}
    )

    refused = refusal(lambda: open_services(settings, embedder=WrongEmbedder()).close())

    assert refused.code == "invalid_settings"
    assert f"{live.model} with {live.dimension} dimensions" in refused.message
    assert "other-model with 7" in refused.message
    assert f"MEMFOREST_EMBEDDING__MODEL={live.model}" in refused.message
    assert stored.counts() == before


def test_two_processes_agree_on_one_collection(servers: SessionServers) -> None:
    """Given no live collection, when two models claim it, then the second is refused, and the first may come again."""
    with database(servers) as address:
        assert address.migration_url is not None
        engine = sa.create_engine(address.migration_url.get_secret_value())
        claim_collection(engine, "one-3", "one", 3)
        refused = refusal(lambda: claim_collection(engine, "two-3", "two", 3))
        claim_collection(engine, "one-3", "one", 3)
        with engine.connect() as connection:
            assert connection.execute(sa.text("SELECT name, live FROM memforest.collection")).all() == [("one-3", True)]
        engine.dispose()

    assert refused.code == "invalid_settings"


def test_a_missing_embedding_key_is_named_before_anything_is_stored(
    servers: SessionServers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with database(servers) as address:
        settings = settings_for(
            address, servers.broker_url, tmp_path, embedding={"model": "openai/text-embedding-3-small"}
        )
        refused = opening(settings)

    assert refused.code == "model_auth_failed"
    assert "set MEMFOREST_EMBEDDING__API_KEY" in refused.message


def test_a_missing_chat_key_is_named_and_the_session_waits_for_it(
    servers: SessionServers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a chat model without its key, then the window stays whole, says why, and counts no failed attempt."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with stack(servers, tmp_path, llm={"model": "openai/gpt-4o-mini"}) as pipeline:
        pipeline.memory.client.enqueue("bob", "s1", one())
        pipeline.runtime.extract()

        [row] = pipeline.rows("SELECT state, attempts, error_code, error_text FROM memforest.cell")
        calls = pipeline.rows("SELECT count(*) FROM memforest.llm_call WHERE step = 'extract'")
        candidates = pipeline.counts()["candidate"]

    assert (row.state, row.attempts, row.error_code) == ("ready", 0, "model_auth_failed")
    assert "set MEMFOREST_LLM__API_KEY" in row.error_text
    assert (candidates, calls[0][0]) == (0, 0)


@pytest.mark.parametrize(
    "url", ["", "nonsense", "nope://localhost", "redis://", "redis://localhost:port", "redis+socket://", "http://[::1"]
)
def test_an_address_that_is_no_broker_is_named(url: str) -> None:
    refused = refusal(lambda: load_settings(broker={"url": url}))

    assert refused.code == "invalid_settings"
    assert "MEMFOREST_BROKER__URL" in refused.message
    assert "localhost" not in refused.message


@pytest.mark.parametrize(
    ("groups", "names"),
    [
        ({"accept": {"cell_turns": 0}}, "MEMFOREST_ACCEPT__CELL_TURNS"),
        ({"tenant": ""}, "MEMFOREST_TENANT"),
        ({"accept": {"celll_turns": 1}}, "MEMFOREST_ACCEPT__CELLL_TURNS"),
        ({"worker": {"heartbeat_s": 20}}, "MEMFOREST_WORKER"),
    ],
)
def test_a_setting_out_of_range_is_named(groups: dict[str, Any], names: str) -> None:
    refused = refusal(lambda: load_settings(**groups))

    assert refused.code == "invalid_settings"
    assert names in refused.message


def test_a_time_zone_that_does_not_exist_is_named(stored: Stack) -> None:
    accept = stored.settings.accept.model_copy(update={"time_zone": "Mars/Olympus"})
    settings = stored.settings.model_copy(update={"accept": accept})

    for call in (lambda: MemForestClient(settings), lambda: MemForest.connect(settings)):
        refused = refusal(call)
        assert refused.code == "invalid_settings"
        assert "time zone" in refused.message
