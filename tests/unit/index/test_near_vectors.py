"""A matrix finds exactly the nearest vectors, a graph nearly all of them, and neither one that was dropped."""

from __future__ import annotations

import random
import subprocess
import sys
from statistics import fmean
from uuid import UUID

import numpy as np
import pytest
from numpy.typing import NDArray

from memforest_core.index.memory.near_vectors import Graph, Matrix
from memforest_core.index.vector_index import DenseVector

DIMENSION = 64


def units(count: int, seed: int) -> NDArray[np.float32]:
    drawn = np.random.default_rng(seed).standard_normal((count, DIMENSION), dtype=np.float32)
    made: NDArray[np.float32] = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return made


def named(vectors: NDArray[np.float32], first: int = 0) -> dict[UUID, DenseVector]:
    return {UUID(int=first + at): vector for at, vector in enumerate(vectors)}


def part_found(graph: Graph, vectors: NDArray[np.float32]) -> float:
    """Of the nearest 20 to each of 50 questions."""
    parts = []
    for question in units(50, seed=2):
        cosines = vectors @ question
        nearest = {UUID(int=int(at)) for at in np.argsort(-cosines)[:20]}
        found = graph.near(question, 20)
        assert [cosine for _, cosine in found] == sorted((cosine for _, cosine in found), reverse=True)
        for row, cosine in found:
            assert cosine == pytest.approx(cosines[row.int], abs=1e-3)
        parts.append(len(nearest & {row for row, _ in found}) / 20)
    return fmean(parts)


def test_the_nearest_of_many_are_found_with_their_cosines() -> None:
    """Given 5,000 vectors, when the nearest 20 are wanted, then at least 98 of 100 are found, nearest first."""
    vectors = units(5_000, seed=1)
    graph = Graph(DIMENSION)
    graph.add(named(vectors))
    assert part_found(graph, vectors) >= 0.98


def test_they_are_found_as_well_when_nearly_half_was_replaced() -> None:
    """Given a graph of which as many were replaced, one after the other, as it may have before it needs a rebuild, then
    it finds as much, and one row that was replaced a hundred times hides no other."""
    vectors, former = units(2_000, seed=1), units(2_000, seed=9)
    graph = Graph(DIMENSION)
    graph.add(named(former))
    for at in range(0, 1_900, 100):
        graph.add(named(vectors[at : at + 100], first=at))
    graph.add(named(vectors[1_900:], first=1_900))
    assert part_found(graph, vectors) >= 0.98
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


def test_a_graph_needs_rebuild_when_most_of_it_was_replaced() -> None:
    vectors = units(50, seed=5)
    graph = Graph(DIMENSION)
    graph.add(named(vectors))
    assert not graph.needs_rebuild
    for _ in range(2):
        graph.add(named(vectors))
    assert graph.needs_rebuild
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


def unit(seed: int) -> NDArray[np.float32]:
    return units(1, seed)[0]


@pytest.mark.parametrize("seed", range(5))
def test_cosines_of_a_matrix_are_those_of_its_current_rows(seed: int) -> None:
    rng = random.Random(seed)
    matrix, rows = Matrix(DIMENSION, 2_000), dict[UUID, NDArray[np.float32]]()
    for step in range(60):
        gone = rng.sample(sorted(rows), min(len(rows), rng.randrange(4)))
        matrix.drop([*gone, UUID(int=10_000)])
        rows = {row: vector for row, vector in rows.items() if row not in gone}
        added = {UUID(int=rng.randrange(150)): unit(1_000 * seed + 10 * step + at) for at in range(rng.randrange(1, 9))}
        matrix.add(added)
        rows |= added
        question = unit(step)
        expected = {row: float(vector @ unit(step)) for row, vector in rows.items()}
        assert dict(matrix.near(question, 1_000)) == pytest.approx(expected, abs=1e-6)
        few = sorted(matrix.near(question, 5), key=lambda each: -each[1])
        assert [row for row, _ in few] == sorted(rows, key=lambda row: -expected[row])[:5]
        named = [*rng.sample(sorted(rows), min(len(rows), 6)), UUID(int=10_000)]
        assert matrix.of(question, named) == pytest.approx({row: expected[row] for row in named[:-1]}, abs=1e-6)
        assert len(matrix) == len(rows)


def test_an_empty_matrix_finds_nothing() -> None:
    assert Matrix(DIMENSION, 20).near(unit(1), 5) == []
    assert Matrix(DIMENSION, 20).of(unit(1), [UUID(int=1)]) == {}


def test_a_matrix_needs_rebuild_when_a_graph_is_better() -> None:
    """Given as many rows as a matrix may have, then one more needs a rebuild."""
    matrix = Matrix(DIMENSION, 20)
    matrix.add({UUID(int=number): unit(number) for number in range(20)})
    assert not matrix.needs_rebuild
    matrix.add({UUID(int=99): unit(99)})
    assert matrix.needs_rebuild


def test_the_library_of_the_built_in_models_is_loaded_before_a_graph() -> None:
    """Loaded after the library of graphs it would end the process."""
    program = "from memforest_core.index.memory.near_vectors import Graph; Graph(64); import onnxruntime"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
