"""A graph finds nearly all of the nearest vectors, and none that was replaced or dropped."""

from __future__ import annotations

from statistics import fmean
from uuid import UUID

import numpy as np
import pytest
from numpy.typing import NDArray

from memforest_core.index.qdrant.graph import Graph
from memforest_core.index.vector_index import DenseVector

DIMENSION = 64


def units(count: int, seed: int) -> NDArray[np.float32]:
    drawn = np.random.default_rng(seed).standard_normal((count, DIMENSION), dtype=np.float32)
    made: NDArray[np.float32] = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return made


def named(vectors: NDArray[np.float32], first: int = 0) -> dict[UUID, DenseVector]:
    return {UUID(int=first + at): vector for at, vector in enumerate(vectors)}


def share_found(graph: Graph, vectors: NDArray[np.float32]) -> float:
    """Of the nearest 20 to each of 50 questions."""
    shares = []
    for question in units(50, seed=2):
        cosines = vectors @ question
        nearest = {UUID(int=int(at)) for at in np.argsort(-cosines)[:20]}
        found = graph.near(question, 20)
        assert [cosine for _, cosine in found] == sorted((cosine for _, cosine in found), reverse=True)
        for row, cosine in found:
            assert cosine == pytest.approx(cosines[row.int], abs=1e-3)
        shares.append(len(nearest & {row for row, _ in found}) / 20)
    return fmean(shares)


def test_the_nearest_of_many_are_found_with_their_cosines() -> None:
    """Given 5,000 vectors, when the nearest 20 are asked for, then at least 98 of 100 are found, nearest first."""
    vectors = units(5_000, seed=1)
    graph = Graph(DIMENSION)
    graph.add(named(vectors))
    assert share_found(graph, vectors) >= 0.98


def test_they_are_found_as_well_when_nearly_half_was_replaced() -> None:
    """Given a graph of which as many were replaced, one after the other, as it may have before it is built anew, then
    it finds as much, and one row that was replaced again and again is in nobody's way."""
    vectors, former = units(2_000, seed=1), units(2_000, seed=9)
    graph = Graph(DIMENSION)
    graph.add(named(former))
    for at in range(0, 1_900, 100):
        graph.add(named(vectors[at : at + 100], first=at))
    graph.add(named(vectors[1_900:], first=1_900))
    assert share_found(graph, vectors) >= 0.98
    for _ in range(100):
        graph.add({UUID(int=0): vectors[0]})
    assert {row.int for row, _ in graph.near(vectors[0], 20)} == set(np.argsort(-(vectors @ vectors[0]))[:20].tolist())


def test_a_replaced_vector_is_found_where_it_is_now() -> None:
    vectors = units(100, seed=3)
    graph = Graph(DIMENSION)
    graph.add(named(vectors))
    graph.add({UUID(int=7): vectors[50]})
    assert dict(graph.near(vectors[50], 2)).keys() == {UUID(int=7), UUID(int=50)}
    assert UUID(int=7) not in dict(graph.near(vectors[7], 3))


def test_what_was_dropped_is_not_found() -> None:
    vectors = units(100, seed=4)
    graph = Graph(DIMENSION)
    graph.add(named(vectors))
    graph.drop([UUID(int=7), UUID(int=10_000)])
    assert UUID(int=7) not in dict(graph.near(vectors[7], 10))


def test_a_graph_is_worn_when_most_of_it_was_replaced() -> None:
    vectors = units(50, seed=5)
    graph = Graph(DIMENSION)
    graph.add(named(vectors))
    assert not graph.worn
    for _ in range(2):
        graph.add(named(vectors))
    assert graph.worn
    assert len(graph) == 50


def test_an_empty_graph_finds_nothing() -> None:
    graph = Graph(DIMENSION)
    graph.add({})
    assert graph.near(units(1, seed=6)[0], 5) == []


def test_cosines_of_named_rows_are_those_of_their_vectors_now() -> None:
    """Given vectors of which one was replaced and one dropped, when rows are named, then those that are there have their
    cosines, and no other row."""
    vectors = units(100, seed=3)
    graph = Graph(DIMENSION)
    assert graph.of(vectors[0], [UUID(int=1)]) == {}
    graph.add(named(vectors))
    graph.add({UUID(int=7): vectors[50]})
    graph.drop([UUID(int=8)])
    expected = {UUID(int=at): float(vectors[50 if at == 7 else at] @ vectors[0]) for at in (1, 7, 99)}
    some = [UUID(int=at) for at in (1, 7, 8, 99, 1_000)]
    assert graph.of(vectors[0], some) == pytest.approx(expected, abs=1e-3)
    assert graph.of(vectors[0], []) == {}
