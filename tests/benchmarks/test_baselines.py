"""The baselines' searches and cuts on corpora that fit on a page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.eval.baseline_rows import BASELINES, OURS, baselines, shown
from benchmarks.eval.baselines import DEPTH
from benchmarks.eval.corpora import Corpora, Searched
from benchmarks.eval.dataset import Conversation, Question, Session, Turn
from benchmarks.eval.peer_rows import Peer
from benchmarks.eval.searching import Bm25

WORDS = ("loom", "goat", "key")


def by_words(texts: Sequence[str]) -> NDArray[np.float32]:
    """Vectors by which of three words a text has, so that what is near is known."""
    vectors = np.array([[float(word in text.lower()) for word in WORDS] + [0.1] for text in texts], dtype=np.float32)
    unit: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


def conversation(*texts: str) -> Conversation:
    """One session of a Monday, its turns in turn by Ada and Bob."""
    turns = tuple(Turn(f"t{number}", "Ada" if number % 2 else "Bob", text) for number, text in enumerate(texts, 1))
    return Conversation("c", (Session("s", datetime(2024, 1, 1, 9, tzinfo=UTC), turns),), ())


def corpora(facts: Sequence[Searched] = ()) -> Corpora:
    return Corpora(lambda _: list(facts), by_words, UTC)


def requested(text: str) -> Question:
    return Question("q", text, "any", ("t1",), "")


def test_bm25_is_the_formula() -> None:
    """Given three texts, when one term is in one of them, then its score is idf times the saturated count."""
    search = Bm25(["goats goats", "looms", "looms keys"])
    idf = math.log(1 + (3 - 1 + 0.5) / (1 + 0.5))
    norm = 1.2 * (1 - 0.75 + 0.75 * 2 / (5 / 3))
    assert list(search.scores("a goat's")) == [pytest.approx(idf * 2 * 2.2 / (2 + norm)), 0.0, 0.0]


def test_every_baseline_answers_and_ours_is_marked() -> None:
    one = conversation("I sold the loom.", "Who bought it?", "A man with a goat.")
    requested_of = replace(one, questions=(requested("Who has the loom?"),))
    made = baselines(corpora(), (requested_of,))
    assert tuple(method.name for method in made) == BASELINES
    for method in made:
        if isinstance(method, Peer):
            # Needs processes and connections of others.
            continue
        got = method.ask(requested_of, requested_of.questions[0])
        assert bool(got.items) == (method.name not in OURS)
        assert len({item.turn_ids for item in got.items}) == len(got.items) <= DEPTH
    assert [shown(name) for name in ("flat_facts", "bm25_turns")] == ["flat_facts (ours)", "bm25_turns"]
