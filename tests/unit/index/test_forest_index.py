"""Vectors of a forest: few are all compared, many through a graph, and none that was dropped."""

from __future__ import annotations

import random
import subprocess
import sys
from statistics import fmean
from uuid import UUID

import numpy as np
import pytest
from numpy.typing import NDArray

from memforest_core.index.memory import forest_index
from memforest_core.index.memory.forest_index import Vectors
from memforest_core.index.vector_index import DenseVector

DIMENSION = 64


def units(count: int, seed: int) -> NDArray[np.float32]:
    drawn = np.random.default_rng(seed).standard_normal((count, DIMENSION), dtype=np.float32)
    made: NDArray[np.float32] = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return made.astype(np.float16).astype(np.float32)


def named(vectors: NDArray[np.float32], first: int = 0) -> dict[UUID, DenseVector]:
    return {UUID(int=first + at): vector for at, vector in enumerate(vectors)}


def part_found(made: Vectors, vectors: NDArray[np.float32]) -> float:
    """Of the nearest 20 to each of 50 questions, which are returned with their cosines, the nearest first."""
    parts = []
    for question in units(50, seed=2):
        cosines = vectors @ question
        nearest = {UUID(int=int(at)) for at in np.argsort(-cosines)[:20]}
        found = made.near(question, 20)
        assert [cosine for _, cosine in found] == sorted((cosine for _, cosine in found), reverse=True)
        assert dict(found) == pytest.approx({row: cosines[row.int] for row, _ in found}, abs=1e-5)
        parts.append(len(nearest & {row for row, _ in found}) / 20)
    return fmean(parts)


def test_nearly_all_of_the_nearest_are_found_also_when_nearly_half_was_replaced() -> None:
    """Given a graph of which as many were replaced, one after the other, as it may have before it needs a rebuild, then
    it finds 96 of 100, and one row that was replaced a hundred times hides no other."""
    vectors = units(6_000, seed=1)
    made = Vectors(DIMENSION)
    made.add(named(units(6_000, seed=9)))
    for at in range(0, 5_900, 100):
        made.add(named(vectors[at : at + 100], first=at))
    assert not made.needs_rebuild
    made.add(named(vectors[5_900:], first=5_900))
    assert part_found(made, vectors) >= 0.96
    for _ in range(100):
        made.add({UUID(int=0): vectors[0]})
    assert made.needs_rebuild
    nearest = set(np.argsort(-(vectors @ vectors[0]))[:20].tolist())
    assert len({row.int for row, _ in made.near(vectors[0], 20)} & nearest) >= 19


@pytest.mark.parametrize("graph_from", [1, 10_000])
@pytest.mark.parametrize("seed", range(3))
def test_cosines_are_those_of_the_current_rows(graph_from: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given rows that come, change and go, when some are named and the nearest are searched, through a graph or not,
    then each has its cosine now, and none that was dropped is found."""
    monkeypatch.setattr(forest_index, "GRAPH_FROM", graph_from)
    rng = random.Random(seed)
    made, rows = Vectors(DIMENSION), dict[UUID, NDArray[np.float32]]()
    assert (made.near(units(1, 1)[0], 5), made.of(units(1, 1)[0], [UUID(int=1)])) == ([], {})
    for step in range(60):
        gone = rng.sample(sorted(rows), min(len(rows), rng.randrange(4)))
        made.drop([*gone, UUID(int=10_000)])
        rows = {row: vector for row, vector in rows.items() if row not in gone}
        drawn = units(rng.randrange(9), 100 * seed + step)
        rows |= (added := {UUID(int=rng.randrange(150)): vector for vector in drawn})
        made.add(added)
        question = units(1, step)[0]
        expected = {row: float(vector @ question) for row, vector in rows.items()}
        assert dict(made.near(question, 1_000)) == pytest.approx(expected, abs=1e-5)
        assert [row for row, _ in made.near(question, 5)] == sorted(rows, key=lambda row: -expected[row])[:5]
        some = rng.sample(sorted(rows), min(len(rows), 6))
        assert made.of(question, [*some, UUID(int=10_000)]) == pytest.approx(
            {row: expected[row] for row in some}, abs=1e-5
        )
        assert len(made) == len(rows)


def test_the_library_of_the_built_in_models_is_loaded_before_that_of_graphs() -> None:
    """Loaded after the library of graphs it would end the process."""
    program = "from memforest_core.index.memory.forest_index import Vectors; Vectors(64); import onnxruntime"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
