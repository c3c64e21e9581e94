"""Profiles, choices and intents by a chat model over HTTP: checked, paid for, cached, and honest when it fails."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from memforest_core.assistant.profile.records import Made
from memforest_core.assistant.rows import MadeTextRows
from memforest_core.models.calls import Embedder
from tests.harness.model_answers import messages_of
from tests.harness.model_faults import Fault
from tests.harness.model_server import ModelServer
from tests.harness.searching import in_tables
from tests.harness.servers import SessionServers
from tests.harness.stack import Grown, Stack, cloned

START = 1_714_000_000
SAID = ("I live in Oslo.", "I work at Initech.", "I have a dog named Quibovix.", "I like jazz.")

Reply = Callable[[Mapping[str, Any]], object]


def tell(running: Stack) -> None:
    for day, text in enumerate(SAID):
        turn = {"id": f"t{day}", "role": "user", "content": text, "timestamp": START + day * 86_400}
        running.memory.enqueue("alice", f"s{day}", [turn], display_name="Alice")


def describing(document: Mapping[str, Any]) -> object:
    """A model that writes every state in a sentence of its own."""
    return {
        "sentences": [
            {"text": f"{document['about']} said: {each['text']}", "states": [each["number"]]}
            for each in document["states"]
        ]
    }


def choosing(*words: str) -> Reply:
    """A model that chooses the facts with these words."""

    def reply(document: Mapping[str, Any]) -> object:
        return {"facts": [each["number"] for each in document["facts"] if any(word in each["text"] for word in words)]}

    return reply


def answering(server: ModelServer, reply: Reply) -> None:
    """Answer the document of each call so."""

    def answer(body: Mapping[str, Any]) -> str:
        shown = next(text for role, text in messages_of(body) if role == "user")
        return json.dumps(reply(json.loads(shown)))

    server.answer = answer


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(retry_after_s=0.1) as running:
        answering(running, describing)
        yield running


@pytest.fixture
def alice(
    servers: SessionServers, grown: Grown, tmp_path: Path, embedder: Embedder, server: ModelServer
) -> Iterator[Stack]:
    """Alice's memory, extracted offline; profiles, choices and intents are a model's."""
    llm = {
        "temperature": 0.7,
        "profile": {"model": "openai/test-model", "api_base": server.url, "api_key": "key-1", "timeout_s": 5.0},
    }
    with cloned(servers, grown, tmp_path, embedder, llm=llm) as running:
        yield running


def calls(running: Stack) -> list[tuple[str, bool]]:
    """The recorded calls of the room: how they ended, and whether they name a forest."""
    rows = running.rows(
        "SELECT outcome, forest_id IS NOT NULL FROM memforest.llm_call WHERE step = 'profile' ORDER BY call_id"
    )
    return [(str(row[0]), bool(row[1])) for row in rows]


def test_a_profile_is_written_once_at_temperature_0_and_stored(alice: Stack, server: ModelServer) -> None:
    first = alice.memory.profile("alice")

    assert (first.made, first.cached, first.degraded) == (Made.MODEL, False, ())
    assert first.text.startswith("Alice said: ") and "Oslo" in first.text
    assert {fact for sentence in first.sentences for fact in sentence.fact_ids} == set(first.fact_ids)
    assert len(first.fact_ids) == 4
    assert server.requests[0].body["temperature"] == 0.0

    second = alice.memory.profile("alice")

    assert (second.text, second.sentences, second.cached) == (first.text, first.sentences, True)
    assert len(server.requests) == 1
    assert calls(alice) == [("ok", True)]


def test_without_writing_a_text_is_a_list_until_it_is_stored(alice: Stack, server: ModelServer) -> None:
    listed = alice.memory.profile("alice", write=False)
    assert (listed.made, listed.degraded, server.requests) == (Made.RULES, (), [])

    written = alice.memory.profile("alice")

    assert alice.memory.profile("alice", write=False).text == written.text
    assert len(server.requests) == 1


def test_words_of_a_forgotten_fact_are_in_no_profile(alice: Stack, server: ModelServer) -> None:
    """Given a stored profile, when one of its facts is forgotten, then no table has its words, nor does the next."""
    memory = alice.memory
    assert "Quibovix" in memory.profile("alice").text
    assert "summary_cache.text" in in_tables(alice, ["quibovix"])["quibovix"]
    answering(server, choosing("Quibovix"))

    forgotten = memory.forget("alice", "my dog")
    alice.drive()

    assert [fact.text for fact in forgotten.facts] == ["Alice has a dog named Quibovix."]
    assert memory.services.forgetter.with_receipts(memory.tenant, forgotten).receipts[0].clean
    assert in_tables(alice, ["quibovix"]) == {}
    answering(server, describing)
    assert "Quibovix" not in memory.profile("alice").text


@pytest.mark.parametrize(
    "delete",
    [
        {"session": "s2"},
        {"session": "s2", "turns": ["t2"]},
        {"speaker": "alice"},
        {"since": START + 86_400, "until": START + 4 * 86_400},
        {"everything": True},
    ],
)
def test_any_deletion_takes_the_stored_profile(alice: Stack, delete: dict[str, Any]) -> None:
    alice.memory.profile("alice")

    alice.memory.lifecycle.forget("alice", actor="test", **delete)
    alice.drive()

    assert in_tables(alice, ["quibovix"]) == {}
    assert alice.rows("SELECT count(*) FROM memforest.summary_cache")[0][0] == 0


def test_a_profile_that_is_written_while_its_fact_is_deleted_is_not_stored(alice: Stack, server: ModelServer) -> None:
    memory = alice.memory

    def slow(document: Mapping[str, Any]) -> object:
        memory.lifecycle.forget("alice", session="s2", actor="test")
        alice.drive()
        return describing(document)

    answering(server, slow)
    assert "Quibovix" in memory.profile("alice").text

    assert in_tables(alice, ["quibovix"]) == {}


def test_nothing_is_stored_while_a_deletion_locks_a_fact_of_it(alice: Stack) -> None:
    engine, tenant = alice.services.engine, alice.tenant
    with MadeTextRows.opened(engine, tenant) as rows:
        forest = rows.find_forest("alice")
        assert forest is not None
    fact = next(each for each in alice.memory.facts("alice").items if "Quibovix" in each.text)
    ((stored,),) = alice.rows("SELECT text_hash FROM memforest.fact WHERE fact_id = :f", f=fact.id)
    hashes = {fact.id: bytes(stored)}
    owner = alice.owner_engine()
    with owner.connect() as deleting:
        deleting.exec_driver_sql(f"SELECT 1 FROM memforest.fact WHERE fact_id = '{UUID(str(fact.id))}' FOR UPDATE")
        with MadeTextRows.opened(engine, tenant) as rows:
            assert not rows.store_text(forest.id, b"k", "Quibovix", hashes)
    owner.dispose()
    with MadeTextRows.opened(engine, tenant) as rows:
        assert not rows.store_text(forest.id, b"k", "Quibovix", {fact.id: b"other"})
        assert rows.store_text(forest.id, b"k", "Quibovix", hashes)


def test_so_many_texts_are_stored_and_the_oldest_go(
    servers: SessionServers, grown: Grown, tmp_path: Path, embedder: Embedder, server: ModelServer
) -> None:
    llm = {"profile": {"model": "openai/test-model", "api_base": server.url, "api_key": "key-1"}}
    with cloned(servers, grown, tmp_path, embedder, llm=llm, profile={"cached": 1}) as alice:
        alice.memory.remember("alice", "I moved to Miami.", "Zoe")
        alice.drive()
        for about in (None, "Zoe"):
            alice.memory.profile("alice", about)

        stored = alice.rows("SELECT text FROM memforest.summary_cache WHERE tree_id = forest_id")

        assert len(stored) == 1 and "Miami" in stored[0][0]


FAULTS = [
    (Fault.RATE_LIMIT, "rate limit", 1),
    (Fault.SERVER_ERROR, "unavailable", 1),
    (Fault.DISCONNECT, "unavailable", 1),
    (Fault.MALFORMED, "of no use", 2),
    (Fault.TRUNCATED, "of no use", 2),
    (Fault.WRONG_SCHEMA, "of no use", 2),
    (Fault.EMPTY, "of no use", 2),
    (Fault.CONTENT_FILTER, "refused the content", 1),
    (Fault.UNAUTHORIZED, "key was refused", 1),
]


@pytest.mark.parametrize(("fault", "words", "requests"), FAULTS)
def test_a_model_that_fails_leaves_a_list_and_a_sentence(
    alice: Stack, server: ModelServer, fault: Fault, words: str, requests: int
) -> None:
    server.script(fault, fault)

    known = alice.memory.profile("alice")

    assert known.made is Made.RULES and known.text.startswith("- ") and len(known.states) == 4
    assert len(known.degraded) == 1 and words in known.degraded[0]
    assert len(server.requests) == len(calls(alice)) == requests
    assert alice.rows("SELECT count(*) FROM memforest.summary_cache WHERE tree_id = forest_id")[0][0] == 0


@pytest.mark.parametrize(("fault", "words", "requests"), FAULTS)
def test_a_model_that_fails_forgets_nothing(
    alice: Stack, server: ModelServer, fault: Fault, words: str, requests: int
) -> None:
    answering(server, choosing("Initech"))
    server.script(fault, fault)
    before = len(alice.memory.facts("alice").items)

    found = alice.memory.forget("alice", "where I work")
    alice.drive()

    assert (found.found, found.operations, found.made) == (False, (), Made.MODEL)
    assert any(words in sentence for sentence in found.degraded)
    assert "Alice works at Initech." in {fact.text for fact in found.others}
    assert len(alice.memory.facts("alice").items) == before
    assert len(calls(alice)) == requests


@pytest.mark.parametrize("facts", [[99], [0], [1, 99], [-1]])
def test_a_choice_of_what_was_not_shown_forgets_nothing(alice: Stack, server: ModelServer, facts: list[int]) -> None:
    answering(server, lambda _: {"facts": facts})

    found = alice.memory.forget("alice", "where I work")

    assert not found.found and found.degraded and len(server.requests) == 2
    assert "was not shown" in messages_of(server.requests[1].body)[-1][1]


def test_a_choice_that_is_repaired_counts(alice: Stack, server: ModelServer) -> None:
    said = iter([{"facts": [99]}])

    def reply(document: Mapping[str, Any]) -> object:
        return next(said, choosing("Initech")(document))

    answering(server, reply)

    found = alice.memory.forget("alice", "where I work", dry_run=True)

    assert [fact.text for fact in found.facts] == ["Alice works at Initech."]
    assert found.degraded == () and calls(alice) == [("ok", True), ("ok", True)]


@pytest.mark.parametrize(
    "answer",
    [
        {"sentences": []},
        {"sentences": [{"text": "Alice is nice.", "states": []}]},
        {"sentences": [{"text": "Alice is nice.", "states": [99]}]},
        {"sentences": [{"text": "  ", "states": [1]}]},
        {"sentences": [{"text": "x" * 3_000, "states": [1]}]},
        {"text": "Alice lives in Oslo."},
    ],
)
def test_a_profile_that_rests_on_nothing_is_refused(
    alice: Stack, server: ModelServer, answer: dict[str, object]
) -> None:
    answering(server, lambda _: answer)

    known = alice.memory.profile("alice")

    assert known.made is Made.RULES and known.degraded and len(server.requests) == 2


@pytest.mark.parametrize(
    ("text", "answer", "expected"),
    [
        ("please keep that in your head: I am vegan", ("remember", "I am vegan"), ("remember", "I am vegan", "model")),
        ("What have you got on me?", ("about_me", ""), ("about_me", "", "model")),
        ("Nice weather.", ("none", "weather"), ("none", "", "model")),
        ("Forget where I work.", ("forget", "where Bob lives"), ("forget", "where I work", "rules")),
        ("Forget where I work.", ("forget", ""), ("forget", "where I work", "rules")),
        ("Forget where I work.", ("erase", "where I work"), ("forget", "where I work", "rules")),
    ],
)
def test_intents_are_words_of_the_text(
    alice: Stack, server: ModelServer, text: str, answer: tuple[str, str], expected: tuple[str, str, str]
) -> None:
    before = alice.counts()
    answering(server, lambda _: {"kind": answer[0], "object": answer[1]})

    read = alice.memory.intent(text)

    assert (read.kind, read.object, read.made) == expected
    assert bool(read.degraded) == (expected[2] == "rules")
    changed = {name for name, count in alice.counts().items() if count != before[name]}
    assert changed == {"llm_call"}
    assert {forest for _, forest in calls(alice)} == {False}
