"""The embedded engine with a graph beside it finds what it finds alone, and each change at once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from uuid import UUID, uuid4

import numpy as np
import pytest

from benchmarks.recall_latency.measuring import tended
from memforest_core.index.qdrant import graphs
from memforest_core.index.qdrant.edge import EdgeIndex
from memforest_core.index.vector_index import DenseVector, IndexQuery, PointKind
from tests.contract.index.builders import ACME, keys, point, where

POINTS, DIMENSION, LIMIT = 3_000, 32, 20
RANDOM = np.random.default_rng(7)
VECTORS: list[DenseVector] = list(RANDOM.standard_normal((POINTS, DIMENSION), dtype=np.float32))
QUESTIONS: list[DenseVector] = list(RANDOM.standard_normal((30, DIMENSION), dtype=np.float32))
ROWS = [uuid4() for _ in VECTORS]
FACTS = where(kinds=(PointKind.FACT,))


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EdgeIndex]:
    """Facts of one forest, with a graph once it was asked."""
    monkeypatch.setattr(graphs, "ASKED_BEFORE", 1)
    with closing(EdgeIndex(tmp_path, "m", DIMENSION, graph_from=1_000)) as made:
        made.prepare()
        made.upsert([point(row, kind=PointKind.FACT, dense=one) for row, one in zip(ROWS, VECTORS, strict=True)])
        yield made


def nearest(index: EdgeIndex, question: DenseVector, **changes: object) -> dict[UUID, float]:
    [hits] = index.search([IndexQuery(question, replace(FACTS, **changes), LIMIT)])  # type: ignore[arg-type]
    return {hit.id: hit.score for hit in hits}


def settled(index: EdgeIndex) -> None:
    """A graph is there and has taken in everything."""
    until = time.monotonic() + 60.0
    while True:
        nearest(index, QUESTIONS[0])
        if not index.tending:
            return
        assert time.monotonic() < until
        time.sleep(0.01)


def test_it_finds_what_the_engine_finds(index: EdgeIndex) -> None:
    """Given 3,000 facts, when the nearest 20 are asked for with and without a graph, then 98 of 100 are the same, with
    the same scores."""
    settled(index)
    known = index._graphs._known[ACME, FACTS.forest_id, PointKind.FACT]
    assert known.graph is not None
    assert len(known.graph) == POINTS
    with_graph = [nearest(index, question) for question in QUESTIONS]
    known.graph, known.asked = None, -1_000_000
    alone = [nearest(index, question) for question in QUESTIONS]
    assert fmean(len(one.keys() & other.keys()) / LIMIT for one, other in zip(with_graph, alone, strict=True)) >= 0.98
    for one, other in zip(with_graph, alone, strict=True):
        assert {row: one[row] for row in one.keys() & other.keys()} == pytest.approx(
            {row: other[row] for row in one.keys() & other.keys()}, abs=1e-3
        )


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
    """Given a graph, when no vector is as near as is asked, then nothing is found; one that is, is found alone."""
    settled(index)
    query = IndexQuery(VECTORS[5], FACTS, LIMIT, min_score=0.999)
    assert [hit.id for hit in index.search([query])[0]] == [ROWS[5]]
    assert index.search([replace(query, min_score=1.5)]) == [[]]


def test_a_benchmark_waits_until_graphs_are_there(index: EdgeIndex) -> None:
    """Given a search that lets a graph be built, when that is waited for, then the next search has the graph."""
    nearest(index, QUESTIONS[0])
    assert index.tending
    tended(index)
    known = index._graphs._known[ACME, FACTS.forest_id, PointKind.FACT]
    assert known.graph is not None
    assert tended(index) < 0.1
