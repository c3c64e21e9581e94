"""Sparse vectors: stable indices, BM25 weights, one weight per distinct query term."""

from __future__ import annotations

import math

import pytest

from memforest_core.domain import lexical
from memforest_core.domain.lexical import document_weights, query_weights, term_index


def weight(term: str, terms: list[str], average_length: float = 40.0) -> float:
    """The weight of one term in a document."""
    indices, values = document_weights(terms, average_length)
    return values[indices.index(term_index(term))]


def test_an_index_is_the_same_in_every_process_and_fits_32_bits() -> None:
    assert term_index("boston") == 3_425_844_585
    assert all(0 <= term_index(f"term{number}") < 2**32 for number in range(1_000))


class TestDocumentWeights:
    def test_indices_ascend_and_belong_to_their_values(self) -> None:
        indices, values = document_weights(["b", "a", "b", "c"])

        assert list(indices) == sorted({term_index(term) for term in "abc"})
        assert len(values) == 3
        assert weight("b", ["b", "a", "b", "c"]) == max(values)

    def test_the_formula_at_average_length(self) -> None:
        # tf (k1 + 1) / (tf + k1) with k1 = 1.2
        assert math.isclose(weight("a", ["a"], 1.0), 1.0)
        assert math.isclose(weight("a", ["a", "a"], 2.0), 2 * 2.2 / 3.2)

    def test_repetition_saturates_and_length_dilutes(self) -> None:
        once, often = weight("a", ["a"]), weight("a", ["a"] * 50)
        padded = weight("a", ["a", *(f"x{number}" for number in range(200))])

        assert padded < once < often < 2.2

    def test_terms_that_share_an_index_add_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        alone = weight("a", ["a", "b"])
        monkeypatch.setattr(lexical, "term_index", lambda _: 7)

        indices, values = document_weights(["a", "b"])

        assert indices == (7,)
        assert math.isclose(values[0], 2 * alone)

    def test_no_terms_no_weights(self) -> None:
        assert document_weights([]) == ((), ())


def test_a_query_weighs_each_distinct_term_once() -> None:
    assert query_weights(["b", "a", "b"]) == (
        tuple(sorted((term_index("a"), term_index("b")))),
        (1.0, 1.0),
    )
    assert query_weights([]) == ((), ())
