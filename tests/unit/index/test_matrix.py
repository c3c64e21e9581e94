"""A matrix gives the exact cosines of the nearest rows, whatever was added, replaced and dropped before."""

from __future__ import annotations

import random
from uuid import UUID

import numpy as np
import pytest
from numpy.typing import NDArray

from memforest_core.index.qdrant.matrix import Matrix

DIMENSION = 16


def unit(seed: int) -> NDArray[np.float32]:
    drawn = np.random.default_rng(seed).standard_normal(DIMENSION, dtype=np.float32)
    made: NDArray[np.float32] = drawn / np.linalg.norm(drawn)
    return made


@pytest.mark.parametrize("seed", range(5))
def test_cosines_are_those_of_the_rows_as_they_are_now(seed: int) -> None:
    rng = random.Random(seed)
    matrix, rows = Matrix(DIMENSION, 1_000), dict[UUID, NDArray[np.float32]]()
    for step in range(60):
        gone = rng.sample(sorted(rows), min(len(rows), rng.randrange(4)))
        matrix.drop([*gone, UUID(int=10_000)])
        rows = {row: vector for row, vector in rows.items() if row not in gone}
        added = {UUID(int=rng.randrange(150)): unit(1_000 * seed + 10 * step + at) for at in range(rng.randrange(1, 9))}
        matrix.add(added)
        rows |= added
        asked = unit(step)
        expected = {row: float(vector @ unit(step)) for row, vector in rows.items()}
        assert dict(matrix.near(asked, 1_000)) == pytest.approx(expected, abs=1e-6)
        few = sorted(matrix.near(asked, 5), key=lambda each: -each[1])
        assert [row for row, _ in few] == sorted(rows, key=lambda row: -expected[row])[:5]
        named = [*rng.sample(sorted(rows), min(len(rows), 6)), UUID(int=10_000)]
        assert matrix.of(asked, named) == pytest.approx({row: expected[row] for row in named[:-1]}, abs=1e-6)
        assert len(matrix) == len(rows)


def test_an_empty_one_finds_nothing() -> None:
    assert Matrix(DIMENSION, 10).near(unit(1), 5) == []
    assert Matrix(DIMENSION, 10).of(unit(1), [UUID(int=1)]) == {}


def test_it_is_worn_when_a_graph_is_better() -> None:
    """Given twice as many rows as a graph has at least, then they are no more; with one more it is to be replaced."""
    matrix = Matrix(DIMENSION, 10)
    matrix.add({UUID(int=number): unit(number) for number in range(20)})
    assert not matrix.worn
    matrix.add({UUID(int=99): unit(99)})
    assert matrix.worn
