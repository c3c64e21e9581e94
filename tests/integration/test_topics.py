"""Scenes as topics: lists, contexts, histories, counts, tags, merging, matching, and the commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from memforest_core import ForestFrozen, InvalidInput, ModelUnavailable, NotFound, Temperature, Topic
from memforest_core.models.calls import Embedder
from tests.harness.sayings import said
from tests.harness.servers import SessionServers
from tests.harness.stack import Grown, Stack, cloned
from tests.integration.test_erasure import assert_verified

SHOP = [f"I bought item{n} for {n + 3} dollars in Denver." for n in range(8)]
GARDEN = [f"I planted {n + 2} tomato seeds in garden bed {n}." for n in range(8)]
RUNS = [f"I ran {n + 5} kilometers in race {n} in Boston." for n in range(8)]
PETS = [
    "I have a dog called Rufus.",
    "My dog Rufus is two years old.",
    "I adopted a cat called Milo.",
    "My cat Milo is black.",
]
DAYS_100 = 8_640_000


def tell(running: Stack) -> None:
    for number, (name, lines) in enumerate({"shop": SHOP, "garden": GARDEN, "run": RUNS, "pets": PETS}.items()):
        turns = said(*lines, start=1_700_000_000 + number * DAYS_100)
        if name == "garden":
            turns[0] |= {"metadata": {"importance": 1.0}}
            turns[1] |= {"metadata": {"importance": "high"}}
            turns[2] |= {"metadata": {"importance": -5}}
        running.memory.enqueue("bob", name, turns)
    running.memory.enqueue("carol", "tea", said("I love tea.", name="Carol"))


def topic(running: Stack, word: str) -> Topic:
    """The topic whose title has a word."""
    [found] = [each for each in running.memory.topics("bob").items if word in each.title]
    return found


def test_topics_come_latest_first_and_page_by_page(grown_once: Stack) -> None:
    memory = grown_once.memory
    whole = memory.topics("bob")
    assert [topic(grown_once, word).id for word in ("dog", "ran", "planted", "bought")] == [e.id for e in whole.items]
    assert [(each.facts, each.turns) for each in whole.items] == [(4, 4), (8, 8), (8, 8), (8, 8)]
    assert whole.cursor is None

    found, cursor = [], None
    while len(found) < 4:
        page = memory.topics("bob", limit=1, cursor=cursor)
        found += [each.id for each in page.items]
        cursor = page.cursor
    assert cursor is None
    assert found == [each.id for each in whole.items]

    pets = whole.items[0]
    assert "dog" in pets.title.split(", ")
    assert len(pets.title) <= 80
    assert pets.named
    assert (pets.temperature, pets.accesses, pets.last_access, pets.tags) == (Temperature.HOT, 0, None, ())
    assert pets.first is not None
    assert pets.last is not None
    assert (pets.last - pets.first).total_seconds() == 180
    assert pets.priority == pytest.approx(0.5, abs=0.01)


def test_who_has_no_memory_or_no_topic_has_no_topics(grown_once: Stack) -> None:
    assert not grown_once.memory.topics("nobody").owner_known
    [tea] = grown_once.memory.topics("carol").items
    assert (tea.title, tea.facts, tea.turns, tea.named) == ("I love tea.", 1, 1, False)
    with pytest.raises(InvalidInput):
        grown_once.memory.topics("bob", cursor="nonsense")
    with pytest.raises(InvalidInput):
        grown_once.memory.topics("bob", limit=0)
    for owner, id_ in (("nobody", uuid4()), ("carol", topic(grown_once, "dog").id), ("bob", uuid4())):
        with pytest.raises(NotFound):
            grown_once.memory.topic_stats(owner, id_)
    with pytest.raises(NotFound, match="Owner 'nobody' has no topic yet"):
        grown_once.memory.topic_context("nobody")
    with pytest.raises(InvalidInput):
        grown_once.memory.topic_stats("bob", "no uuid")


def test_importance_is_stated_by_turns(grown_once: Stack) -> None:
    """Given eight turns of which one states 1, one something that is no number and one less than 0."""
    assert topic(grown_once, "tomato").importance == pytest.approx((1.0 + 0.5 + 0.0 + 5 * 0.5) / 8)


def test_a_context_is_the_summary_and_then_the_turns(rested: Stack) -> None:
    pets = topic(rested, "dog")
    made = rested.memory.topic_context("bob", pets.id)

    assert made.messages[0]["role"] == "system"
    assert "Bob adopted a cat called Milo." in made.messages[0]["content"]
    assert [message["content"] for message in made.messages[1:]] == PETS
    assert [session for session, _ in made.turn_ids] == ["pets"] * 4
    assert made.left_out == 0

    short = rested.memory.topic_context("bob", pets.id, max_tokens=50)
    assert short.tokens <= 50
    assert short.left_out == 4 - (len(short.messages) - 1) > 0
    assert short.messages[-1]["content"] == PETS[-1]

    now = topic(rested, "dog")
    assert now.accesses == 2
    assert now.last_access is not None
    assert now.importance == pytest.approx(1 - 0.5 * 0.5 ** (2 / 5))


def test_a_history_has_the_turns_in_order(rested: Stack) -> None:
    shop = topic(rested, "bought")
    found, cursor = [], None
    while True:
        page = rested.memory.topic_history("bob", shop.id, limit=3, cursor=cursor)
        found += [each.turn.content for each in page.items]
        cursor = page.cursor
        if cursor is None:
            break
    assert found == SHOP
    assert topic(rested, "bought").accesses == 1, "a history that is read page by page is one access"


def test_a_topic_whose_evidence_recall_returns_is_accessed(rested: Stack) -> None:
    rested.memory.recall("bob", "What is my dog called?", k=2)
    rested.services.visits.flush()
    assert topic(rested, "dog").accesses > 0


def test_counts_say_what_texts_take(rested: Stack) -> None:
    """Given a topic with a turn of 9,000 characters, then Postgres stores it in less, and the count says so."""
    long = "I planted 77 tomato seeds in garden bed 77. " + "And then it rained on all the beds for an hour. " * 180
    rested.memory.enqueue("bob", "rain", said(long, start=1_720_000_000))
    rested.drive()
    stats = rested.memory.topic_stats("bob", topic(rested, "77").id)

    assert stats.topic.turns == 1
    assert stats.sessions == 1
    assert stats.text_bytes == len(long)
    assert (stats.active_turns, stats.compressed_turns, stats.compression) == (1, 0, 0)
    assert stats.stored_bytes < stats.text_bytes / 3
    assert stats.points >= stats.topic.facts
    assert (stats.points_cold, stats.cold_since) == (0, None)


def test_tags_are_set_and_removed(rested: Stack) -> None:
    pets = topic(rested, "dog")
    assert rested.memory.topic_tag("bob", pets.id, ["home", "animals"]).tags == ("home", "animals")
    assert topic(rested, "dog").tags == ("home", "animals")
    assert rested.memory.topic_tag("bob", str(pets.id), []).tags == ()
    with pytest.raises(InvalidInput):
        rested.memory.topic_tag("bob", pets.id, ["two\nlines"])


def test_a_deleted_fact_takes_title_and_tags_with_it(rested: Stack) -> None:
    """Given a topic with a title and tags, when a fact of it is deleted, then both are cleared, and others' are not."""
    pets, shop = topic(rested, "dog"), topic(rested, "bought")
    for each in (pets, shop):
        rested.memory.topic_tag("bob", each.id, ["Milo"])
    rested.execute("UPDATE memforest.tree SET title = 'Milo and Rufus' WHERE tree_id = ANY(:t)", t=[pets.id, shop.id])
    assert [each.title for each in rested.memory.topics("bob").items].count("Milo and Rufus") == 2

    [fact] = [fact.id for fact in rested.memory.facts("bob").items if "Milo is black" in fact.text]
    rested.memory.lifecycle.forget("bob", fact=fact, actor="test")
    rested.drive()

    found = {each.id: each for each in rested.memory.topics("bob").items}
    assert "dog" in found[pets.id].title, "of what is left"
    assert found[pets.id].tags == ()
    assert (found[shop.id].title, found[shop.id].tags) == ("Milo and Rufus", ("Milo",))
    assert_verified(rested)


def test_two_topics_become_one(rested: Stack) -> None:
    pets, shop = topic(rested, "dog"), topic(rested, "bought")
    rested.memory.topic_tag("bob", pets.id, ["home"])
    rested.memory.topic_tag("bob", shop.id, ["home", "money"])

    made = rested.memory.topic_merge("bob", pets.id, shop.id)
    rested.drive()

    assert (made.id, made.facts, made.tags) == (pets.id, 12, ("home", "money"))
    whole = {each.id: each for each in rested.memory.topics("bob").items}
    assert shop.id not in whole
    assert whole[pets.id].turns == 12
    texts = [each.turn.content for each in rested.memory.topic_history("bob", pets.id).items]
    assert texts == [*SHOP, *PETS]
    assert "item0" in rested.memory.topic_context("bob", pets.id).messages[0]["content"]
    with pytest.raises(NotFound):
        rested.memory.topic_context("bob", shop.id)
    assert_verified(rested)


def test_a_merge_that_makes_no_sense_is_refused(
    servers: SessionServers, grown: Grown, tmp_path: Path, embedder: Embedder
) -> None:
    with cloned(servers, grown, tmp_path, embedder, reduce={"scene_cap": 11}) as running:
        pets, shop = topic(running, "dog"), topic(running, "bought")
        with pytest.raises(InvalidInput) as refused:
            running.memory.topic_merge("bob", pets.id, shop.id)
        assert refused.value.code == "topic_too_large"
        assert "12 facts" in refused.value.message
        with pytest.raises(InvalidInput) as refused:
            running.memory.topic_merge("bob", pets.id, pets.id)
        assert refused.value.code == "same_topic"
        assert len(running.memory.topics("bob").items) == 4
        running.execute("UPDATE memforest.forest SET state = 'frozen' WHERE owner = 'bob'")
        with pytest.raises(ForestFrozen):
            running.memory.topic_merge("bob", pets.id, shop.id)
        assert running.memory.topic_context("bob", pets.id).messages, "reading goes on"


@pytest.fixture
def matching(servers: SessionServers, grown: Grown, tmp_path: Path, embedder: Embedder) -> Iterator[Stack]:
    with cloned(servers, grown, tmp_path, embedder, topics={"match_on_append": True, "match": 0.5}) as running:
        yield running


def appended(running: Stack, text: str) -> Any:
    return running.memory.append("bob", "now", {"role": "user", "content": text})


def test_an_appended_turn_says_its_topic(matching: Stack) -> None:
    handle = appended(matching, "I planted 40 tomato seeds in garden bed 4.")
    assert handle.topic is not None
    assert handle.topic.id == topic(matching, "tomato").id
    assert handle.topic.title == topic(matching, "tomato").title
    assert 0.5 <= handle.topic.similarity <= 1.0
    assert handle.degraded == ""

    begun = appended(matching, "Parliament votes about tariffs.").topic
    assert (begun.title, begun.begun, begun.similarity) == ("Parliament votes about tariffs.", True, None)
    assert [turn.content for turn in matching.memory.turns("bob", "now").items][1] == "Parliament votes about tariffs."


def test_an_unavailable_part_is_named_and_the_turn_is_stored(matching: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    def model_unavailable(*_: object) -> None:
        raise ModelUnavailable("away")

    matcher = matching.services.topic_matcher
    monkeypatch.setattr(type(matcher.embedder), "embed", model_unavailable)
    handle = appended(matching, "I planted tomato seeds in bed 6.")
    assert "embedding model is unavailable" in handle.degraded
    assert handle.topic is None
    assert len(matching.memory.turns("bob", "now").items) == 1
