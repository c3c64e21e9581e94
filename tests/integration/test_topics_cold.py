"""Topics become cold and warm: points leave the index and come back, words are found meanwhile, nothing is lost."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from memforest_core import Temperature, Topic
from memforest_core.assistant.topics import cooling as topics_cooling
from memforest_core.assistant.topics.cooling import Changed
from memforest_core.domain.ids import ForestId
from memforest_core.models.calls import Embedder
from memforest_core.store.engine import tenant_transaction
from memforest_core.store.owners import lock_forest
from memforest_workers import runtime
from tests.harness.changing_index import ChangingIndex
from tests.harness.sayings import said
from tests.harness.servers import SessionServers
from tests.harness.stack import MEMBERS, Grown, Stack, cloned
from tests.harness.timing import until
from tests.integration.test_erasure import assert_nowhere, assert_verified
from tests.integration.test_topics import GARDEN, PETS, tell, topic

__all__ = ["tell"]

OLD = ("tomato", "bought", "ran")
"""Words of the titles of topics that nobody read in a month."""


@pytest.fixture
def aged(servers: SessionServers, grown: Grown, tmp_path: Path, embedder: Embedder) -> Iterator[Stack]:
    """Four topics of which two may stay hot; all were learned a month ago, that of pets last."""
    with cloned(servers, grown, tmp_path, embedder, topics={"max_topics": 2}) as running:
        age(running)
        yield running


def age(running: Stack, days: int = 30) -> None:
    for table, column in (("fact", "created_at"), ("tree", "last_mark_at"), ("visit", "last_visit_at")):
        running.execute(f"UPDATE memforest.{table} SET {column} = {column} - make_interval(days => {days})")


def tend(running: Stack) -> Changed:
    """One round, and what the indexer does for it."""
    done = running.services.topic_cooling.run()
    running.drive()
    return done


def facts_of(running: Stack, each: Topic) -> list[UUID]:
    """In the order of time."""
    found = running.rows(
        f"""SELECT x.fact_id FROM {MEMBERS} p JOIN memforest.fact x ON x.fact_id = p.payload_id
            WHERE p.tree_id = :t ORDER BY x.key_time""",
        t=each.id,
    )
    return [row[0] for row in found]


def cells_of(running: Stack, each: Topic) -> list[UUID]:
    found = running.rows(
        "SELECT DISTINCT cell_id FROM memforest.occurrence WHERE fact_id = ANY(:f)", f=facts_of(running, each)
    )
    return [row[0] for row in found]


def temperatures(running: Stack) -> dict[str, Temperature]:
    words = ("dog", *OLD)
    return {word: topic(running, word).temperature for word in words}


def cold(running: Stack) -> list[Topic]:
    return [each for each in running.memory.topics("bob").items if each.temperature is Temperature.COLD]


def test_above_the_number_the_lowest_topics_become_cold_and_the_active_one_never(aged: Stack) -> None:
    """Given four old topics, two of which may stay, then two become cold; that of the newest turn is not one."""
    before = {word: topic(aged, word) for word in OLD}
    assert all(each.priority < 0.05 for each in before.values())

    done = tend(aged)

    assert (done.cooled, done.warmed) == (2, 0)
    assert temperatures(aged)["dog"] is Temperature.HOT
    assert len(cold(aged)) == 2
    for each in cold(aged):
        assert aged.versions([*facts_of(aged, each), *cells_of(aged, each)]) == {}
        stats = aged.memory.topic_stats("bob", each.id)
        assert (stats.points, stats.points_cold) == (0, len(facts_of(aged, each)) + len(cells_of(aged, each)))
        assert stats.cold_since is not None
    hot = topic(aged, "dog")
    assert len(aged.versions(facts_of(aged, hot))) == 4
    assert tend(aged) == Changed()
    assert_verified(aged)


def test_topics_that_are_new_or_few_stay_hot(
    servers: SessionServers, grown: Grown, tmp_path: Path, embedder: Embedder
) -> None:
    with cloned(servers, grown, tmp_path, embedder, topics={"max_topics": 2}) as running:
        assert tend(running) == Changed()
    (tmp_path / "few").mkdir()
    with cloned(servers, grown, tmp_path / "few", embedder) as running:
        age(running)
        assert tend(running) == Changed()


def test_full_text_finds_what_is_cold_and_a_visit_warms_it_in_the_order_of_time(aged: Stack) -> None:
    aged.execute("UPDATE memforest.fact SET created_at = clock_timestamp() WHERE text LIKE '%item%'")
    tend(aged)
    garden = topic(aged, "tomato")
    assert garden.temperature is Temperature.COLD

    found = aged.memory.recall("bob", "How many tomato seeds are in garden bed 3?", k=3)
    assert f"Bob: {GARDEN[3]}" in [piece.text for piece in found.evidence]
    assert found.degraded == ()
    vector = aged.services.embedder.embed_query(["tomato seeds"]).vectors[0].tolist()
    assert any("cold" in sentence for sentence in aged.memory.recall("bob", vector=vector, k=3).degraded)

    aged.services.visits.flush()
    done = aged.services.topic_cooling.run()
    assert done.warmed == 1
    waiting = aged.rows(
        "SELECT point_id FROM memforest.index_row WHERE state = 'ready' AND kind = 'fact' ORDER BY available_at"
    )
    assert [row[0] for row in waiting] == facts_of(aged, garden)
    aged.drive()

    warm = topic(aged, "tomato")
    assert warm.temperature is Temperature.HOT
    assert warm.accesses > 0
    assert len(aged.versions(facts_of(aged, garden))) == 8
    assert_verified(aged)


@pytest.mark.parametrize("reading", ["context", "history"])
def test_reading_a_cold_topic_warms_it_at_once(aged: Stack, reading: str) -> None:
    tend(aged)
    chosen = cold(aged)[0]
    assert aged.memory.topic_history("bob", chosen.id, include_compressed=False).items == ()
    assert aged.memory.topic_stats("bob", chosen.id).topic.temperature is Temperature.COLD
    if reading == "context":
        assert len(aged.memory.topic_context("bob", chosen.id).messages) > 1
    else:
        assert len(aged.memory.topic_history("bob", chosen.id).items) == 8
    assert aged.memory.topic_stats("bob", chosen.id).topic.temperature is Temperature.HOT
    aged.drive()
    assert len(aged.versions(facts_of(aged, chosen))) == 8
    assert len(cold(aged)) == 1
    assert_verified(aged)


@pytest.mark.parametrize("before", [False, True], ids=["after the search", "before it"])
@pytest.mark.parametrize("becomes", list(Temperature))
def test_a_topic_that_changes_during_a_recall_is_found_by_it(aged: Stack, becomes: Temperature, before: bool) -> None:
    """Given a topic that becomes cold, or warm, while the index is searched, then its turn is found all the same."""
    aged.execute("UPDATE memforest.fact SET created_at = clock_timestamp() WHERE text LIKE '%item%'")
    garden = topic(aged, "tomato")

    def warm() -> None:
        aged.memory.topic_history("bob", garden.id)
        if not before:  # else it is neither cold nor in the index when that is searched
            aged.drive()

    if becomes is Temperature.HOT:
        tend(aged)
    index = ChangingIndex(aged.services.index, warm if becomes is Temperature.HOT else lambda: tend(aged), before)
    service = replace(aged.services.recall, index=index, visits=None)
    found = service.recall(aged.tenant, "bob", "Who planted tomato seeds in garden bed 3?", mode="flat").evidence
    assert index.changed
    assert topic(aged, "tomato").temperature is becomes
    assert f"Bob: {GARDEN[3]}" in [piece.text for piece in found]


def test_a_topic_of_a_busy_forest_is_warmed_by_the_next_round(aged: Stack) -> None:
    tend(aged)
    chosen = cold(aged)[0]
    forest = ForestId(aged.rows("SELECT forest_id FROM memforest.forest WHERE owner = 'bob'")[0][0])
    with tenant_transaction(aged.services.engine, aged.tenant) as connection:
        lock_forest(connection, aged.tenant, forest)
        assert aged.memory.topic_context("bob", chosen.id).messages
        assert aged.services.topic_cooling.run() == Changed()
        assert chosen.id in {each.id for each in cold(aged)}
    assert tend(aged).warmed == 1
    assert chosen.id not in {each.id for each in cold(aged)}


def test_a_cell_that_a_hot_topic_needs_stays(
    servers: SessionServers, grown: Grown, tmp_path: Path, embedder: Embedder
) -> None:
    """Given a cell that says facts of two topics, when one of them is cold, then only its fact leaves the index."""
    with cloned(servers, grown, tmp_path, embedder, topics={"max_topics": 1}) as running:
        both = said("I planted 50 tomato seeds in garden bed 50.", "I have a dog called Rex.", start=1_730_000_000)
        running.memory.enqueue("bob", "both", both)
        running.memory.enqueue("bob", "later", said("I adopted a dog called Luna.", start=1_740_000_000))
        running.drive()
        age(running)
        tend(running)
        garden, pets = topic(running, "tomato"), topic(running, "dog")
        assert (garden.temperature, pets.temperature) == (Temperature.COLD, Temperature.HOT)
        shared = set(cells_of(running, garden)) & set(cells_of(running, pets))
        assert len(shared) == 1
        assert set(running.versions(cells_of(running, garden))) == shared
        assert running.versions(facts_of(running, garden)) == {}
        assert_verified(running)


def test_a_pinned_fact_stays(aged: Stack) -> None:
    for word in OLD:
        aged.memory.lifecycle.pin("bob", facts_of(aged, topic(aged, word))[0], actor="test")
    aged.drive()
    age(aged)
    tend(aged)
    for each in cold(aged):
        assert set(aged.versions(facts_of(aged, each))) == {facts_of(aged, each)[0]}
    assert cold(aged)


def test_an_index_that_is_lost_or_rebuilt_stays_without_cold_points(aged: Stack) -> None:
    tend(aged)
    chosen = [point for each in cold(aged) for point in (*facts_of(aged, each), *cells_of(aged, each))]
    aged.services.maintenance.upkeep.rebuild_owner(aged.tenant, "bob")
    aged.drive()
    assert aged.versions(chosen) == {}
    assert_verified(aged)

    forest = ForestId(aged.rows("SELECT forest_id FROM memforest.forest WHERE owner = 'bob'")[0][0])
    points = aged.services.index.count(aged.tenant, forest)
    rows = aged.rows("SELECT count(*) FROM memforest.index_row WHERE forest_id = :f AND NOT cold", f=forest)
    assert points == rows[0][0]


def test_something_new_warms_a_topic(aged: Stack) -> None:
    """Given a cold topic whose points are still there, when a fact joins it, then it is hot in the same transaction."""
    garden = topic(aged, "tomato")
    aged.execute("UPDATE memforest.tree SET cold_at = clock_timestamp() WHERE tree_id = :t", t=garden.id)
    aged.memory.enqueue("bob", "more", said("I planted 60 tomato seeds in garden bed 60.", start=1_740_000_000))
    aged.drive()
    now = topic(aged, "tomato")
    assert (now.facts, now.temperature) == (9, Temperature.HOT)


def test_two_topics_that_become_one_are_hot(aged: Stack) -> None:
    tend(aged)
    first, second = cold(aged)
    aged.memory.topic_merge("bob", first.id, second.id)
    aged.drive()
    assert cold(aged) == []
    assert len(aged.versions(facts_of(aged, first))) == 16
    assert_verified(aged)


def test_what_is_deleted_while_it_is_cold_is_gone(aged: Stack) -> None:
    tend(aged)
    chosen = cold(aged)[0]
    session = {"tomato": "garden", "bought": "shop", "ran": "run"}[
        next(w for w in ("tomato", "bought", "ran") if w in chosen.title)
    ]
    aged.memory.topic_tag("bob", chosen.id, ["tagovix"])
    aged.memory.lifecycle.forget("bob", session=session, actor="test")
    aged.drive()
    assert chosen.id not in {each.id for each in aged.memory.topics("bob").items}
    assert_nowhere(aged, "tagovix")
    tend(aged)
    assert_verified(aged)


def test_one_fact_deleted_leaves_the_rest_cold_or_brings_its_cell_back(aged: Stack) -> None:
    tend(aged)
    chosen = cold(aged)[0]
    first = facts_of(aged, chosen)[0]
    aged.memory.lifecycle.forget("bob", fact=first, actor="test")
    aged.drive()
    assert_verified(aged)
    tend(aged)
    assert_verified(aged)
    assert aged.rows("SELECT count(*) FROM memforest.index_row WHERE point_id = :p", p=first)[0][0] == 0


def test_a_merge_of_owners_copies_topics_hot_with_their_names(aged: Stack) -> None:
    tend(aged)
    chosen = cold(aged)[0]
    aged.memory.topic_tag("bob", chosen.id, ["own"])
    aged.memory.lifecycle.merge(["bob"], "ann", actor="test")
    aged.drive()
    found = aged.memory.topics("ann").items
    assert len(found) == 4
    assert {each.temperature for each in found} == {Temperature.HOT}
    assert [each.tags for each in found if each.tags] == [("own",)]
    assert_verified(aged)


def test_switched_off_all_topics_become_warm(
    servers: SessionServers, grown: Grown, tmp_path: Path, embedder: Embedder
) -> None:
    with cloned(servers, grown, tmp_path, embedder, topics={"max_topics": 1, "cooling": False}) as running:
        garden = topic(running, "tomato")
        running.execute("UPDATE memforest.tree SET cold_at = clock_timestamp() WHERE tree_id = :t", t=garden.id)
        running.execute(
            "UPDATE memforest.index_row SET cold = true WHERE point_id = ANY(:p)", p=facts_of(running, garden)
        )
        assert tend(running).warmed == 1
        assert cold(running) == []
        assert len(running.versions(facts_of(running, garden))) == 8
        assert_verified(running)


def test_a_round_that_takes_long_goes_on_where_it_stopped(aged: Stack) -> None:
    """Given no time, then nothing is done and the round is not over; the next call goes on."""
    cooling = aged.services.topic_cooling
    assert cooling.run(0.0) == Changed()
    assert cooling.unfinished
    assert cooling.run().cooled == 2
    assert not cooling.unfinished


def test_a_round_stops_among_forests_with_nothing_to_do(aged: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given many calm forests, then no statement reads all of them: a call ends in time, the next ones go on."""
    monkeypatch.setattr(topics_cooling, "PAGE", 50)
    aged.execute(
        """INSERT INTO memforest.forest (tenant_id, forest_id, owner)
           SELECT :t, gen_random_uuid(), 'calm-' || n FROM generate_series(1, 300) n""",
        t=aged.tenant,
    )
    ticks = itertools.count()
    cooling = replace(aged.services.topic_cooling, clock=lambda: float(next(ticks)), _left=[])
    calls = [cooling.run(1.5)]
    while cooling.unfinished:
        calls.append(cooling.run(1.5))
    assert len(calls) > 300 / 50
    assert sum(call.cooled for call in calls) == len(cold(aged)) == 2


def test_a_topic_that_was_just_read_stays_hot_however_unimportant(aged: Stack) -> None:
    aged.execute("""UPDATE memforest.turn SET metadata = '{"importance": 0}'""")
    for word in OLD:
        aged.memory.topic_history("bob", topic(aged, word).id)
    assert tend(aged) == Changed()
    assert topic(aged, "tomato").priority < 0.5


def test_what_is_cold_is_counted_neither_missing_nor_behind(aged: Stack) -> None:
    tend(aged)
    with aged.services.indexer.open_rows(aged.tenant) as rows:
        assert sum(rows.behind_by_kind().values()) == 0
    assert aged.memory.flush("bob").cells == 0
    assert f"Bob: {PETS[0]}" in [piece.text for piece in aged.memory.recall("bob", "What is my dog called?").evidence]


def test_workers_cool_topics_by_themselves(aged: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "COOL_EVERY_S", 1.0)
    aged.runtime.start()
    try:
        until(lambda: len(cold(aged)) == 2)
    finally:
        aged.runtime.stop()
