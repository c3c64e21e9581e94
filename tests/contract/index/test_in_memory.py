"""The embedded engine with an in-memory index finds what it finds alone, and each change at once."""

from __future__ import annotations

from collections.abc import Iterator
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
from tests.contract.index.builders import ACME, keys, point, where
from tests.harness.timing import until

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
    """The in-memory index is there and has taken in everything."""

    def calm() -> bool:
        nearest(index, QUESTIONS[0])
        return not index.refreshing

    until(calm, 60.0)


def test_it_finds_what_the_engine_finds(index: EdgeIndex) -> None:
    """Given 3,000 facts, when the nearest 20, the best 20 by words and 50 named ones are searched with an in-memory
    index and without, then 98 of 100 of the nearest, and all others, are the same, with the same scores."""
    settled(index)
    known = index._memory._known[ACME, FACTS.forest_id]
    assert known.index is not None
    assert len(known.index) == POINTS
    some = tuple(ROWS[:50])

    def requested() -> list[tuple[dict[UUID, float], ...]]:
        pairs = zip(QUESTIONS, WORDS[:30], strict=True)
        return [
            (nearest(index, dense), nearest(index, words), nearest(index, words, ids=some)) for dense, words in pairs
        ]

    in_memory = requested()
    known.index, known.searches = None, -1_000_000
    same = []
    for (near, best, named), (near_alone, *alone) in zip(in_memory, requested(), strict=True):
        both = near.keys() & near_alone.keys()
        same.append(len(both) / LIMIT)
        assert {row: near[row] for row in both} == pytest.approx({row: near_alone[row] for row in both}, abs=1e-3)
        assert [best, named] == [pytest.approx(each, rel=1e-5) for each in alone]
    assert fmean(same) >= 0.98


def test_a_change_is_seen_at_once(index: EdgeIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given an in-memory index, which scores named facts without the engine, when a fact is written, another changed and
    a third deleted, then the next search by meaning, by words and by name knows, before it was taken in and afterwards."""
    settled(index)
    with monkeypatch.context() as unavailable:
        unavailable.setattr(EdgeIndex, "_request", None)
        assert nearest(index, QUESTIONS[0], ids=tuple(ROWS[:20])).keys() == set(ROWS[:20])
    rare = SparseVector((COMMON + RARE + 1,), (3.0,))
    new, changed, deleted = uuid4(), ROWS[10], ROWS[20]
    index.upsert([point(new, kind=PointKind.FACT, dense=QUESTIONS[1], sparse=rare)])
    index.upsert([point(changed, kind=PointKind.FACT, dense=QUESTIONS[2], sparse=rare, version=2)])
    index.delete(keys(deleted))
    for _ in range(2):
        assert next(iter(nearest(index, QUESTIONS[1]))) == new
        assert next(iter(nearest(index, QUESTIONS[2]))) == changed
        assert nearest(index, QUESTIONS[2], ids=(changed, deleted)) == pytest.approx({changed: 1.0}, abs=1e-3)
        assert changed not in nearest(index, VECTORS[10])
        assert deleted not in nearest(index, VECTORS[20])
        assert nearest(index, rare).keys() == {new, changed}
        assert nearest(index, rare, ids=(new, changed, deleted, ROWS[30])).keys() == {new, changed}
        assert changed not in nearest(index, WORDS[10])
        assert deleted not in nearest(index, WORDS[20])
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
    for _ in range(2):
        assert found("session") == [{root}] * 2
        assert found("entity", "session") == found() == [{root, other}] * 2
        of_nodes = {"kinds": (PointKind.NODE,), "ids": (root, below, other)}
        assert nearest(index, QUESTIONS[1], **of_nodes).keys() == {root, below, other}
        settled(index)
    write(root, version=2, is_root=False)
    write(below, version=2)
    index.delete(keys(other))
    for _ in range(2):
        assert found("session") == found() == [{below}] * 2
        settled(index)
