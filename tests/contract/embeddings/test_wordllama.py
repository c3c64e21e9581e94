"""The table of token vectors from its wheel: right, reproducible to the last bit, quiet, and never a download."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from memforest_core.errors import InvalidSettings, ModelRejected
from memforest_core.models.calls import Step
from memforest_core.models.embedders import wordllama
from memforest_core.models.embedders.wordllama import MAX_CHARS, WordLlamaEmbedder
from memforest_core.models.opening import open_embedder
from memforest_core.settings import EmbeddingSettings

SENTENCE = "I moved to Boston last week and adopted a dog called Biscuit for company in 2021"
WORDS = SENTENCE.split()


@pytest.fixture(scope="module")
def embedder() -> WordLlamaEmbedder:
    return WordLlamaEmbedder()


def sentences(count: int, seed: int = 7) -> list[str]:
    chance = random.Random(seed)
    return [" ".join(chance.choices(WORDS, k=chance.randint(1, 40))) for _ in range(count)]


def similarity(embedder: WordLlamaEmbedder, one: str, other: str) -> float:
    vectors = embedder.embed([one, other]).vectors
    return float(vectors[0] @ vectors[1])


def test_one_setting_chooses_it() -> None:
    chosen = open_embedder(EmbeddingSettings(model=wordllama.MODEL))
    assert isinstance(chosen, WordLlamaEmbedder)
    assert chosen.model == "wordllama-256"


def test_vectors_are_unit_rows_of_the_models_dimension(embedder: WordLlamaEmbedder) -> None:
    done = embedder.embed(sentences(20))
    assert embedder.dimension == 256
    assert done.vectors.shape == (20, 256)
    assert done.vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(done.vectors, axis=1), 1.0, atol=1e-6)


def test_the_call_is_recorded(embedder: WordLlamaEmbedder) -> None:
    record = embedder.embed(["Bob lives in Davis."]).record
    assert (record.step, record.model, record.outcome) == (Step.EMBED, embedder.model, "ok")
    # Bob lives in Davis .
    assert record.prompt_tokens == 5
    assert record.cost_usd == 0.0


def test_nothing_in_nothing_out(embedder: WordLlamaEmbedder) -> None:
    assert embedder.embed([]).vectors.shape == (0, 256)


PACKAGE_ITSELF = [
    ("Bob lives in Davis.", "Bob's home is in Davis.", 0.8946),
    ("Bob lives in Davis.", "The stock market fell by three percent.", -0.1028),
    ("She adopted a dog named Biscuit.", "What pet does she have?", 0.4482),
]
"""Cosines of the package's own code, computed apart."""


@pytest.mark.parametrize(("one", "other", "cosine"), PACKAGE_ITSELF)
def test_similarities_are_those_of_the_package(
    embedder: WordLlamaEmbedder, one: str, other: str, cosine: float
) -> None:
    assert similarity(embedder, one, other) == pytest.approx(cosine, abs=1e-4)


def test_a_text_has_one_vector_whatever_is_embedded_with_it(embedder: WordLlamaEmbedder) -> None:
    texts = sentences(100)
    together = embedder.embed(texts).vectors
    alone = np.vstack([embedder.embed([text]).vectors for text in texts])
    np.testing.assert_array_equal(together, alone)


def test_it_neither_imports_its_package_nor_sets_up_logging() -> None:
    """Given a fresh process, when texts are embedded, then the package's own code has not run; and the bits agree."""
    program = (
        "import logging, sys\n"
        "from memforest_core.models.embedders.wordllama import WordLlamaEmbedder as E\n"
        "print(E().embed(['Bob lives in Davis.']).vectors.tobytes().hex())\n"
        "assert 'wordllama' not in sys.modules and 'requests' not in sys.modules\n"
        "assert not logging.getLogger().handlers\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    here = WordLlamaEmbedder().embed(["Bob lives in Davis."]).vectors.tobytes().hex()
    assert done.stdout.strip() == here


def test_threads_share_one_embedder(embedder: WordLlamaEmbedder) -> None:
    texts = sentences(40, seed=3)
    expected = embedder.embed(texts).vectors
    with ThreadPoolExecutor(10) as threads:
        parts = threads.map(lambda i: embedder.embed(texts[i * 4 : i * 4 + 4]).vectors, range(10))
        np.testing.assert_array_equal(np.vstack(list(parts)), expected)


def test_a_long_text_is_read_up_to_a_bound(embedder: WordLlamaEmbedder) -> None:
    head = ("dog " * MAX_CHARS)[:MAX_CHARS]
    done = embedder.embed([head, head + "and a very different ending " * 500])
    np.testing.assert_array_equal(done.vectors[0], done.vectors[1])


@pytest.mark.parametrize("text", ["", " ", "\x00", "😀", "Привет, мир", "مرحبا", "<s></s>", "x" * 9999])
def test_any_text_has_a_finite_direction(embedder: WordLlamaEmbedder, text: str) -> None:
    vector = embedder.embed([text]).vectors[0]
    assert np.isfinite(vector).all()
    assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-5)


def test_text_that_is_not_unicode_is_refused_without_quoting_it(embedder: WordLlamaEmbedder) -> None:
    with pytest.raises(ModelRejected) as caught:
        embedder.embed(["secret \ud800 half"])
    assert "secret" not in str(caught.value)


def test_questions_are_embedded_like_statements(embedder: WordLlamaEmbedder) -> None:
    question = ["Where did Bob live?"]
    np.testing.assert_array_equal(embedder.embed_query(question).vectors, embedder.embed(question).vectors)


def test_a_missing_wheel_is_said_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wordllama, "PACKAGE", "wordllama_that_is_not_there")
    with pytest.raises(InvalidSettings, match=r"pip install 'memforest\[wordllama\]'"):
        _ = WordLlamaEmbedder().dimension
