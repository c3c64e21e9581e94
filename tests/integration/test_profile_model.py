"""Profiles, merged contexts, choices and intents by a chat model over HTTP: checked, paid for, cached, and honest when
it fails."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from memforest_core import Context, InvalidInput
from memforest_core.assistant.profile.records import Made
from memforest_core.assistant.rows import MadeTextRows
from memforest_core.models.calls import Embedder
from tests.harness.model_answers import messages_of
from tests.harness.model_faults import Fault
from tests.harness.model_server import ModelServer
from tests.harness.searching import in_tables
from tests.harness.servers import SessionServers
from tests.harness.stack import Grown, Stack, cloned

START, DAY = 1_714_000_000, 86_400
SAID = ("I live in Oslo.", "I work at Initech.", "I have a dog named Quibovix.", "I like jazz.")
YESTERDAY, TODAY = "We painted the zorblatt boat by the lake.", "The frimbold engine would not start today."

Reply = Callable[[Mapping[str, Any]], object]


def tell(running: Stack) -> None:
    """States that were sentences long ago, one conversation yesterday, one today."""
    now = int(time.time())
    for day, text in enumerate(SAID):
        turn = {"id": f"t{day}", "role": "user", "content": text, "timestamp": START + day * DAY}
        running.memory.enqueue("alice", f"s{day}", [turn], display_name="Alice")
    for name, at, text in (("yesterday", now - DAY, YESTERDAY), ("today", now, TODAY)):
        turn = {"id": f"t-{name}", "role": "user", "content": text, "timestamp": at}
        running.memory.enqueue("alice", name, [turn])


def describing(document: Mapping[str, Any]) -> object:
    """A model that writes every state in a sentence of its own."""
    sentences = [{"text": f"Known: {each['text']}", "states": [each["number"]]} for each in document["states"]]
    return {"sentences": sentences}


def merging(document: Mapping[str, Any]) -> object:
    """A model that repeats each fact, then today, then the days before."""
    facts = [
        {"text": f"Merged: {each['text']}", "facts": [each["number"]], "days": "none"} for each in document["facts"]
    ]
    days = [
        {"text": f"Merged {name}: {document[name]}", "facts": [], "days": name}
        for name in ("today", "history")
        if document[name]
    ]
    return {"sentences": facts + days}


def choosing(*words: str) -> Reply:
    """A model that chooses the facts with these words."""
    return lambda shown: {"facts": [each["number"] for each in shown["facts"] if any(w in each["text"] for w in words)]}


def answering(server: ModelServer, **replies: Reply) -> None:
    """Answer each document by the first of the replies whose name is a key of it."""
    replies |= {"states": describing, "history": merging} | replies

    def answer(body: Mapping[str, Any]) -> str:
        shown = next(text for role, text in messages_of(body) if role == "user")
        if shown.startswith("==="):
            items = [json.loads(line) for line in shown.splitlines() if line.startswith('{"number"')]
            cited = [each["number"] for each in items if "tomorrow" in each["text"] or "Initech" in each["text"]]
            return json.dumps({"answer": "At Initech, from tomorrow on.", "citations": cited, "supported": True})
        document = json.loads(shown)
        return json.dumps(next(reply(document) for key, reply in replies.items() if key in document))

    server.answer = answer


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(retry_after_s=0.1) as running:
        answering(running)
        yield running


@contextmanager
def alices(
    servers: SessionServers, grown: Grown, place: Path, embedder: Embedder, server: ModelServer | None, **settings: Any
) -> Iterator[Stack]:
    """Alice's memory, extracted offline; profiles, choices, intents, merged texts and answers are a model's."""
    one = {"model": "openai/test-model", "timeout_s": 5.0, "api_key": "key-1"}
    llm = {} if server is None else dict.fromkeys(("profile", "answer"), one | {"api_base": server.url})
    with cloned(servers, grown, place, embedder, llm={"temperature": 0.7, **llm}, **settings) as running:
        yield running


@pytest.fixture
def alice(
    servers: SessionServers, grown: Grown, tmp_path: Path, embedder: Embedder, server: ModelServer
) -> Iterator[Stack]:
    with alices(servers, grown, tmp_path, embedder, server) as running:
        yield running


MERGED = {"merge": True, "fractions": {"profile": 1.0, "evidence": 0.0}}


@pytest.fixture
def merged(
    servers: SessionServers, grown: Grown, tmp_path: Path, embedder: Embedder, server: ModelServer
) -> Iterator[Stack]:
    with alices(servers, grown, tmp_path, embedder, server, context=MERGED) as running:
        yield running


def calls(running: Stack) -> list[tuple[str, bool]]:
    """The recorded calls of the room: how they ended, and whether they name a forest."""
    rows = running.rows(
        "SELECT outcome, forest_id IS NOT NULL FROM memforest.llm_call WHERE step = 'profile' ORDER BY call_id"
    )
    return [(str(row[0]), bool(row[1])) for row in rows]


def texts(running: Stack) -> list[str]:
    """The stored texts about the whole memory."""
    rows = running.rows("SELECT text FROM memforest.summary_cache WHERE tree_id = forest_id ORDER BY text")
    return [str(row[0]) for row in rows]


def shown(running: Stack, **options: Any) -> tuple[list[str], Context]:
    context = running.memory.context("alice", "new", **options)
    return [part.text for part in context.section("profile")], context


# Profiles


def test_a_profile_is_written_once_at_temperature_0_and_stored(alice: Stack, server: ModelServer) -> None:
    listed = alice.memory.profile("alice", write=False)
    assert (listed.made, listed.degraded, server.requests) == (Made.RULES, (), [])

    first = alice.memory.profile("alice")

    assert (first.made, first.cached, first.degraded) == (Made.MODEL, False, ())
    assert first.text.startswith("Known: ") and "Oslo" in first.text
    assert {fact for sentence in first.sentences for fact in sentence.fact_ids} == set(first.fact_ids)
    assert len(first.fact_ids) == 4
    assert server.requests[0].body["temperature"] == 0.0
    for write in (True, False):
        second = alice.memory.profile("alice", write=write)
        assert (second.text, second.sentences, second.cached) == (first.text, first.sentences, True)
    assert len(server.requests) == 1
    assert calls(alice) == [("ok", True)]


def test_words_of_a_forgotten_fact_are_in_no_profile(alice: Stack, server: ModelServer) -> None:
    """Given a stored profile, when one of its facts is forgotten, then no table has its words, nor does the next."""
    memory = alice.memory
    assert "Quibovix" in memory.profile("alice").text
    assert "summary_cache.text" in in_tables(alice, ["quibovix"])["quibovix"]
    answering(server, words=choosing("Quibovix"))

    forgotten = memory.forget("alice", "my dog")
    alice.drive()

    assert [fact.text for fact in forgotten.facts] == ["Alice has a dog named Quibovix."]
    assert memory.services.forgetter.with_receipts(memory.tenant, forgotten).receipts[0].clean
    assert in_tables(alice, ["quibovix"]) == {}
    assert "Quibovix" not in memory.profile("alice").text


@pytest.mark.parametrize(
    "delete",
    [
        {"session": "s2"},
        {"session": "s2", "turns": ["t2"]},
        {"speaker": "alice"},
        {"since": START + DAY, "until": START + 4 * DAY},
        {"everything": True},
    ],
)
def test_any_deletion_takes_the_stored_profile(alice: Stack, delete: dict[str, Any]) -> None:
    alice.memory.profile("alice")

    alice.memory.lifecycle.forget("alice", actor="test", **delete)
    alice.drive()

    assert in_tables(alice, ["quibovix"]) == {}
    assert texts(alice) == []


@pytest.mark.parametrize("reading", ["profile", "context"])
def test_a_profile_that_is_written_while_its_fact_is_deleted_is_not_stored(
    alice: Stack, server: ModelServer, reading: str
) -> None:
    def slow(document: Mapping[str, Any]) -> object:
        alice.memory.lifecycle.forget("alice", session="s2", actor="test")
        alice.drive()
        return describing(document)

    answering(server, states=slow)
    made = alice.memory.profile("alice") if reading == "profile" else alice.memory.context("alice", "new")
    assert "Quibovix" in made.text
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
    with alices(servers, grown, tmp_path, embedder, server, profile={"cached": 1}) as alice:
        alice.memory.remember("alice", "I moved to Miami.", "Zoe")
        alice.drive()
        for about in (None, "Zoe"):
            alice.memory.profile("alice", about)

        (stored,) = texts(alice)
        assert "Miami" in stored


FAULTS = [
    (Fault.RATE_LIMIT, "rate limit", 1),
    (Fault.DISCONNECT, "unavailable", 1),
    (Fault.MALFORMED, "of no use", 2),
    (Fault.CONTENT_FILTER, "refused the content", 1),
    (Fault.UNAUTHORIZED, "key was refused", 1),
]


@pytest.mark.parametrize(("fault", "words", "requests"), FAULTS)
def test_a_model_that_fails_leaves_a_list_a_sentence_and_every_fact(
    alice: Stack, server: ModelServer, fault: Fault, words: str, requests: int
) -> None:
    answering(server, words=choosing("Initech"))
    server.script(fault, fault)
    before = len(alice.memory.facts("alice").items)

    known = alice.memory.profile("alice")

    assert known.made is Made.RULES and known.text.startswith("- ") and len(known.states) == 4
    assert len(known.degraded) == 1 and words in known.degraded[0]
    assert len(server.requests) == len(calls(alice)) == requests
    assert texts(alice) == []
    server.script(fault, fault)
    found = alice.memory.forget("alice", "where I work")
    alice.drive()

    assert (found.found, found.operations, found.made) == (False, (), Made.MODEL) and found.degraded
    assert "Alice works at Initech." in {fact.text for fact in found.others}
    assert len(alice.memory.facts("alice").items) == before


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
    answering(server, states=lambda _: answer)

    known = alice.memory.profile("alice")

    assert known.made is Made.RULES and known.degraded and len(server.requests) == 2


# Choices and intents


@pytest.mark.parametrize("facts", [[99], [0], [1, 99]])
def test_a_choice_of_what_was_not_shown_forgets_nothing(alice: Stack, server: ModelServer, facts: list[int]) -> None:
    answering(server, words=lambda _: {"facts": facts})

    found = alice.memory.forget("alice", "where I work")

    assert not found.found and found.degraded and len(server.requests) == 2
    assert "was not shown" in messages_of(server.requests[1].body)[-1][1]


def test_a_choice_that_is_repaired_counts(alice: Stack, server: ModelServer) -> None:
    said = iter([{"facts": [99]}])
    answering(server, words=lambda document: next(said, choosing("Initech")(document)))

    found = alice.memory.forget("alice", "where I work", dry_run=True)

    assert [fact.text for fact in found.facts] == ["Alice works at Initech."]
    assert found.degraded == () and calls(alice) == [("ok", True), ("ok", True)]


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
    answering(server, text=lambda _: {"kind": answer[0], "object": answer[1]})

    read = alice.memory.intent(text)

    assert (read.kind, read.object, read.made) == expected
    assert bool(read.degraded) == (expected[2] == "rules")
    changed = {name for name, count in alice.counts().items() if count != before[name]}
    assert changed == {"llm_call"}
    assert {forest for _, forest in calls(alice)} == {False}


@pytest.mark.parametrize(
    ("text", "answer", "expected"),
    [
        (
            "hey bot, from now on gruz is Ann to you",
            {"kind": "remember", "object": "gruz is Ann", "about": "gruz", "alias": "Ann"},
            ("remember", "gruz is Ann", "111", "Ann", "model"),
        ),
        (
            "bot, keep this: Ann is what people call gruz",
            {"kind": "remember", "object": "Ann is what people call gruz", "about": "Ann", "alias": "gruz"},
            ("remember", "Ann is what people call gruz", "111", "Ann", "model"),
        ),
        (
            "bot, the cat of the neighbour left",
            {"kind": "remember", "object": "the cat", "about": "", "alias": "the cat of the neighbour"},
            ("none", "", None, None, "rules"),
        ),
        (
            "Bot, I moved",
            {"kind": "remember", "object": "I moved", "about": ""},
            ("remember", "I moved", "222", None, "model"),
        ),
        ("Bot, gruz?", {"kind": "about", "object": "", "about": "gruz"}, ("about", "", "111", None, "model")),
        ("Bot, who is gruz?", {"kind": "about", "object": "", "about": "Bob"}, ("about", "", "111", None, "rules")),
        ("Bot, who is gruz?", {"kind": "about", "object": "", "about": ""}, ("about", "", "111", None, "rules")),
        (
            "gruz is Ann",
            {"kind": "remember", "object": "gruz is Ann", "about": "gruz"},
            ("none", "", None, None, "rules"),
        ),
    ],
)
def test_whom_a_model_says_it_is_about_is_a_speaker(
    alice: Stack, server: ModelServer, text: str, answer: dict[str, str], expected: tuple[str | None, ...]
) -> None:
    """A text that is not addressed to the assistant costs no call."""
    for speaker, name in (("111", "gruz"), ("222", "Florent")):
        turn = {"role": "user", "speaker_id": speaker, "name": name, "content": "Hi.", "timestamp": START}
        alice.memory.client.enqueue("alice", f"s-{name}", [turn])
    answering(server, text=lambda _: answer)

    read = alice.memory.intent(text, "alice", speaker="Florent", addressees=["bot"])

    assert (read.kind, read.object, read.about, read.alias, read.made) == expected
    assert len(server.requests) == (
        0 if not text.lower().startswith("bot") and read.kind == "none" else 2 if read.made is Made.RULES else 1
    )


# Contexts


def test_a_model_writes_a_profile_once_and_new_states_are_a_list_below(alice: Stack, server: ModelServer) -> None:
    """Given a written profile, when states come and change, then within the hour no call is made: sentences that are
    still valid are shown, what is new is a list below them, and what is not current any more is gone."""
    first, context = shown(alice)
    assert first[:2] == [f"Known: Alice {text}" for text in ("lives in Oslo.", "works at Initech.")]
    assert "Quibovix" in first[2] and len(context.fact_ids) == 4
    assert shown(alice)[0] == first and len(server.requests) == 1

    alice.memory.remember("alice", "I moved to Miami.")
    alice.memory.remember("alice", "I play the cello.")
    alice.drive()
    second, context = shown(alice)

    assert second[:3] == first[1:]
    assert second[3:] and all(line.startswith("- Alice ") for line in second[3:])
    assert any("Miami" in line for line in second) and not any("Oslo" in line for line in second)
    assert context.degraded == () and len(server.requests) == 1
    assert shown(alice)[0] == second


def test_it_is_written_again_after_its_time(
    servers: SessionServers, grown: Grown, tmp_path: Path, embedder: Embedder, server: ModelServer
) -> None:
    with alices(servers, grown, tmp_path, embedder, server, context={"profile_every_s": 0.0}) as alice:
        shown(alice)
        alice.memory.remember("alice", "I moved to Miami.")
        alice.drive()

        lines, _ = shown(alice)

        assert all(line.startswith("Known: ") for line in lines) and any("Miami" in line for line in lines)
        shown(alice)
        assert len(server.requests) == 2


def test_nothing_is_stored_while_a_deletion_locks_a_fact_or_the_profile(alice: Stack) -> None:
    """Given a deletion under way, when a profile is written, then it waits for nobody and stores nothing."""
    alice.memory.profile("alice")
    for held, liked in (("memforest.fact", "chess"), ("memforest.summary_cache", "tea")):
        alice.memory.remember("alice", f"I like {liked}.")
        alice.drive()
        before = texts(alice)
        owner = alice.owner_engine()
        with owner.connect() as deleting:
            deleting.exec_driver_sql(f"SELECT 1 FROM {held} FOR UPDATE")
            known = alice.memory.profile("alice")
            assert liked in known.text and known.made is Made.MODEL and known.degraded == ()
        owner.dispose()
        assert texts(alice) == before


def test_an_answer_reads_the_context_and_cites_it(alice: Stack) -> None:
    """Given a turn of the running session that recall has not found, then an answer with a context is shown it, once,
    and can cite it."""
    turn = {"id": "c0", "role": "user", "name": "Alice", "content": "I will be there tomorrow.", "timestamp": START}
    alice.memory.append("alice", "chat", turn)

    answer = alice.memory.answer("alice", "Where do I work?", k=2, context=True, session_id="chat")

    assert answer.supported
    cited = {citation.text for citation in answer.citations}
    assert "Alice: I will be there tomorrow." in cited and any("Initech" in text for text in cited)
    found = [item.text for item in answer.evidence.evidence]
    assert len(found) == len(set(found))
    with pytest.raises(InvalidInput, match="as_of"):
        alice.memory.answer("alice", "Where do I work?", context=True, as_of="2023-01-01")


# Merged contexts


def test_profile_today_and_history_are_one_text_facts_first(merged: Stack, server: ModelServer) -> None:
    """Given states, a day and days before, then one text has them in this order, with the ids of all that it rests on;
    the days have no section of their own; it is stored until a source changes, and what is new is a list below."""
    found, context = shown(merged)

    assert [text.split(":")[0] for text in found] == ["Merged"] * 4 + ["Merged today", "Merged history"]
    assert "frimbold" in found[4] and "zorblatt" in found[5]
    assert not context.section("today") and not context.section("week")
    assert {(out.section.value, out.why.value) for out in context.left_out if not out.fact_ids} >= {
        ("today", "in profile"),
        ("week", "in profile"),
    }
    assert len(context.fact_ids) == 4
    assert [each.split(":")[0] for each in context.digest_ids] == ["day", "week"]
    assert context.degraded == () and context.tokens <= context.max_tokens
    assert server.requests[-1].body["temperature"] == 0.0
    assert [outcome for outcome, _ in calls(merged)] == ["ok"] * len(server.requests) == ["ok", "ok"]

    second, context = shown(merged)
    assert second == found and len(server.requests) == 2 and context.digest_ids
    merged.memory.remember("alice", "I play the cello.")
    merged.drive()
    assert "cello" in shown(merged)[0][-1]
    assert sum("Merged" in text for text in texts(merged)) == 1


@pytest.mark.parametrize(("fault", "words", "requests"), FAULTS[:3])
def test_without_the_merge_facts_today_and_history_stand_as_they_are(
    merged: Stack, server: ModelServer, fault: Fault, words: str, requests: int
) -> None:
    """Given a model that wrote the profile and fails to merge, then all three are there in their sections, the facts
    first, and one sentence says why."""
    server.script(None, fault, fault)
    found, context = shown(merged)

    assert all(text.startswith("Known: ") for text in found) and len(found) == 4
    assert "frimbold" in context.section("today")[0].text and "zorblatt" in context.section("week")[0].text
    assert len(context.degraded) == 1 and words in context.degraded[0]
    assert context.degraded[0].startswith("The profile, today and the days before stand as they are, not merged: ")
    assert not any("Merged" in text for text in texts(merged)) and len(server.requests) == 1 + requests


def test_a_model_that_is_unavailable_for_the_profile_is_not_called_to_merge(merged: Stack, server: ModelServer) -> None:
    server.script(Fault.SERVER_ERROR)
    found, context = shown(merged)
    assert all(text.startswith("- ") for text in found) and len(server.requests) == 1
    assert any("not merged: the model did not write the profile" in each for each in context.degraded)


def test_days_of_several_people_are_not_merged_into_one_profile(merged: Stack) -> None:
    """Given another speaker, then the days of all keep their sections unless one speaker is chosen."""
    turn = {"id": "b0", "role": "user", "speaker_id": "ben", "content": "I sold my gramble.", "timestamp": START}
    merged.memory.append("alice", "ben-1", turn)
    found, context = shown(merged)
    assert not any(text.startswith("Merged") for text in found) and context.section("today")
    assert any("not merged: several people speak, and no speaker is given" in each for each in context.degraded)
    assert shown(merged, speaker="alice")[0][-1].startswith("Merged")


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
    context = MERGED | {"fractions": {"profile": 1.0, "evidence": 0.0, share: 0.0}}
    with alices(servers, grown, tmp_path, embedder, None, context=context) as alice:
        _, found = shown(alice)
        assert found.degraded == (left,)
        assert found and {part.section.value for part in found.parts} <= {"profile", "today", "week"}


@pytest.mark.parametrize(
    "bad",
    [
        [],
        [{"text": "x", "facts": [99], "days": "none"}],
        [{"text": "x", "facts": [], "days": "none"}],
        [{"text": " ", "facts": [1], "days": "none"}],
        [{"text": "x" * 50_000, "facts": [1], "days": "none"}],
        [{"text": "x", "facts": [1], "days": "tomorrow"}],
    ],
)
def test_an_answer_is_checked_and_requested_once_more(merged: Stack, server: ModelServer, bad: object) -> None:
    answers: list[object] = [{"sentences": bad}]
    answering(server, history=lambda document: answers.pop() if answers else merging(document))
    found, context = shown(merged)
    assert found[0].startswith("Merged") and context.degraded == () and len(server.requests) == 3


@pytest.mark.parametrize(
    ("session", "word"), [("yesterday", "zorblatt"), ("today", "frimbold"), ("s2", "quibovix")], ids=str
)
def test_any_deletion_takes_the_merged_text(merged: Stack, session: str, word: str) -> None:
    assert any(word in text.lower() for text in shown(merged)[0])
    assert "summary_cache.text" in in_tables(merged, [word])[word]

    operation = merged.memory.lifecycle.forget("alice", actor="test", session=session)
    merged.drive()

    assert merged.memory.lifecycle.receipt(operation.id).clean
    assert in_tables(merged, [word]) == {}
    assert not any(word in text.lower() for text in shown(merged)[0])


def test_a_text_that_is_written_while_its_words_are_deleted_is_not_stored(merged: Stack, server: ModelServer) -> None:
    """Given a deletion while the model writes, then the text is shown this once and stored nowhere; the next one is."""

    def slow(document: Mapping[str, Any]) -> object:
        merged.memory.lifecycle.forget("alice", session="yesterday", actor="test")
        merged.drive()
        return merging(document)

    answering(server, history=slow)
    assert any("zorblatt" in text for text in shown(merged)[0])
    assert in_tables(merged, ["zorblatt"]) == {}

    answering(server)
    shown(merged)
    requests = len(server.requests)
    assert not any("zorblatt" in text for text in shown(merged)[0])
    assert len(server.requests) == requests


def test_while_the_memory_is_written_nothing_is_merged_and_nobody_waits(merged: Stack) -> None:
    """The row of the text is made under the lock of the forest; when another writer has it, the parts stay as they
    are."""
    owner = merged.owner_engine()
    with owner.connect() as writing:
        writing.exec_driver_sql("SELECT 1 FROM memforest.forest FOR NO KEY UPDATE")
        _, context = shown(merged)
    owner.dispose()
    assert any("not merged: the memory was being written" in each for each in context.degraded)
    assert shown(merged)[0][0].startswith("Merged")
