"""Contexts whose profile, today and history are one text by a model over HTTP: facts first, stored, and honest without."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from memforest_core import Context
from memforest_core.models.calls import Embedder
from tests.harness.model_answers import messages_of
from tests.harness.model_faults import Fault
from tests.harness.model_server import ModelServer
from tests.harness.searching import in_tables
from tests.harness.servers import SessionServers
from tests.harness.stack import Grown, Stack, cloned

DAY = 86_400
SAID = ("I live in Oslo.", "I work at Initech.", "I have a dog named Quibovix.")
YESTERDAY, TODAY = "We painted the zorblatt boat by the lake.", "The frimbold engine would not start today."

Reply = Callable[[Mapping[str, Any]], object]


def tell(running: Stack) -> None:
    """States that were sentences long ago, one conversation yesterday, one today."""
    now = int(time.time())
    for day, text in enumerate(SAID):
        turn = {"id": f"t{day}", "role": "user", "content": text, "timestamp": 1_714_000_000 + day * DAY}
        running.memory.enqueue("alice", f"s{day}", [turn], display_name="Alice")
    for name, at, text in (("yesterday", now - DAY, YESTERDAY), ("today", now, TODAY)):
        turn = {"id": f"t-{name}", "role": "user", "content": text, "timestamp": at}
        running.memory.enqueue("alice", name, [turn])


def merging(document: Mapping[str, Any]) -> object:
    """A model that repeats each fact, then today, then the days before."""
    sentences = [
        {"text": f"Merged: {fact['text']}", "facts": [fact["number"]], "days": "none"} for fact in document["facts"]
    ]
    sentences += [
        {"text": f"Merged {name}: {document[name]}", "facts": [], "days": name}
        for name in ("today", "history")
        if document[name]
    ]
    return {"sentences": sentences}


def answering(server: ModelServer, reply: Reply) -> None:
    """Profiles have one sentence a state; merged texts are what ``reply`` makes of their documents."""

    def answer(body: Mapping[str, Any]) -> str:
        document = json.loads(next(text for role, text in messages_of(body) if role == "user"))
        if "states" in document:
            sentences = [{"text": f"Told: {each['text']}", "states": [each["number"]]} for each in document["states"]]
            return json.dumps({"sentences": sentences})
        return json.dumps(reply(document))

    server.answer = answer


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(retry_after_s=0.1) as running:
        answering(running, merging)
        yield running


@contextmanager
def alices(
    servers: SessionServers,
    grown: Grown,
    place: Path,
    embedder: Embedder,
    server: ModelServer | None,
    **fractions: float,
) -> Iterator[Stack]:
    one = {} if server is None else {"model": "openai/test-model", "api_base": server.url, "api_key": "key-1"}
    context = {"merge": True, "fractions": {"profile": 1.0, "evidence": 0.0, **fractions}}
    with cloned(servers, grown, place, embedder, llm={"profile": one}, context=context) as running:
        yield running


@pytest.fixture
def alice(
    servers: SessionServers, grown: Grown, tmp_path: Path, embedder: Embedder, server: ModelServer
) -> Iterator[Stack]:
    with alices(servers, grown, tmp_path, embedder, server) as running:
        yield running


def shown(running: Stack, **options: Any) -> tuple[list[str], Context]:
    context = running.memory.context("alice", "new", **options)
    return [part.text for part in context.section("profile")], context


def test_profile_today_and_history_are_one_text_facts_first(alice: Stack, server: ModelServer) -> None:
    """Given states, a day and days before, then one text has them in this order, with the ids of all that it rests
    on; the days have no section of their own."""
    texts, context = shown(alice)

    assert [text.split(":")[0] for text in texts] == ["Merged"] * 3 + ["Merged today", "Merged history"]
    assert "frimbold" in texts[3] and "zorblatt" in texts[4]
    assert not context.section("today") and not context.section("week")
    assert {(out.section.value, out.why.value) for out in context.left_out if not out.fact_ids} >= {
        ("today", "in profile"),
        ("week", "in profile"),
    }
    assert len(context.fact_ids) == 3
    assert [each.split(":")[0] for each in context.digest_ids] == ["day", "week"]
    assert context.degraded == () and context.tokens <= context.max_tokens
    assert server.requests[-1].body["temperature"] == 0.0
    recorded = alice.rows("SELECT count(*) FROM memforest.llm_call WHERE step = 'profile' AND outcome = 'ok'")
    assert recorded[0][0] == len(server.requests) == 2


def test_the_text_is_stored_under_the_hash_of_its_sources(alice: Stack, server: ModelServer) -> None:
    first, _ = shown(alice)
    second, context = shown(alice)
    assert second == first and len(server.requests) == 2 and context.digest_ids

    alice.memory.remember("alice", "I like jazz.")
    alice.drive()
    later, _ = shown(alice)

    assert later[-1] == "- Alice likes jazz."
    assert alice.rows("SELECT count(*) FROM memforest.summary_cache WHERE text LIKE '%Merged%'")[0][0] == 1


FAULTS = [
    (Fault.RATE_LIMIT, "rate limit"),
    (Fault.SERVER_ERROR, "unavailable"),
    (Fault.DISCONNECT, "unavailable"),
    (Fault.MALFORMED, "of no use"),
    (Fault.WRONG_SCHEMA, "of no use"),
    (Fault.CONTENT_FILTER, "refused the content"),
    (Fault.UNAUTHORIZED, "key was refused"),
]


@pytest.mark.parametrize(("fault", "words"), FAULTS)
def test_without_the_merge_facts_today_and_history_stand_as_they_are(
    alice: Stack, server: ModelServer, fault: Fault, words: str
) -> None:
    """Given a model that wrote the profile and fails to merge, then all three are there in their sections, the facts
    first, and one sentence says why."""
    server.script(None, fault, fault)
    texts, context = shown(alice)

    assert all(text.startswith("Told: ") for text in texts) and len(texts) == 3
    assert "frimbold" in context.section("today")[0].text and "zorblatt" in context.section("week")[0].text
    assert len(context.degraded) == 1 and words in context.degraded[0]
    assert context.degraded[0].startswith("The profile, today and the days before stand as they are, not merged: ")
    assert alice.rows("SELECT count(*) FROM memforest.summary_cache WHERE text LIKE '%Merged%'")[0][0] == 0


def test_a_model_that_is_unavailable_for_the_profile_is_not_called_to_merge(alice: Stack, server: ModelServer) -> None:
    server.script(Fault.SERVER_ERROR)
    texts, context = shown(alice)
    assert all(text.startswith("- ") for text in texts) and len(server.requests) == 1
    assert any("not merged: the model did not write the profile" in each for each in context.degraded)


@pytest.mark.parametrize(
    ("share", "left"),
    [
        ("profile", "Today and the days before stand as they are, not merged: no chat model is configured."),
        ("today", "The profile and the days before stand as they are, not merged: no chat model is configured."),
    ],
)
def test_without_a_model_what_is_there_is_named_in_order(
    servers: SessionServers, grown: Grown, tmp_path: Path, embedder: Embedder, share: str, left: str
) -> None:
    with alices(servers, grown, tmp_path, embedder, None, **{share: 0.0}) as alice:
        _, context = shown(alice)
        assert context.degraded == (left,)
        assert context and {part.section.value for part in context.parts} <= {"profile", "today", "week"}


@pytest.mark.parametrize(
    "bad",
    [
        {"sentences": []},
        {"sentences": [{"text": "x", "facts": [99], "days": "none"}]},
        {"sentences": [{"text": "x", "facts": [], "days": "none"}]},
        {"sentences": [{"text": " ", "facts": [1], "days": "none"}]},
        {"sentences": [{"text": "x" * 50_000, "facts": [1], "days": "none"}]},
        {"sentences": [{"text": "x", "facts": [1], "days": "tomorrow"}]},
    ],
)
def test_an_answer_is_checked_and_requested_once_more(alice: Stack, server: ModelServer, bad: object) -> None:
    answers: list[object] = [bad]
    answering(server, lambda document: answers.pop() if answers else merging(document))
    texts, context = shown(alice)
    assert texts[0].startswith("Merged") and context.degraded == () and len(server.requests) == 3


@pytest.mark.parametrize("delete", [{"session": "yesterday"}, {"session": "today"}, {"session": "s2"}])
def test_any_deletion_takes_the_merged_text(alice: Stack, server: ModelServer, delete: dict[str, Any]) -> None:
    word = {"yesterday": "zorblatt", "today": "frimbold", "s2": "quibovix"}[delete["session"]]
    assert any(word in text.lower() for text in shown(alice)[0])
    assert "summary_cache.text" in in_tables(alice, [word])[word]

    operation = alice.memory.lifecycle.forget("alice", actor="test", **delete)
    alice.drive()

    assert alice.memory.lifecycle.receipt(operation.id).clean
    assert in_tables(alice, [word]) == {}
    assert not any(word in text.lower() for text in shown(alice)[0])


def test_a_text_that_is_written_while_its_words_are_deleted_is_not_stored(alice: Stack, server: ModelServer) -> None:
    """Given a deletion while the model writes, then the text is shown this once and stored nowhere; the next one is."""

    def slow(document: Mapping[str, Any]) -> object:
        alice.memory.lifecycle.forget("alice", session="yesterday", actor="test")
        alice.drive()
        return merging(document)

    answering(server, slow)
    assert any("zorblatt" in text for text in shown(alice)[0])
    assert in_tables(alice, ["zorblatt"]) == {}

    answering(server, merging)
    shown(alice)
    requests = len(server.requests)
    assert not any("zorblatt" in text for text in shown(alice)[0])
    assert len(server.requests) == requests


def test_while_the_memory_is_written_nothing_is_merged_and_nobody_waits(alice: Stack, server: ModelServer) -> None:
    """The row of the text is made under the lock of the forest; when another writer has it, the parts stay as they
    are."""
    owner = alice.owner_engine()
    with owner.connect() as writing:
        writing.exec_driver_sql("SELECT 1 FROM memforest.forest FOR NO KEY UPDATE")
        _, context = shown(alice)
    owner.dispose()
    assert any("not merged: the memory was being written" in each for each in context.degraded)
    assert shown(alice)[0][0].startswith("Merged")
