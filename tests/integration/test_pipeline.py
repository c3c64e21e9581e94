"""From accepted turns to clean trees, on real Postgres and the real engine, driven step by step."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from memforest_core.domain.ids import NodeId, TreeId
from memforest_core.index.service import Indexer
from memforest_core.ingest.extract.service import Extracted
from memforest_core.memtree import TreeHead, violations
from memforest_core.store.trees import node_of
from memforest_core.work.jobs import WorkKind
from memforest_core.work.messages import Queue
from memforest_workers.runtime import Runtime
from tests.harness.stack import Stack


def said(*sentences: str, start: int = 1_700_000_000, name: str = "Bob") -> list[dict[str, object]]:
    """User turns, one per minute."""
    return [
        {"role": "user", "name": name, "speaker_id": name.lower(), "content": text, "timestamp": start + 60 * number}
        for number, text in enumerate(sentences)
    ]


def assert_trees_hold(pipeline: Stack) -> int:
    """Check every invariant of every tree; how many trees there are."""
    heads = pipeline.rows("SELECT tree_id, root_id, k, height, leaf_count FROM memforest.tree WHERE state = 'active'")
    for head in heads:
        rows = pipeline.rows("SELECT * FROM memforest.node WHERE tree_id = :t", t=head.tree_id)
        found = violations(
            TreeHead(TreeId(head.tree_id), NodeId(head.root_id), head.k, head.height, head.leaf_count),
            [node_of(row) for row in rows],
        )
        assert found == []
    return len(heads)


def test_a_session_becomes_facts_in_clean_trees(pipeline: Stack) -> None:
    """Given a session, when all work is done, then every cell is placed and every tree is whole, clean and indexed."""
    pipeline.memory.ingest(
        "bob", "s1", said(*[f"I live in Davis and paid {n} dollars for book number {n}." for n in range(40)])
    )
    pipeline.drive()
    progress = pipeline.memory.status("bob", "s1")
    assert progress.stage == "summaries"
    assert progress.placed == progress.cells == 20
    assert assert_trees_hold(pipeline) >= 2
    assert pipeline.rows("SELECT count(*) FROM memforest.node WHERE version > clean_version")[0][0] == 0
    points = pipeline.rows("SELECT count(*) FROM memforest.index_row WHERE state <> 'done'")[0][0]
    assert points == 0
    assert (
        pipeline.services.index.count(pipeline.tenant)
        == pipeline.rows("SELECT count(*) FROM memforest.index_row")[0][0]
    )


def test_every_candidate_is_attached_to_exactly_one_fact(pipeline: Stack) -> None:
    pipeline.memory.ingest("bob", "s1", said("I love hiking.", "I adopted a dog named Rex.", "I love hiking."))
    pipeline.memory.ingest("bob", "s2", said("I love hiking.", start=1_700_900_000))
    pipeline.drive()
    candidates = pipeline.rows("SELECT count(*) FROM memforest.candidate")[0][0]
    occurrences = pipeline.rows("SELECT count(*) FROM memforest.occurrence")[0][0]
    facts = pipeline.rows("SELECT count(*) FROM memforest.fact")[0][0]
    assert candidates == occurrences
    assert facts < candidates


def test_an_entity_gets_its_tree_at_three_facts_from_two_sessions(pipeline: Stack) -> None:
    """Given facts that name Kyoto, when they are three from two sessions, then its tree has all of them."""
    pipeline.memory.ingest("bob", "s1", said("I booked a hotel in Kyoto.", "The garden in Kyoto was quiet."))
    pipeline.drive()
    kyoto = "SELECT state, leaf_count FROM memforest.tree WHERE kind = 'entity' AND scope_key = 'kyoto'"
    assert pipeline.rows(kyoto)[0] == ("candidate", 0)
    pipeline.memory.ingest("bob", "s2", said("I flew home from Kyoto with two vases.", start=1_701_000_000))
    pipeline.drive()
    assert pipeline.rows(kyoto)[0] == ("active", 3)
    bob = pipeline.rows("SELECT state FROM memforest.tree WHERE kind = 'entity' AND scope_key = 'bob'")
    assert bob[0][0] == "active"


def test_reducers_side_by_side_place_each_cell_once(pipeline: Stack) -> None:
    """Given four reducers on one forest, when they drain at once, then each cell is placed by exactly one."""
    for number in range(12):
        pipeline.memory.ingest(
            "bob",
            f"s{number}",
            said(*[f"I paid {number * 10 + n} dollars." for n in range(8)], start=1_700_000_000 + number),
        )
    while pipeline.runtime.extract():
        pass
    placed: list[int] = []

    def drain() -> None:
        for _ in range(40):
            placed.append(pipeline.services.reduction.run_one(pipeline.tenant).cells)

    threads = [threading.Thread(target=drain) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(placed) == 48
    assert_trees_hold(pipeline)
    assert pipeline.rows("SELECT count(*) FROM memforest.cell WHERE NOT placed")[0][0] == 0


def test_reduction_goes_on_without_the_index(pipeline: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given an unavailable index, when a batch is reduced, then exact duplicates still merge."""
    from memforest_core.errors import IndexUnavailable

    pipeline.memory.ingest("bob", "s1", said("I love hiking.", "I love hiking."))
    while pipeline.runtime.extract():
        pass

    def unavailable(*_: object) -> None:
        raise IndexUnavailable("away")

    monkeypatch.setattr(pipeline.services.index, "search", unavailable)
    ended = pipeline.services.reduction.run_one(pipeline.tenant)
    assert ended.cells == 1
    assert pipeline.rows("SELECT count(*) FROM memforest.fact") == [(1,)]


def test_a_poisonous_cell_is_put_aside_and_the_rest_goes_on(pipeline: Stack) -> None:
    """Given a candidate without a vector, when its batch is reduced, then only its cell is dead."""
    pipeline.memory.ingest("bob", "s1", said(*[f"I paid {n} dollars for lamp {n}." for n in range(8)]))
    while pipeline.runtime.extract():
        pass
    pipeline.execute(
        """UPDATE memforest.candidate SET statement = jsonb_set(statement, '{precision}', '"nonsense"')
            WHERE cell_id = (SELECT cell_id FROM memforest.cell WHERE ordinal = 2)"""
    )
    pipeline.drive()
    dead = pipeline.rows("SELECT ordinal, error_code FROM memforest.cell WHERE state = 'dead'")
    assert [row[0] for row in dead] == [2]
    assert dead[0][1]
    progress = pipeline.memory.status("bob", "s1")
    assert (progress.dead, progress.placed, progress.stage) == (1, 3, "summaries")


def test_a_window_that_is_extracted_while_its_forest_is_written_is_placed_by_the_writer(
    pipeline: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a worker that reduces what it extracted at once, when another thread extracts the next window while the
    forest is locked, then its cells are placed too, without a wake-up."""
    services = pipeline.services
    runtime = Runtime(services, ["extract", "reduce"], name="at once", reduce_at_once=True)
    services.jobs.register(runtime.worker, runtime.name, runtime.queues)
    woken: list[Queue] = []
    monkeypatch.setattr(Runtime, "wake", lambda _self, queue, *_: woken.append(queue))
    place = services.reduction._place
    others: list[int] = []

    def interrupted(*arguments: Any) -> Any:
        """The lock is held: another thread extracts what is left, and finds the forest busy."""
        if not others:
            others.append(0)
            with ThreadPoolExecutor(1) as pool:
                others[0] = pool.submit(runtime.extract).result()
        return place(*arguments)

    monkeypatch.setattr(services.reduction, "_place", interrupted)
    pipeline.memory.client.enqueue("bob", "s1", said(*[f"I paid {n} dollars for book number {n}." for n in range(8)]))
    assert runtime.extract() == 1
    assert others == [1]
    assert pipeline.rows("SELECT count(*) FROM memforest.cell WHERE NOT placed")[0][0] == 0
    assert Queue.REDUCE not in woken


def raw_left(pipeline: Stack) -> int:
    """How many cells are not indexed yet."""
    return int(
        pipeline.rows("SELECT count(*) FROM memforest.index_row WHERE kind = 'cell' AND indexed_version = 0")[0][0]
    )


def test_cells_that_came_after_the_look_for_them_are_indexed(pipeline: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a session that is accepted between the look for raw cells and the claim of a window, when the task that
    has taken its window ends, then its cells are indexed too."""
    run_one = Indexer.run_one
    sent: list[str] = []

    def then_others(*arguments: Any) -> int:
        done = run_one(*arguments)
        if not sent:
            sent.append("s2")
            pipeline.memory.client.enqueue("bob", "s2", said("I adopted a cat."))
            other = pipeline.services.extraction.run_one(pipeline.tenant, pipeline.runtime.worker)
            assert other.ended is Extracted.DONE
        return done

    monkeypatch.setattr(Indexer, "run_one", then_others)
    pipeline.memory.client.enqueue("bob", "s1", said("I live in Davis."))
    assert pipeline.runtime.extract() == 1
    assert sent == ["s2"]
    assert pipeline.services.jobs.waiting(WorkKind.EXTRACT) == []
    assert raw_left(pipeline) == 0


def test_a_wake_up_whose_windows_others_took_looks_for_raw_cells(pipeline: Stack) -> None:
    """Given a session whose windows another worker has taken, when its wake-up comes, then its cells are indexed."""
    pipeline.memory.client.enqueue("bob", "s1", said("I live in Davis.", "I adopted a cat."))
    while pipeline.services.extraction.run_one(pipeline.tenant, pipeline.runtime.worker).ended is Extracted.DONE:
        pass
    assert raw_left(pipeline) > 0
    assert pipeline.runtime.extract(pipeline.tenant) == 0
    assert raw_left(pipeline) == 0
