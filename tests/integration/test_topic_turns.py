"""Topics as conversations: each turn has one from when it is appended, or from its facts, through every change."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from memforest_core import AsyncMemForest, MemForestClient
from memforest_core.assistant.topics.matching_rows import EACH, MatchingRows
from memforest_core.lifecycle.retain.rows import RetentionRows
from memforest_core.store.topics import ASSIGN
from memforest_core.store.vectors import to_half
from tests.harness.sayings import said
from tests.harness.servers import SessionServers
from tests.harness.stack import MEMBERS, Stack, stack
from tests.integration.test_erasure import assert_verified

DAY = 86_400
TALK = (
    ("user", 0, "My dog Rufus eats my tomato plants in the garden.", "a"),
    ("assistant", 10, "Put a fence of 80 cm around the bed.", "a"),
    ("user", 60, "ok", "a"),
    ("user", 90, "unrelated: my mortgage rate at the bank rises to 4 percent", "b"),
    ("assistant", 95, "Ask a broker for a better offer.", "b"),
    ("user", 30 * DAY, "My dog Rufus eats my tomato plants again.", "a"),
    ("assistant", 30 * DAY + 5, "Is the fence of 80 cm too low?", "a"),
)
"""Role, seconds, words, and which topic the turn belongs to."""


def append(running: Stack, role: str, second: int, text: str, session: str = "chat", owner: str = "bob") -> Any:
    turn: Any = {"role": role, "content": text, "timestamp": 1_700_000_000 + second}
    return running.memory.append(owner, session, turn | ({"name": "Bob"} if role == "user" else {}))


def talked(running: Stack) -> list[Any]:
    return [append(running, role, second, text).topic for role, second, text, _ in TALK]


def settled(running: Stack) -> None:
    """Nothing waits for another turn, and all work is done."""
    running.execute("UPDATE memforest.cell SET state = 'ready', available_at = now() WHERE state = 'held'")
    running.drive()


def topics_of(running: Stack, owner: str = "bob") -> set[frozenset[str]]:
    """The words of the turns of each topic; every turn is in one topic."""
    topics = running.memory.topics(owner).items
    found = [[e.turn.content for e in running.memory.topic_history(owner, each.id).items] for each in topics]
    assert [each.turns for each in topics] == list(map(len, found))
    return set(map(frozenset, found))


PARTS = {kind: frozenset(text for _, _, text, topic in TALK if topic == kind) for kind in "ab"}


def test_each_turn_has_a_topic_when_append_returns(pipeline: Stack) -> None:
    """Given talk of two things with a return after a month, then both sides are in their topics before any worker."""
    found = talked(pipeline)
    by = {kind: {each.id for each, turn in zip(found, TALK, strict=True) if turn[3] == kind} for kind in "ab"}
    assert [len(by["a"]), len(by["b"])] == [1, 1]
    assert by["a"] != by["b"]
    assert [each.begun for each in found] == [True, False, False, True, False, False, False]
    assert found[0].title == TALK[0][2]
    assert found[5].similarity > 0.5
    assert found[2].similarity is None
    assert topics_of(pipeline) == set(PARTS.values())
    context = pipeline.memory.topic_context("bob")
    assert context.topic.id == found[5].id
    assert {message["role"] for message in context.messages} == {"system", "user", "assistant"}
    assert context.topic.accesses == 2, "a turn that returns to it, and its history, are accesses"

    pipeline.drive()
    assert topics_of(pipeline) == set(PARTS.values())
    for kind in "ab":
        [topic] = by[kind]
        facts = f"SELECT f.text FROM {MEMBERS} p JOIN memforest.fact f ON f.fact_id = p.payload_id"
        texts = " ".join(row[0] for row in pipeline.rows(f"{facts} WHERE p.tree_id = :r", r=topic))
        assert ("Rufus" in texts, "mortgage" in texts) == (kind == "a", kind == "b")
    assert_verified(pipeline)


@pytest.mark.parametrize("way", ["enqueue", "transaction", "client"])
def test_workers_give_topics_to_turns_that_nobody_compared(pipeline: Stack, way: str) -> None:
    """Given turns that are enqueued, or come in the app's own transaction or from a process without models, then they
    have no topic until their facts are placed, and those without facts follow."""
    lines = [*said("My dog Rufus eats tomatoes.", "Rufus is two years old."), {"role": "assistant", "content": "Nice."}]
    match way:
        case "enqueue":
            pipeline.memory.enqueue("bob", "chat", lines)
        case "transaction":
            with pipeline.owner.begin() as connection:
                for line in lines:
                    assert pipeline.memory.append("bob", "chat", line, transaction=connection).topic is None
        case "client":
            client = MemForestClient(pipeline.settings, producer=pipeline.services.producer)
            assert [client.append("bob", "chat", line).topic for line in lines] == [None] * 3
    assert pipeline.memory.topics("bob").items == ()
    settled(pipeline)
    assert frozenset().union(*topics_of(pipeline)) == {line["content"] for line in lines}
    assert_verified(pipeline)

    there = "SELECT session_id, ordinal, tree_id FROM memforest.turn_topic ORDER BY 1, 2"
    before = pipeline.rows(there)
    pipeline.execute("DELETE FROM memforest.turn_topic")
    cells = [row[0] for row in pipeline.rows("SELECT cell_id FROM memforest.cell")]
    with pipeline.owner.begin() as connection:
        connection.execute(sa.text("SELECT set_config('memforest.tenant', 'default', true)"))
        connection.execute(ASSIGN, {"t": "default", "cells": cells})
    assert pipeline.rows(there) == before, "an upgrade gives stored turns the same topics"


def test_a_deleted_turn_leaves_nothing_in_its_topic(pipeline: Stack) -> None:
    """Given a topic with tags, when its first turn is deleted, then title and tags have no word of it; when its session
    is deleted, then the topic is gone."""
    topic = talked(pipeline)[0]
    pipeline.drive()
    pipeline.memory.topic_tag("bob", topic.id, ["Rufus"])
    first = pipeline.memory.turns("bob", "chat").items[0].id
    pipeline.memory.lifecycle.forget("bob", session="chat", turns=[first], actor="test")
    pipeline.drive()
    pipeline.assert_verified()
    [left] = [each for each in pipeline.memory.topics("bob").items if each.id == topic.id]
    assert (left.tags, "Rufus" in left.title) == ((), False)
    assert pipeline.rows("SELECT 1 FROM memforest.turn_topic WHERE ordinal = 0") == []

    pipeline.memory.lifecycle.forget("bob", session="chat", actor="test")
    pipeline.drive()
    assert pipeline.memory.topics("bob").items == ()
    assert pipeline.rows("SELECT 1 FROM memforest.turn_topic") == []
    assert pipeline.rows("SELECT 1 FROM memforest.tree WHERE kind = 'scene'") == []
    pipeline.assert_verified()


@pytest.mark.parametrize("way", ["merge", "rebuild", "bundle"])
def test_topics_go_with_their_turns(pipeline: Stack, tmp_path: Path, way: str) -> None:
    """Given topics of appended turns, when their owner is merged, rebuilt or imported, then each turn is in the topic
    that it was in."""
    talked(pipeline)
    append(pipeline, "user", 60 * DAY, "unrelated: zzyzx qwrtp", "other")
    pipeline.drive()
    before, owner = topics_of(pipeline), "bob"
    match way:
        case "merge":
            pipeline.memory.lifecycle.merge(["bob"], into="ann", actor="test")
            owner = "ann"
        case "rebuild":
            pipeline.memory.lifecycle.rematerialize("bob", rules={"scene_k": 4}, actor="test")
        case "bundle":
            owner = "copy"
            pipeline.memory.lifecycle.export("bob", tmp_path / "bob.mf", actor="test")
            pipeline.memory.lifecycle.import_(tmp_path / "bob.mf", owner, actor="test")
    pipeline.drive()
    assert topics_of(pipeline, owner) == before
    assert_verified(pipeline)


def test_several_appends_of_one_owner_each_find_a_topic(pipeline: Stack) -> None:
    """Given many appends at once while workers place facts, then each turn has one topic, and all is sound."""

    def talk(number: int) -> None:
        for turn in range(4):
            append(
                pipeline, "user", number * 60 + turn, f"I planted {number + turn} tomatoes in bed {turn}.", f"s{number}"
            )

    with ThreadPoolExecutor(4) as pool:
        done = [pool.submit(talk, number) for number in range(6)]
        while not all(each.done() for each in done):
            pipeline.runtime.extract()
            pipeline.runtime.reduce()
    assert [each.result() for each in done] == [None] * 6
    settled(pipeline)
    assert sum(map(len, topics_of(pipeline))) == len(pipeline.rows("SELECT 1 FROM memforest.turn"))
    assert_verified(pipeline)


def test_a_turn_warms_its_cold_topic(servers: SessionServers, tmp_path: Path, embedder: Any) -> None:
    """Given a cold topic, when a turn joins it, then it is hot when append returns."""
    with stack(servers, tmp_path, embedder=embedder, topics={"max_topics": 1}) as running:
        talked(running)
        running.drive()
        for table, column in (
            ("fact", "created_at"),
            ("tree", "last_mark_at"),
            ("tree", "created_at"),
            ("visit", "last_visit_at"),
        ):
            running.execute(f"UPDATE memforest.{table} SET {column} = {column} - interval '90 days'")
        assert running.services.topic_cooling.run().cooled == 1
        [cold] = [each for each in running.memory.topics("bob").items if each.temperature == "cold"]
        handle = append(running, "user", 31 * DAY, "btw my mortgage rate at the bank rises to 5 percent")
        assert handle.topic.id == cold.id
        assert handle.degraded == ""
        assert {each.temperature for each in running.memory.topics("bob").items} == {"hot"}


def test_async_append_names_the_topic(pipeline: Stack) -> None:
    async def talk() -> tuple[Any, Any]:
        memory = AsyncMemForest(pipeline.memory)
        handle = await memory.append("bob", "chat", {"role": "user", "content": "My dog eats tomatoes."})
        return handle, await memory.topic_context("bob")

    handle, context = asyncio.run(talk())
    assert handle.topic is not None
    assert handle.topic.id == context.topic.id


def test_a_turn_never_joins_a_topic_of_another_memory(pipeline: Stack) -> None:
    append(pipeline, "user", 0, TALK[0][2], owner="ann")
    settled(pipeline)
    found = append(pipeline, "user", 0, TALK[0][2]).topic
    assert found is not None
    assert found.begun
    assert_verified(pipeline)


def test_a_turn_joins_a_topic_whose_turns_nobody_compared(pipeline: Stack) -> None:
    """Given topics of a whole session, which have the vectors of their facts alone, then a turn finds its own."""
    lines = [f"My dog Rufus ate {n} of the tomato plants." for n in range(3)]
    pipeline.memory.enqueue("bob", "whole", said(*lines, start=1_700_000_000))
    pipeline.drive()
    [one] = pipeline.memory.topics("bob").items
    assert append(pipeline, "user", 30 * DAY, "Rufus the dog eats tomato plants again.").topic.id == one.id
    assert append(pipeline, "user", 60 * DAY, "Parliament votes about tariffs on imported steel.").topic.begun


def test_a_topic_whose_only_vector_is_of_an_old_turn_has_that_of_its_facts(pipeline: Stack) -> None:
    lines = [f"My dog Rufus ate {n} of the tomato plants." for n in range(EACH + 1)]
    pipeline.memory.enqueue("bob", "whole", said(*lines, start=1_700_000_000))
    pipeline.drive()
    vector, model = to_half(np.ones(384, np.float32)), pipeline.services.embedder.model
    pipeline.execute(
        "UPDATE memforest.turn_topic SET vector = :v, vector_model = :m WHERE ordinal = 0", v=vector, m=model
    )
    [[forest]] = pipeline.rows("SELECT forest_id FROM memforest.forest WHERE owner = 'bob'")
    with MatchingRows.opened(pipeline.services.engine, pipeline.tenant) as rows:
        assert sum(one.vector is not None for one in rows.compared(forest, model)) == 1


def test_a_topic_without_facts_has_its_accesses_as_long_as_it_is_there(pipeline: Stack) -> None:
    """Given topics that workers have not seen, then a run of retention leaves their accesses, a topic that another one
    takes in is warm, and a deletion leaves nothing."""
    found = talked(pipeline)
    with RetentionRows.opened(pipeline.services.engine, pipeline.tenant) as rows:
        [forest] = pipeline.rows("SELECT forest_id FROM memforest.forest")[0]
        rows.drop_stray_visits(forest, 100)
    assert sum(each.accesses for each in pipeline.memory.topics("bob").items) == 1
    pipeline.execute("UPDATE memforest.tree SET cold_at = now() WHERE kind = 'scene'")
    assert pipeline.memory.topic_merge("bob", found[5].id, found[3].id).temperature == "hot"
    assert pipeline.rows("SELECT 1 FROM memforest.tree WHERE cold_at IS NOT NULL") == []
    pipeline.memory.lifecycle.forget("bob", session="chat", actor="test")
    pipeline.drive()
    assert pipeline.rows("SELECT 1 FROM memforest.visit") == []
