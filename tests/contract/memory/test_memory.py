"""The library's promises, the same for the embedded node, a connected process and the client over HTTP."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import pytest

from memforest_core.client.api import MemForest
from memforest_core.client.async_memory import AsyncMemForest
from memforest_core.client.embedded.node import addresses
from memforest_core.client.remote.remote_memory import RemoteMemForest
from memforest_core.domain.evidence import Evidence
from memforest_core.errors import InvalidInput, InvalidSettings, NotFound, SessionConflict
from memforest_core.settings import load_settings
from memforest_core.work.waiting import WaitTimeout
from tests.contract.memory.conftest import Node

MOVES = [
    {"role": "user", "name": "Bob", "content": "I moved from Boston to Davis.", "timestamp": "2023-05-01T09:00:00Z"},
    {"role": "assistant", "content": "How do you like Davis?", "timestamp": "2023-05-01T09:01:00Z"},
    {
        "role": "user",
        "name": "Bob",
        "content": "I adopted a cat called Miso.",
        "timestamp": datetime(2023, 6, 2, tzinfo=UTC),
    },
]


@pytest.fixture
def owner(memory: MemForest) -> str:
    """An owner whose session is at rest; ids of callers may hold any character."""
    name = f"bob/{uuid4()}?#&"
    memory.enqueue(name, "s/1", MOVES, wait="summaries", metadata={"app": "test"})
    return name


def test_a_session_is_stored_once(memory: MemForest, owner: str) -> None:
    """Given a stored session, when it is sent again, then nothing changes; with another turn it is refused."""
    repeated = memory.enqueue(owner, "s/1", MOVES)

    assert repeated.accepted.new_turns == 0
    assert repeated.status().turns == len(MOVES)
    with pytest.raises(SessionConflict):
        memory.enqueue(owner, "s/1", [MOVES[0] | {"content": "I moved to Rome."}])


def test_messages_of_chat_apis_are_stored_once(memory: MemForest) -> None:
    """Given messages with calls, results and an empty answer, when they are sent again, then nothing is new."""
    owner = f"shapes-{uuid4()}"
    call = {"type": "tool_use", "id": "t", "name": "weather", "input": {"city": "Bergen"}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "4 C and rain"}
    messages: list[Any] = [
        {"role": "user", "parts": [{"text": "Is it cold?"}]},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result, {"type": "text", "text": "I live there."}]},
        {"role": "assistant", "content": None, "tool_calls": None, "provider_specific_fields": None},
    ]

    assert memory.enqueue(owner, "s", messages).accepted.new_turns == 4
    assert memory.enqueue(owner, "s", messages).accepted.new_turns == 0
    assert memory.append(owner, "s", messages[-1]).accepted.new_turns == 0
    assert [f"{turn.role}: {turn.content}" for turn in memory.turns(owner, "s").items] == [
        "user: Is it cold?",
        'assistant: [called weather({"city": "Bergen"})]',
        "tool: 4 C and rain",
        "user: I live there.",
    ]
    with pytest.raises(InvalidInput, match="nobody says anything"):
        memory.enqueue(owner, "other", messages[-1:])


def test_what_was_said_is_found_with_its_place(memory: MemForest, owner: str) -> None:
    found = memory.recall(owner, "Where does Bob live?", k=3, roles=["user"])

    assert "Davis" in found.evidence[0].text
    assert found.evidence[0].session_id == "s/1"
    assert found.evidence[0].time.start == datetime(2023, 5, 1, 9, tzinfo=UTC)
    assert found.text(200).startswith("[Monday 1 May 2023]")
    assert found.owner_known


def test_every_face_finds_the_same(memories: dict[str, MemForest]) -> None:
    """Given one owner, when all faces ask the same, then evidence, facts, trees and timeline are equal."""
    name = f"carol-{uuid4()}"
    memories["embedded"].enqueue(name, "s", MOVES, wait="summaries")
    memories["embedded"].flush(name)  # summaries are indexed after they are ready

    def reported(memory: MemForest) -> tuple[object, ...]:
        evidence: tuple[Evidence, ...] = memory.recall(name, "What is the cat called?", k=5, neighbours=1).evidence
        trees = memory.trees(name)
        return (
            evidence,
            memory.facts(name),
            trees,
            memory.node(trees.items[0].root_id),
            memory.timeline(name, entity="Bob", attribute="residence"),
            memory.sessions(name),
            memory.turns(name, "s", last=2),
            memory.profile(name, write=False),
            memory.context(name, question="Where does Bob live?").text,
            memory.window(name, "s").parts,
        )

    first, *others = map(reported, memories.values())
    for other in others:
        assert other == first


def test_pages_go_on_with_their_cursors(memory: MemForest, owner: str) -> None:
    first = memory.turns(owner, "s/1", limit=2)
    second = memory.turns(owner, "s/1", limit=2, cursor=first.cursor)

    assert [turn.content for turn in (*first.items, *second.items)] == [turn["content"] for turn in MOVES]
    assert second.cursor is None


def test_an_owner_without_a_memory_is_no_error(memory: MemForest) -> None:
    nobody = f"nobody-{uuid4()}"

    assert memory.recall(nobody, "Where?").evidence == ()
    assert not memory.recall(nobody, "Where?").owner_known
    assert not memory.facts(nobody).owner_known
    assert memory.sessions(nobody).items == ()


def test_bad_input_raises_an_error_that_explains_it(memory: MemForest, owner: str) -> None:
    with pytest.raises(InvalidInput, match="k"):
        memory.recall(owner, "Where?", k=0)
    with pytest.raises(InvalidInput):
        memory.enqueue(owner, "other", [{"role": "user", "content": "x", "colour": "red"}])  # type: ignore[typeddict-unknown-key]
    with pytest.raises(InvalidInput):
        memory.enqueue(owner, "other", MOVES, wait="forever")
    for listed in (memory.lifecycle.operations, memory.lifecycle.audit, memory.dead.list):
        with pytest.raises(InvalidInput, match="limit"):
            listed(limit=-1)
    with pytest.raises(NotFound):
        memory.status(owner, "no such session")
    with pytest.raises(NotFound):
        memory.node(uuid4())
    with pytest.raises(InvalidSettings):
        memory.answer(owner, "Where?")


def test_appended_turns_wait_for_their_second(memory: MemForest, owner: str) -> None:
    handle = memory.append(
        owner, "s/2", {"role": "user", "name": "Bob", "content": "I bought a red bike."}, wait="facts"
    )

    assert handle.status().facts > 0
    assert "bike" in memory.recall(owner, "What did Bob buy?", roles=["user"]).text()


def test_a_wait_ends_when_its_time_is_over(memory: MemForest, owner: str) -> None:
    memory.append(owner, "s/3", {"role": "user", "content": "Held back."})

    with pytest.raises(WaitTimeout) as raised:
        memory.wait(owner, "s/3", "facts", timeout_s=0.2)
    assert raised.value.code == "wait_timeout"


def test_what_is_forgotten_is_gone(memory: MemForest, owner: str) -> None:
    """Given a fact, when its session is deleted, then a dry run counts it, the receipt is clean, nobody finds it."""
    counted = memory.lifecycle.forget(owner, session="s/1", actor="test", dry_run=True).wait()
    requested = memory.lifecycle.forget(owner, session="s/1", actor="test")
    requested.wait()

    assert int(counted["turns"]) == len(MOVES)
    receipt = memory.lifecycle.receipt(requested.id)
    assert receipt.clean
    assert receipt.removed["turns"] == len(MOVES)
    assert memory.recall(owner, "Where does Bob live?").evidence == ()
    assert memory.lifecycle.operation(requested.id).fulfilled
    assert any(entry.task_id == requested.id for entry in memory.lifecycle.audit(owner))
    proven = memory.lifecycle.audit_verify(memory.lifecycle.audit_head())
    assert (proven.sound, proven.extends) == (True, "unsigned")


def test_a_note_and_a_deletion_in_words(memory: MemForest, owner: str) -> None:
    wanted = memory.intent("bot, remember that I am allergic to peanuts.", owner, speaker=owner, addressees=["bot"])
    assert (wanted.kind, wanted.about, wanted.alias) == ("remember", owner, None)
    note = memory.remember(owner, wanted.object, wanted.about, alias=wanted.alias, wait="facts")
    assert note.degraded == "" and memory.intent("remember that I sing", owner, addressees=["bot"]).kind == "none"
    found = memory.forget(owner, "peanuts", dry_run=True, about=owner)

    assert any("peanuts" in fact.text for fact in (*found.facts, *found.others))


def test_a_fact_is_corrected(memory: MemForest, owner: str) -> None:
    fact = next(each for each in memory.facts(owner).items if "Davis" in each.text)
    memory.lifecycle.correct(owner, fact.id, text="Bob moved from Boston to Dallas.", actor="test").wait()

    current = [each.text for each in memory.facts(owner, superseded=False).items]
    assert "Bob moved from Boston to Dallas." in current
    with pytest.raises(NotFound):
        memory.lifecycle.correct(owner, uuid4(), text="Nobody.", actor="test").wait()


@pytest.mark.parametrize("format", ["bundle", "sqlite", "jsonl"])
def test_a_forest_moves_as_a_file(
    memory: MemForest, owner: str, tmp_path: Path, format: Literal["bundle", "sqlite", "jsonl"]
) -> None:
    path = tmp_path / "forest"
    counts = memory.lifecycle.export(owner, path, format=format, actor="test")
    assert path.read_bytes().startswith(b'{"memforest": ' if format == "jsonl" else b"SQLite format 3")
    other = f"copy-{uuid4()}"
    memory.lifecycle.import_(path, other, actor="test")

    assert int(counts["turn"]) == len(MOVES)
    assert [turn.content for turn in memory.turns(other, "s/1").items] == [turn["content"] for turn in MOVES]
    with pytest.raises(InvalidInput):
        memory.lifecycle.export(owner, path, actor="test")


def test_many_sessions_in_one_call(memory: MemForest) -> None:
    name = f"many-{uuid4()}"
    handles = memory.enqueue_many([(name, f"s{n}", MOVES[:1]) for n in range(3)], wait="raw")

    assert [handle.session_id for handle in handles] == ["s0", "s1", "s2"]
    assert [h.session_id for h in memory.enqueue_stream([(name, "s3", MOVES[:1])])] == ["s3"]


@pytest.mark.parametrize("kind", ["connected", "asynchronous", "remote"])
def test_the_end_of_a_program_leaves_whole_summaries(node: Node, kind: str) -> None:
    """Given an open cell, when the program that appended it closes with ``summarize``, then its session is summarized;
    what is not done in time is named, and nothing stays open."""
    settings = load_settings(**addresses(node.memory.settings))
    opened: Any = RemoteMemForest(node.address, node.key()) if kind == "remote" else MemForest.connect(settings)
    owners = [f"closing-{uuid4()}" for _ in range(2)]
    for owner in owners:
        opened.append(owner, "s", MOVES[0])
    opened.append(gone := f"a-{uuid4()}", "s", MOVES[0])
    node.memory.lifecycle.forget(gone, everything=True, actor="test").wait()
    assert all(node.memory.status(owner, "s").extracted == 0 for owner in owners)
    if kind == "asynchronous":
        asyncio.run(AsyncMemForest(opened).close(summarize=True))
    else:
        opened.close(summarize=True)
    assert {node.memory.status(owner, "s").stage for owner in owners} == {"summaries"}
    hasty: Any = RemoteMemForest(node.address, node.key()) if kind == "remote" else MemForest.connect(settings)
    hasty.append(f"closing-{uuid4()}", "s", MOVES[0])

    with pytest.raises(WaitTimeout, match="still has 1 cells"):
        hasty.close(summarize=True, timeout_s=0.0)
