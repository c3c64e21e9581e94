from __future__ import annotations

import numpy as np
import pytest

from memforest_core.store.vectors import as_stored, from_bytes, pooled_half, to_bytes, to_half


def units(count: int, dimension: int) -> np.ndarray:
    drawn = np.random.default_rng(7).standard_normal((count, dimension))
    return (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("dimension", [1, 2, 3, 256, 384, 1536])
def test_half_precision_takes_half_the_bytes_and_is_distinguished_from_float32(dimension: int) -> None:
    (vector,) = units(1, dimension)
    half, full = to_half(vector), to_bytes(vector)
    assert (len(half), len(full)) == (2 * dimension + 1, 4 * dimension)
    assert from_bytes(half).dtype == from_bytes(full).dtype == np.float32
    assert from_bytes(half).shape == from_bytes(full).shape == (dimension,)
    assert np.array_equal(from_bytes(full), vector)
    assert np.allclose(from_bytes(half), vector, rtol=2**-11, atol=2**-25)


def test_cosines_stay_the_same_to_four_digits() -> None:
    """Between any two of 300 vectors of length one, and of each with itself."""
    vectors = units(300, 384)
    halves = np.stack([from_bytes(to_half(each)) for each in vectors])
    assert np.abs(halves @ halves.T - vectors @ vectors.T).max() < 1e-4


def test_what_was_read_is_stored_again_without_a_further_loss() -> None:
    (vector,) = units(1, 384)
    assert to_half(as_stored(vector)) == to_half(vector)


def test_a_mean_vector_is_stored_only_next_to_another_one() -> None:
    one, other = units(2, 8)
    assert pooled_half(one, one.copy()) is None
    assert pooled_half(one, other) == to_half(one)
