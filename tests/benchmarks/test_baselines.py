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
from benchmarks.eval.baselines import DEPTH, Baseline, Search
from benchmarks.eval.blending import MIDDLE, Convex, convex
from benchmarks.eval.corpora import Corpora, Cut, Searched
from benchmarks.eval.dataset import Conversation, Question, Session, Turn
from benchmarks.eval.peer_rows import Peer
from benchmarks.eval.searching import Bm25, fused, similarities

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


def test_rank_fusion_prefers_what_both_orders_have() -> None:
    assert fused([[1, 2, 3], [4, 2]], 9) == [2, 1, 4, 3]
    assert fused([[1, 2, 3], [4, 2]], 1) == [2]


def test_cells_hold_two_turns_and_chunks_whole_turns_up_to_800_characters() -> None:
    texts = [f"Turn {number} {'x' * 290}" for number in range(5)]
    cells = corpora().of(conversation(*texts), Cut.CELLS).texts
    chunks = corpora().of(conversation(*texts), Cut.CHUNKS).texts
    assert [one.quotes[0].turn_ids for one in cells] == [("t1", "t2"), ("t3", "t4"), ("t5",)]
    assert [one.quotes[0].turn_ids for one in chunks] == [("t1", "t2"), ("t3", "t4"), ("t5",)]
    assert all(len(one.quotes[0].text) <= 800 for one in chunks)


def test_where_there_is_nothing_nothing_is_found() -> None:
    got = Baseline("flat_facts", Search.HYBRID, Cut.FACTS, corpora()).ask(conversation("the loom"), requested("loom?"))
    assert list(got.items) == []


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


def long_conversation(id_: str, *questions: Question) -> Conversation:
    """Turns of which 500 tokens hold one; Bob says them all."""
    begins = ["A tapir, a goat and a loom", "Martha Olsen", "One goat", "Olsen's loom", *["A loom"] * 8]
    filler = [" ".join(f"{number}/{word}" for word in range(100, 190)) for number in range(len(begins))]
    turns = tuple(
        Turn(f"t{n}", "Bob", f"{one} {more}") for n, (one, more) in enumerate(zip(begins, filler, strict=True), 1)
    )
    return Conversation(id_, (Session("s", datetime(2024, 1, 1, 9, tzinfo=UTC), turns),), questions)


def by_word(id_: str) -> Question:
    """Its words are those of t2; by meaning any loom is nearer."""
    return Question(id_, "Did Martha Olsen loom?", "words", ("t2",), "")


def by_meaning(id_: str) -> Question:
    """t3 is nearest; by words it is t1, which is near too."""
    return Question(id_, "Which tapir is a zoo?", "meaning", ("t3",), "")


def zoo_is_goat(texts: Sequence[str]) -> NDArray[np.float32]:
    return by_words([text.replace("zoo", "goat") for text in texts])


def test_each_half_is_answered_with_what_is_best_for_the_other() -> None:
    """Given a half that words answer and one that meaning answers, then the questions of each run with the other's
    weight, and miss what their own would have found."""
    data = (
        long_conversation("c1", by_word("w1"), by_meaning("m1")),
        long_conversation("c2", by_word("w2"), by_meaning("m2")),
    )
    method = Convex("convex_turns", Cut.TURNS, Corpora(lambda _: [], zoo_is_goat, UTC), data)
    for_words, for_meaning = method.alphas
    assert for_meaning < MIDDLE < for_words
    for conversation in data:
        for question in conversation.questions:
            assert method.ask(conversation, question).items[0].turn_ids != question.gold
    corpus = Corpora(lambda _: [], zoo_is_goat, UTC).of(data[0], Cut.TURNS)
    dense = similarities(corpus.vectors, zoo_is_goat([by_word("w1").text])[0])
    assert convex(dense, corpus.bm25.scores(by_word("w1").text), for_meaning)[0] == 1
