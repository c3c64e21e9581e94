"""The baselines' searches and cuts on corpora that fit on a page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.eval.baselines import Baseline, Search
from benchmarks.eval.corpora import Corpora, Cut, Searched
from benchmarks.eval.dataset import Conversation, Question, Session, Turn
from benchmarks.eval.searching import Bm25, cosine, fused

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


def asked(text: str) -> Question:
    return Question("q", text, "any", ("t1",), "")


def test_bm25_is_the_formula() -> None:
    """Given three texts, when one term is in one of them, then its score is idf times the saturated count."""
    search = Bm25(["goats goats", "looms", "looms keys"])
    idf = math.log(1 + (3 - 1 + 0.5) / (1 + 0.5))
    norm = 1.2 * (1 - 0.75 + 0.75 * 2 / (5 / 3))
    assert list(search.scores("a goat's")) == [pytest.approx(idf * 2 * 2.2 / (2 + norm)), 0.0, 0.0]


def test_bm25_prefers_rare_terms_and_short_texts_and_finds_nothing_else() -> None:
    search = Bm25(["the loom and the goat", "a loom", "a loom, much more about this one loom", "the dog"])
    assert search.search("Whose goats?", 9) == [0]
    assert search.search("looms", 9)[0] == 1
    assert search.search("nothing of it", 9) == []
    assert search.search("loom", 2) == search.search("loom", 9)[:2]


def test_cosine_orders_by_nearness_and_ties_by_position() -> None:
    vectors = by_words(["key", "loom", "loom", "goat"])
    assert cosine(vectors, by_words(["loom"])[0], 2) == [1, 2]


def test_rank_fusion_prefers_what_both_orders_have() -> None:
    assert fused([[1, 2, 3], [4, 2]], 9) == [2, 1, 4, 3]
    assert fused([[1, 2, 3], [4, 2]], 1) == [2]


def test_a_turn_is_searched_with_its_date_and_speaker_and_delivered_without_the_date() -> None:
    method = Baseline("bm25_turns", Search.BM25, Cut.TURNS, corpora())
    one = conversation("I sold the loom.", "Who bought it?")
    assert [item.turn_ids for item in method.ask(one, asked("What was on Monday?")).items] == [("t2",), ("t1",)]
    (found,) = method.ask(one, asked("Bob")).items
    assert (found.text, found.time_label) == ("Bob: Who bought it?", "Monday 1 January 2024")


def test_cells_hold_two_turns_and_chunks_whole_turns_up_to_800_characters() -> None:
    texts = [f"Turn {number} {'x' * 290}" for number in range(5)]
    cells = corpora().of(conversation(*texts), Cut.CELLS).texts
    chunks = corpora().of(conversation(*texts), Cut.CHUNKS).texts
    assert [one.quotes[0].turn_ids for one in cells] == [("t1", "t2"), ("t3", "t4"), ("t5",)]
    assert [one.quotes[0].turn_ids for one in chunks] == [("t1", "t2"), ("t3", "t4"), ("t5",)]
    assert all(len(one.quotes[0].text) <= 800 for one in chunks)


def test_a_turn_longer_than_a_chunk_is_cut_into_chunks_of_its_own() -> None:
    chunks = corpora().of(conversation("word " * 400, "short"), Cut.CHUNKS).texts
    assert len(chunks) >= 3
    assert all(len(one.quotes[0].text) <= 800 for one in chunks)
    assert {turn for one in chunks for turn in one.quotes[0].turn_ids} == {"t1", "t2"}


def test_dense_finds_by_meaning_and_says_what_the_embedding_took() -> None:
    method = Baseline("dense_turns", Search.DENSE, Cut.TURNS, corpora())
    got = method.ask(conversation("the key", "the goat", "the loom"), asked("goat?"))
    assert got.items[0].turn_ids == ("t2",)
    assert set(got.stages_ms) == {"embed", "search"}
    assert got.ms == pytest.approx(sum(got.stages_ms.values()))


def test_facts_that_point_to_the_same_turn_deliver_it_once() -> None:
    one = conversation("I sold the loom and the goat.", "Good.")
    turn = corpora().of(one, Cut.TURNS).texts[0].quotes
    facts = [Searched("Bob sold the loom", turn), Searched("Bob sold the goat", turn)]
    got = Baseline("flat_facts", Search.HYBRID, Cut.FACTS, corpora(facts)).ask(one, asked("loom or goat?"))
    assert [item.turn_ids for item in got.items] == [("t1",)]


def test_where_there_is_nothing_nothing_is_found() -> None:
    got = Baseline("flat_facts", Search.HYBRID, Cut.FACTS, corpora()).ask(conversation("the loom"), asked("loom?"))
    assert list(got.items) == []


def test_a_turn_with_a_time_of_its_own_is_dated_by_it() -> None:
    at = datetime(2024, 1, 1, 9, tzinfo=UTC) + timedelta(days=1)
    session = Session("s", at - timedelta(days=1), (Turn("t1", "Ada", "Hm.", at),))
    made = corpora().of(Conversation("c", (session,), ()), Cut.TURNS).texts
    assert made[0].quotes[0].time_label == "Tuesday 2 January 2024"
