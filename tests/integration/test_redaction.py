"""Redaction on the real stack: on every way in a secret is masked before anything stores it or sends it to a model."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest

from memforest_core.client.producer import MemForestClient
from memforest_core.client.remote.remote_memory import RemoteMemForest
from memforest_core.errors import InvalidInput, SessionConflict
from memforest_core.observe.prometheus import PrometheusTelemetry
from memforest_core.service.http.serving import HttpServer, listen
from memforest_core.service.integrations.chat_exchange import Exchange, run
from memforest_core.service.keys.service import Keys
from memforest_core.settings import RedactSettings
from memforest_core.store.engine import tenant_transaction
from tests.harness.model_server import ModelServer
from tests.harness.searching import in_broker, in_index_files, in_tables
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack, stack

CARD, MAIL, KEY = "4111 1111 1111 1111", "bob@mail.example", "ghp_Ab3dEf6hIj9kLm2nOp5qAb3dEf6hIj9kLm2n"
SECRETS = (CARD, MAIL, KEY, "HD-4711")
SAID = f"I moved to Rome. My card is {CARD}, my mail {MAIL}, the token {KEY}, the ticket HD-4711."
MASKED = "I moved to Rome. My card is [card number], my mail [email address], the token [api key], the ticket [ticket]."
COUNTS = {"card": 1, "email": 1, "api_key": 1, "ticket": 1}
REDACT: dict[str, Any] = {"kinds": ("api_key", "card", "email"), "patterns": {"ticket": r"HD-\d+"}}
TURN: Any = {"role": "user", "content": SAID, "id": "t1"}
Way = Callable[[Stack, MemForestClient], Any]


def in_own_transaction(running: Stack, memory: MemForestClient) -> Any:
    with tenant_transaction(running.services.engine, running.tenant) as connection:
        return memory.enqueue("bob", "s", [TURN], transaction=connection)


def over_http(running: Stack, memory: MemForestClient) -> Any:
    server = HttpServer(running.memory, listen("127.0.0.1", 0))
    server.start()
    try:
        key = Keys(running.services.engine).create(running.tenant, "test", scope="admin").secret
        with RemoteMemForest(server.address, key) as remote:
            return remote.append("bob", "s", TURN)
    finally:
        server.stop()


WAYS: dict[str, Way] = {
    "enqueue": lambda running, memory: memory.enqueue("bob", "s", [TURN]),
    "append": lambda running, memory: memory.append("bob", "s", TURN, close=True),
    "note": lambda running, memory: memory.remember("bob", SAID),
    "transaction": in_own_transaction,
    "light client": lambda running, memory: MemForestClient(running.settings).enqueue("bob", "s", [TURN]),
    "http": over_http,
}


@pytest.fixture
def masking(servers: SessionServers, tmp_path: Path) -> Iterator[tuple[Stack, ModelServer]]:
    """A stack that masks, with a chat and an embedding model that others serve."""
    with ModelServer() as server:
        model = {"api_base": server.url, "api_key": "x"}
        embedding = {"model": "openai/test-embedding", **model}
        groups = {"accept": {"redact": REDACT}, "embedding": embedding, "topics": {"match_on_append": True}}
        with stack(servers, tmp_path, llm={"model": "openai/test-model", **model}, **groups) as running:
            yield running, server


@pytest.mark.parametrize("way", WAYS)
def test_no_way_in_stores_or_sends_a_secret(
    masking: tuple[Stack, ModelServer], servers: SessionServers, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Given a text with secrets on any way in, then rows, index, broker, models and logs have its marks alone; the
    handle and the metric count them; questions and requests with a secret are masked too."""
    running, server = masking
    telemetry = PrometheusTelemetry()
    before = telemetry.registry.get_sample_value("memforest_masked_total", {"kind": "ticket"}) or 0.0
    with caplog.at_level(logging.DEBUG):
        handle = WAYS[way](running, running.memory)
        running.hurry()
        running.drive()
        tagged = running.memory.topic_tag("bob", running.memory.topics("bob").items[0].id, [f"pays by {CARD}"])
        running.memory.recall("bob", f"Whose card is {CARD}?")
        running.memory.intent(f"Remember that my card is {CARD}.")
        running.memory.forget("bob", f"my card {CARD}", dry_run=True)

    assert (handle.accepted.redacted, tagged.tags) == (COUNTS, ("pays by [card number]",))
    assert telemetry.registry.get_sample_value("memforest_masked_total", {"kind": "ticket"}) == before + 1.0
    assert [turn.content for turn in running.memory.turns("bob", handle.session_id).items] == [MASKED]
    sent = "\n".join(str(request.body) for request in server.requests)
    assert "[card number]" in sent and len(server.requests) > 2
    logged = caplog.text + generate_latest(telemetry.registry).decode()
    for where in (sent, logged):
        assert [secret for secret in SECRETS if secret in where] == []
    assert (in_tables(running, SECRETS), in_index_files(running, SECRETS)) == ({}, [])
    assert in_broker(servers.redis_url, SECRETS) == []


@pytest.fixture
def plain(servers: SessionServers, tmp_path: Path) -> Iterator[Stack]:
    with stack(servers, tmp_path, accept={"redact": REDACT}) as running:
        yield running


def test_a_session_that_is_sent_twice_compares_equal_and_grows(plain: Stack) -> None:
    """Given a masked session, then the same, the longer and the masked one are equal to it; another secret of the same
    kind is too, another text is not."""
    memory, more = plain.memory, {"role": "user", "content": "My other card is 5555 5555 5555 4444."}
    assert memory.enqueue("bob", "s", [TURN]).accepted.redacted == COUNTS
    repeated = memory.enqueue("bob", "s", [TURN], metadata={"by": MAIL}).accepted
    assert (repeated.new_turns, repeated.redacted) == (0, {"email": 1})
    assert memory.enqueue("bob", "s", [{**TURN, "content": MASKED}, more]).accepted.redacted == {"card": 1}
    assert memory.append("bob", "s", TURN).accepted.new_turns == 0
    with pytest.raises(SessionConflict):
        memory.enqueue("bob", "s", [{**TURN, "content": "I moved to Bern."}])
    assert in_tables(plain, SECRETS) == {}


def test_what_was_stored_before_redaction_is_equal_to_what_is_masked_now(plain: Stack) -> None:
    bare = plain.settings.model_copy(
        update={"accept": plain.settings.accept.model_copy(update={"redact": RedactSettings()})}
    )
    MemForestClient(bare).enqueue("bob", "s", [TURN])
    assert plain.memory.enqueue("bob", "s", [TURN, {"role": "user", "content": MAIL}]).accepted.new_turns == 1
    assert plain.memory.append("bob", "s", TURN).accepted.new_turns == 0


def test_corrections_metadata_and_chat_exchanges_are_masked(plain: Stack) -> None:
    memory = plain.memory
    memory.enqueue("bob", "s", [{"role": "user", "content": "I moved to Rome.", "metadata": {"m": [MAIL]}}])
    plain.drive()
    (fact,) = plain.rows("SELECT fact_id FROM memforest.fact")
    memory.lifecycle.correct("bob", fact.fact_id, text=f"Bob moved to Bern, says {MAIL}.", actor="ann")
    messages = [{"role": "user", "content": f"Remember {KEY}."}]
    run(memory, Exchange("bob", "chat", messages, 1_000).prepared())
    exchange = Exchange("bob", "chat", messages, 1_000, retried=True)
    made = run(memory, exchange.prepared())
    assert run(memory, exchange.concluded(made, {"role": "assistant", "content": f"I know {CARD}."})) is None
    plain.drive()
    texts = [row.text for row in plain.rows("SELECT text FROM memforest.fact")]
    assert any("Bern, says [email address]" in text for text in texts)
    said = [turn.content for turn in memory.turns("bob", "chat").items]
    assert said == ["Remember [api key].", "I know [card number]."]
    assert in_tables(plain, SECRETS) == {}


def test_no_alias_is_a_secret(plain: Stack) -> None:
    plain.memory.remember("bob", "My name is HD-4711.")
    with pytest.raises(InvalidInput, match="another one") as refused:
        plain.memory.remember("bob", "I moved.", alias="HD-4711")
    plain.drive()
    assert (refused.value.code, in_tables(plain, SECRETS)) == ("alias_masked", {})


def broken(text: str) -> str:
    raise ValueError(text)


def test_a_function_that_raises_refuses_the_session_and_stores_nothing(servers: SessionServers, tmp_path: Path) -> None:
    with stack(servers, tmp_path, accept={"redact": {"function": broken}}) as running:
        for way in (WAYS["enqueue"], WAYS["append"], WAYS["note"]):
            with pytest.raises(InvalidInput, match="gave ValueError"):
                way(running, running.memory)
        assert running.rows("SELECT 1 FROM memforest.turn UNION ALL SELECT 1 FROM memforest.session") == []
