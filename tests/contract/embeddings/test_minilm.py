"""The embedding model from the wheel: right, reproducible to the last bit, safe among threads."""

from __future__ import annotations

import random

import numpy as np
import pytest

from memforest_core.models.embedders.minilm import MiniLmEmbedder
from memforest_core.models.token_vectors import PACKED, Unit, unpack

SENTENCE = (
    "I moved to Boston last week and adopted a dog called Biscuit because my sister said it "
    "would be good company while working from home on that data project in 2021 for $45.50"
)


@pytest.fixture(scope="module")
def embedder() -> MiniLmEmbedder:
    return MiniLmEmbedder()


def sentences(count: int, seed: int = 7) -> list[str]:
    chance = random.Random(seed)
    return [" ".join(chance.choices(SENTENCE.split(), k=chance.randint(1, 40))) for _ in range(count)]


def similarity(embedder: MiniLmEmbedder, one: str, other: str) -> float:
    vectors = embedder.embed([one, other]).vectors
    return float(vectors[0] @ vectors[1])


FULL_PRECISION = [
    ("Bob lives in Davis.", "Bob's home is in Davis.", 0.8773),
    ("Bob lives in Davis.", "Bob moved to Miami in March.", 0.5977),
    ("Bob lives in Davis.", "The stock market fell by three percent.", -0.0376),
    ("She adopted a dog named Biscuit.", "What pet does she have?", 0.5519),
    ("She adopted a dog named Biscuit.", "How do I bake sourdough bread?", 0.2112),
    ("Der Hund schläft im Garten.", "The dog sleeps in the garden.", -0.0794),
    ("她搬到了波士顿", "她住在波士顿", 0.9945),
]
"""Cosines of the float32 weights of sentence-transformers/all-MiniLM-L6-v2, computed separately."""


@pytest.mark.parametrize(("one", "other", "cosine"), FULL_PRECISION)
def test_similarities_are_those_of_the_full_precision_model(
    embedder: MiniLmEmbedder, one: str, other: str, cosine: float
) -> None:
    assert similarity(embedder, one, other) == pytest.approx(cosine, abs=0.01)


def test_batch_size_and_threads_change_no_bit(embedder: MiniLmEmbedder) -> None:
    texts = sentences(60)
    expected = embedder.embed(texts).vectors
    for other in (MiniLmEmbedder(batch_size=1, threads=1), MiniLmEmbedder(batch_size=64)):
        np.testing.assert_array_equal(other.embed(texts).vectors, expected)


def test_tokens_have_vectors_of_their_own(embedder: MiniLmEmbedder) -> None:
    """Given a text, when it is embedded, then each token but the two that the model adds has a vector and its place."""
    text = "Bob lives in Davis."
    [tokens] = embedder.embed([text]).tokens or ()
    assert [text[start : start + 1] for start in tokens.starts] == ["B", "l", "i", "D", "."]
    assert (tokens.packed.shape, tokens.packed.dtype) == ((5, PACKED), np.uint8)
    assert embedder.embed([]).tokens is None


def test_token_vectors_distinguish_meanings_of_a_word_by_its_context(embedder: MiniLmEmbedder) -> None:
    """Given a word with two meanings, then its vector is nearer to that of the same meaning in other words."""

    def last(text: str) -> Unit:
        [tokens] = embedder.embed([text]).tokens or ()
        return unpack(tokens.packed)[-1]

    water, money = last("we sat down by the river bank"), last("I opened an account at my bank")
    boat = last("the boat came to the shore")
    assert boat @ water > boat @ money


def test_token_vectors_are_the_same_whatever_is_embedded_with_a_text(embedder: MiniLmEmbedder) -> None:
    texts = sentences(40)
    together = embedder.embed(texts).tokens or ()
    for text, tokens in zip(texts, together, strict=True):
        [alone] = embedder.embed_query([text]).tokens or ()
        np.testing.assert_array_equal(alone.packed, tokens.packed)
