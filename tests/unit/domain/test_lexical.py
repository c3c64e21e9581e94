"""Sparse vectors: stable indices, one weight per distinct query term."""

from __future__ import annotations

from memforest_core.domain.indexed import query_weights, term_index


def test_an_index_is_the_same_in_every_process_and_fits_32_bits() -> None:
    assert term_index("boston") == 3_425_844_585
    assert all(0 <= term_index(f"term{number}") < 2**32 for number in range(1_000))


def test_a_query_weighs_each_distinct_term_once() -> None:
    assert query_weights(["b", "a", "b"]) == (tuple(sorted((term_index("a"), term_index("b")))), (1.0, 1.0))
    assert query_weights([]) == ((), ())
