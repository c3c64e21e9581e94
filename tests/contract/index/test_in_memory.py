"""The embedded engine with an in-memory index finds what it finds alone, and each change at once."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from uuid import UUID, uuid4

import numpy as np
import pytest

from memforest_core.index.memory import forest_index, in_memory_indexes
from memforest_core.index.qdrant.edge_index import EdgeIndex
from memforest_core.index.vector_index import DenseVector, IndexQuery, PointKind, SparseVector
from tests.contract.index.builders import ACME, keys, point, stored, where

POINTS, DIMENSION, LIMIT = 3_000, 32, 20
RANDOM = np.random.default_rng(7)
COMMON, RARE = 300, 40
"""Terms that many of the points hold, and few."""


def words() -> SparseVector:
    """Some common terms and a rare one."""
    held = np.unique([*RANDOM.integers(COMMON, size=6), COMMON + RANDOM.integers(RARE)])
    return SparseVector(tuple(held.tolist()), tuple(RANDOM.uniform(0.2, 2.0, len(held)).tolist()))


VECTORS: list[DenseVector] = list(RANDOM.standard_normal((POINTS, DIMENSION), dtype=np.float32))
QUESTIONS: list[DenseVector] = list(RANDOM.standard_normal((30, DIMENSION), dtype=np.float32))
WORDS = [words() for _ in VECTORS]
ROWS = [uuid4() for _ in VECTORS]
FACTS = where(kinds=(PointKind.FACT,))


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EdgeIndex]:
    """Facts of one forest; the first search builds a graph."""
    monkeypatch.setattr(in_memory_indexes, "SEARCHES_BEFORE", 1)
    monkeypatch.setattr(forest_index, "GRAPH_FROM", 1_000)
    with closing(EdgeIndex(tmp_path, "m", DIMENSION)) as made:
        made.prepare()
        given = zip(ROWS, VECTORS, WORDS, strict=True)
        made.upsert([point(row, kind=PointKind.FACT, dense=one, sparse=reported) for row, one, reported in given])
        yield made


def nearest(index: EdgeIndex, question: DenseVector | SparseVector, **changes: object) -> dict[UUID, float]:
    [hits] = index.search([IndexQuery(question, replace(FACTS, **changes), LIMIT)])  # type: ignore[arg-type]
    return {hit.id: hit.score for hit in hits}


def settled(index: EdgeIndex) -> None:
    """A graph and an inverted index are there and have taken in everything."""
    until = time.monotonic() + 60.0
    while True:
        nearest(index, QUESTIONS[0])
        nearest(index, WORDS[0])
        if not index.refreshing:
            return
        assert time.monotonic() < until
        time.sleep(0.01)


def test_it_finds_what_the_engine_finds(index: EdgeIndex) -> None:
    """Given 3,000 facts, when the nearest 20 are searched with and without a graph, then 98 of 100 are the same, with
    the same scores."""
    settled(index)
    known = index._memory._known[ACME, FACTS.forest_id]
    assert known.index is not None
    assert len(known.index) == POINTS
    with_graph = [nearest(index, question) for question in QUESTIONS]
    known.index, known.searches = None, -1_000_000
    alone = [nearest(index, question) for question in QUESTIONS]
    assert fmean(len(one.keys() & other.keys()) / LIMIT for one, other in zip(with_graph, alone, strict=True)) >= 0.98
    for one, other in zip(with_graph, alone, strict=True):
        assert {row: one[row] for row in one.keys() & other.keys()} == pytest.approx(
            {row: other[row] for row in one.keys() & other.keys()}, abs=1e-3
        )


def test_it_finds_by_words_what_the_engine_finds(index: EdgeIndex) -> None:
    """Given 3,000 facts, when the best 20 by words and the scores of 50 named ones are searched, with an inverted index
    and without, then all are the same."""
    settled(index)
    known = index._memory._known[ACME, FACTS.forest_id]
    assert known.index is not None
    some = tuple(ROWS[:50])

    def requested() -> list[tuple[dict[UUID, float], dict[UUID, float]]]:
        return [(nearest(index, question), nearest(index, question, ids=some)) for question in WORDS[:30]]

    with_words = requested()
    known.index, known.searches = None, -1_000_000
    for (best, named), (best_alone, named_alone) in zip(with_words, requested(), strict=True):
        assert best == pytest.approx(best_alone, rel=1e-5)
        assert named == pytest.approx(named_alone, rel=1e-5)


def test_named_facts_have_the_cosines_that_they_have_now(index: EdgeIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a graph, when 50 of its facts are named, then they have the cosines of their vectors, without a request to
    the engine; a fact that is changed, written or deleted then has its new one, or none, at once and afterwards."""
    requested: list[UUID] = []
    request = EdgeIndex._request

    def counting(own: EdgeIndex, query: IndexQuery, rows: Mapping[UUID, UUID] | None) -> object:
        requested.extend((rows or {}).values())
        return request(own, query, rows)

    def cosines(*rows: UUID) -> dict[UUID, float]:
        named = IndexQuery(QUESTIONS[0], replace(FACTS, ids=rows), len(rows))
        return {hit.id: hit.score for hit in index.search([named])[0]}

    def expected(vector: DenseVector) -> float:
        lengths = float(np.linalg.norm(vector) * np.linalg.norm(QUESTIONS[0]))
        return float(vector @ QUESTIONS[0]) / lengths

    settled(index)
    monkeypatch.setattr(EdgeIndex, "_request", counting)
    some = {row: expected(vector) for row, vector in zip(ROWS[:50], VECTORS, strict=False)}
    assert cosines(*some) == pytest.approx(some, abs=1e-3)
    assert requested == []
    new, changed, deleted = uuid4(), ROWS[10], ROWS[20]
    index.upsert([point(new, kind=PointKind.FACT, dense=QUESTIONS[0])])
    index.upsert([point(changed, kind=PointKind.FACT, dense=QUESTIONS[1], version=2)])
    index.delete(keys(deleted))
    now = some | {new: 1.0, changed: expected(QUESTIONS[1])}
    del now[deleted]
    for _ in range(2):
        assert cosines(*some, new) == pytest.approx(now, abs=1e-3)
        settled(index)


def test_nodes_that_nobody_named_before_are_known_after_some_others(
    index: EdgeIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given 200 nodes, when some of them were named, then others have their cosines without a request to the engine; one
    that is overwritten or deleted has its new cosine, or none, at once and afterwards."""
    nodes = dict(zip([uuid4() for _ in range(200)], VECTORS, strict=False))
    index.upsert([point(row, kind=PointKind.NODE, dense=vector) for row, vector in nodes.items()])
    of_nodes = where(kinds=(PointKind.NODE,))

    def cosines(*rows: UUID) -> dict[UUID, float]:
        [hits] = index.search([IndexQuery(QUESTIONS[0], replace(of_nodes, ids=rows), len(rows))])
        return {hit.id: hit.score for hit in hits}

    def expected(vector: DenseVector) -> float:
        return float(stored(vector) @ stored(QUESTIONS[0]))

    first, *others = nodes
    assert cosines(first).keys() == {first}
    settled(index)
    with monkeypatch.context() as unavailable:
        unavailable.setattr(EdgeIndex, "_request", None)
        reported = {row: expected(nodes[row]) for row in others}
        assert cosines(*others) == pytest.approx(reported, abs=1e-5)
    changed, deleted = others[:2]
    index.upsert([point(changed, kind=PointKind.NODE, dense=QUESTIONS[1], version=2)])
    index.delete(keys(deleted))
    now = reported | {changed: expected(QUESTIONS[1])}
    del now[deleted]
    for _ in range(2):
        assert cosines(*others) == pytest.approx(now, abs=1e-5)
        settled(index)


def test_changed_words_are_seen_at_once(index: EdgeIndex) -> None:
    """Given an inverted index, when a fact is written, another changed and a third deleted, then the next search by words
    knows, before the index has taken it in and afterwards; and so does one for named facts."""
    settled(index)
    rare = SparseVector((COMMON + RARE + 1,), (3.0,))
    new, changed, deleted = uuid4(), ROWS[10], ROWS[20]
    index.upsert([point(new, kind=PointKind.FACT, dense=VECTORS[0], sparse=rare)])
    index.upsert([point(changed, kind=PointKind.FACT, dense=VECTORS[1], sparse=rare, version=2)])
    index.delete(keys(deleted))
    for _ in range(2):
        assert nearest(index, rare).keys() == {new, changed}
        assert nearest(index, rare, ids=(new, changed, deleted, ROWS[30])).keys() == {new, changed}
        assert changed not in nearest(index, WORDS[10])
        assert deleted not in nearest(index, WORDS[20])
        assert nearest(index, WORDS[20], ids=(deleted,)) == {}
        settled(index)


def test_roots_are_found_as_long_as_they_are_roots(index: EdgeIndex) -> None:
    """Given roots of session and entity trees and nodes below them, when the roots nearest to one of them are searched by
    meaning or by words, then they are found by their family; one that is no root any more, or was deleted, is not."""
    rare = SparseVector((COMMON + RARE + 1,), (3.0,))
    root, below, other = uuid4(), uuid4(), uuid4()

    def write(id: UUID, version: int = 1, **changes: object) -> None:
        reported = {"is_root": True, "tree_kind": "session"} | changes
        index.upsert([point(id, kind=PointKind.NODE, dense=QUESTIONS[1], sparse=rare, version=version, **reported)])

    def found(*families: str) -> list[set[UUID]]:
        bounds = {"kinds": (PointKind.NODE,), "roots_only": True, "tree_kinds": families}
        return [set(nearest(index, question, **bounds)) for question in (QUESTIONS[1], rare)]

    write(root)
    write(below, is_root=False)
    write(other, tree_kind="entity")
    settled(index)
    found("session")
    found()
    settled(index)
    for _ in range(2):
        assert found("session") == [{root}] * 2
        assert found("entity", "session") == found() == [{root, other}] * 2
        settled(index)
    write(root, version=2, is_root=False)
    write(below, version=2)
    index.delete(keys(other))
    for _ in range(2):
        assert found("session") == found() == [{below}] * 2
        settled(index)


def test_a_change_is_seen_at_once(index: EdgeIndex) -> None:
    """Given a graph, when a fact is written, another changed and a third deleted, then the next search knows, before
    the graph has taken it in and afterwards."""
    settled(index)
    new, changed, deleted = uuid4(), ROWS[10], ROWS[20]
    index.upsert([point(new, kind=PointKind.FACT, dense=QUESTIONS[1])])
    index.upsert([point(changed, kind=PointKind.FACT, dense=QUESTIONS[2], version=2)])
    index.delete(keys(deleted))
    for _ in range(2):
        assert next(iter(nearest(index, QUESTIONS[1]))) == new
        assert next(iter(nearest(index, QUESTIONS[2]))) == changed
        assert changed not in nearest(index, VECTORS[10])
        assert deleted not in nearest(index, VECTORS[20])
        settled(index)


def test_a_least_score_cuts_what_a_graph_finds(index: EdgeIndex) -> None:
    """Given a graph, when no vector is as near as the least score requires, then nothing is found; one that is, is found
    alone."""
    settled(index)
    query = IndexQuery(VECTORS[5], FACTS, LIMIT, min_score=0.999)
    assert [hit.id for hit in index.search([query])[0]] == [ROWS[5]]
    assert [list(hits) for hits in index.search([replace(query, min_score=1.5)])] == [[]]
