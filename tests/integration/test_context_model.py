"""Contexts with a chat model over HTTP: profiles that are written now and then, and answers that read a context."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from memforest_core import Context, InvalidInput
from memforest_core.models.calls import Embedder
from tests.harness.model_answers import messages_of
from tests.harness.model_server import ModelServer
from tests.harness.servers import SessionServers
from tests.harness.stack import Grown, Stack, cloned

START = 1_714_000_000
DAY = 86_400
SAID = ("I live in Oslo.", "I work at Initech.", "I have a dog named Quibovix.")


def tell(running: Stack) -> None:
    for day, text in enumerate(SAID):
        turn = {"id": f"t{day}", "role": "user", "content": text, "timestamp": START + day * DAY}
        running.memory.enqueue("alice", f"s{day}", [turn], display_name="Alice")


def describing(body: Mapping[str, Any]) -> str:
    """A model that writes every state in a sentence of its own, and cites all that it is shown."""
    shown = next(text for role, text in messages_of(body) if role == "user")
    if shown.startswith('{"about"'):
        document = json.loads(shown)
        lines = [{"text": f"Known: {each['text']}", "states": [each["number"]]} for each in document["states"]]
        return json.dumps({"sentences": lines})
    items = [json.loads(line) for line in shown.splitlines() if line.startswith('{"number"')]
    numbers = [item["number"] for item in items if "tomorrow" in item["text"] or "Initech" in item["text"]]
    return json.dumps({"answer": "At Initech, from tomorrow on.", "citations": numbers, "supported": True})


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(retry_after_s=0.1, answer=describing) as running:
        yield running


def model(server: ModelServer) -> dict[str, Any]:
    return {"model": "openai/test-model", "api_base": server.url, "api_key": "key-1", "timeout_s": 5.0}


@pytest.fixture
def alice(
    servers: SessionServers, grown: Grown, tmp_path: Path, embedder: Embedder, server: ModelServer
) -> Iterator[Stack]:
    """Alice's memory, extracted offline; profiles and answers are a model's."""
    llm = {"profile": model(server), "answer": model(server)}
    with cloned(servers, grown, tmp_path, embedder, llm=llm) as running:
        yield running


def profile(running: Stack) -> tuple[list[str], Context]:
    context = running.memory.context("alice", "new")
    return [part.text for part in context.section("profile")], context


def test_a_model_writes_a_profile_once_and_new_states_are_a_list_below(alice: Stack, server: ModelServer) -> None:
    """Given a written profile, when states come and change, then within the hour no call is made: sentences that still
    hold are shown, what is new is a list below them, and what is not current any more is gone."""
    first, context = profile(alice)
    assert first == [f"Known: Alice {text}" for text in ("lives in Oslo.", "works at Initech.")] + first[2:]
    assert "Quibovix" in first[2] and len(context.fact_ids) == 3
    assert profile(alice)[0] == first and len(server.requests) == 1

    alice.memory.remember("alice", "I moved to Miami.")
    alice.memory.remember("alice", "I like jazz.")
    alice.drive()
    second, context = profile(alice)

    assert second[:2] == first[1:]
    assert sorted(line[:8] for line in second[2:]) == ["- Alice ", "- Alice "]
    assert any("Miami" in line for line in second) and not any("Oslo" in line for line in second)
    assert context.degraded == () and len(server.requests) == 1
    assert profile(alice)[0] == second


def test_it_is_written_again_after_its_time(
    servers: SessionServers, grown: Grown, tmp_path: Path, embedder: Embedder, server: ModelServer
) -> None:
    llm = {"profile": model(server)}
    with cloned(servers, grown, tmp_path, embedder, llm=llm, context={"profile_every_s": 0.0}) as alice:
        profile(alice)
        alice.memory.remember("alice", "I moved to Miami.")
        alice.drive()

        lines, _ = profile(alice)

        assert all(line.startswith("Known: ") for line in lines) and any("Miami" in line for line in lines)
        profile(alice)
        assert len(server.requests) == 2


def test_a_profile_that_is_written_while_its_fact_is_deleted_is_not_stored(alice: Stack, server: ModelServer) -> None:
    def slow(body: Mapping[str, Any]) -> str:
        alice.memory.lifecycle.forget("alice", session="s2", actor="test")
        alice.drive()
        return describing(body)

    server.answer = slow
    profile(alice)

    assert alice.rows("SELECT count(*) FROM memforest.summary_cache WHERE text ILIKE '%quibovix%'")[0][0] == 0
    server.answer = describing
    assert not any("Quibovix" in line for line in profile(alice)[0])


def test_nothing_is_stored_while_a_deletion_locks_a_fact_or_the_profile(alice: Stack) -> None:
    """Given a deletion under way, when a context is made, then it waits for nobody and stores nothing."""
    profile(alice)
    for held, liked in (("memforest.fact", "jazz"), ("memforest.summary_cache", "chess")):
        alice.memory.remember("alice", f"I like {liked}.")
        alice.drive()
        before = alice.rows("SELECT text FROM memforest.summary_cache WHERE tree_id = forest_id ORDER BY text")
        owner = alice.owner_engine()
        with owner.connect() as deleting:
            deleting.exec_driver_sql(f"SELECT 1 FROM {held} FOR UPDATE")
            lines, context = profile(alice)
            assert any(liked in line for line in lines) and context.degraded == ()
        owner.dispose()
        assert alice.rows("SELECT text FROM memforest.summary_cache WHERE tree_id = forest_id ORDER BY text") == before


def test_an_answer_reads_the_context_and_cites_it(alice: Stack, server: ModelServer) -> None:
    """Given a turn of the running session that recall has not found, then an answer with a context is shown it, once,
    and can cite it."""
    turn = {"id": "c0", "role": "user", "name": "Alice", "content": "I will be there tomorrow.", "timestamp": START}
    alice.memory.append("alice", "chat", turn)

    answer = alice.memory.answer("alice", "Where do I work?", k=2, context=True, session_id="chat")

    assert answer.supported
    cited = {citation.text for citation in answer.citations}
    assert "Alice: I will be there tomorrow." in cited and any("Initech" in text for text in cited)
    texts = [item.text for item in answer.evidence.evidence]
    assert len(texts) == len(set(texts))
    with pytest.raises(InvalidInput, match="as_of"):
        alice.memory.answer("alice", "Where do I work?", context=True, as_of="2023-01-01")
