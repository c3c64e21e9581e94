"""The baselines' searches and cuts on corpora that fit on a page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.eval.baseline_rows import BASELINES, OURS, baselines, shown
from benchmarks.eval.baselines import DEPTH, Baseline, Search
from benchmarks.eval.blending import MIDDLE, Convex, Scales, convex
from benchmarks.eval.corpora import KEPT, Corpora, Cut, Searched
from benchmarks.eval.dataset import Conversation, Question, Session, Turn
from benchmarks.eval.peer_rows import Peer
from benchmarks.eval.searching import Bm25, beside, by_best, cosine, fused, similarities, spread, standard, widened

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


def test_the_last_conversations_keep_their_cuts() -> None:
    """Given more conversations than are kept, when one is asked for again, then only one of long ago is cut anew."""
    made = corpora()
    many = [conversation(f"text {number}") for number in range(KEPT + 1)]
    found = [made.of(one, Cut.TURNS) for one in many]
    assert made.of(many[1], Cut.TURNS) is found[1]
    assert made.of(many[0], Cut.TURNS) is not found[0]
    # The one used longest ago gave way, and not the one that was asked for just now.
    assert made.of(many[1], Cut.TURNS) is found[1]
    assert made.of(many[2], Cut.TURNS) is not found[2]
    assert [one.text for one in made.of(many[3], Cut.TURNS).texts] != [one.text for one in found[4].texts]


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


def test_every_baseline_answers_and_ours_is_marked() -> None:
    one = conversation("I sold the loom.", "Who bought it?", "A man with a goat.")
    asked_of = replace(one, questions=(asked("Who has the loom?"),))
    made = baselines(corpora(), (asked_of,))
    assert tuple(method.name for method in made) == BASELINES
    for method in made:
        if isinstance(method, Peer):
            # Processes and connections of others: asked in test_peer_rows.
            continue
        got = method.ask(asked_of, asked_of.questions[0])
        assert bool(got.items) == (method.name not in OURS)
        assert len({item.turn_ids for item in got.items}) == len(got.items) <= DEPTH
    assert [shown(name) for name in ("flat_facts", "bm25_turns")] == ["flat_facts (ours)", "bm25_turns"]


def test_neighbours_follow_their_text_within_its_session() -> None:
    sessions = ["a", "a", "a", "b", "b"]
    assert widened([2, 4], sessions, 9) == [2, 1, 4, 3]
    assert widened([1, 3], sessions, 9) == [1, 0, 2, 3, 4]
    assert widened([1, 3], sessions, 2) == [1, 0]


def test_a_chunk_is_delivered_with_the_chunks_around_it() -> None:
    texts = [f"Turn {number} {'x' * 600}" for number in range(5)]
    one = conversation(*texts[:2], f"The loom {'x' * 600}", *texts[3:])
    got = Baseline("any", Search.BM25_NEIGHBOURS, Cut.CHUNKS, corpora()).ask(one, asked("loom?"))
    assert [item.turn_ids for item in got.items] == [("t3",), ("t2",), ("t4",)]


def test_scores_are_scaled_as_their_names_say() -> None:
    scores = np.array([1.0, 3.0, 5.0])
    assert list(by_best(scores)) == pytest.approx([0.2, 0.6, 1.0])
    assert list(spread(scores)) == pytest.approx([0.0, 0.5, 1.0])
    assert list(standard(scores)) == pytest.approx([-(1.5**0.5), 0.0, 1.5**0.5])
    for scale in (by_best, spread, standard):
        assert list(scale(np.zeros(2))) == [0.0, 0.0]
        assert list(scale(np.zeros(0))) == []
    assert list(beside(np.array([1.0, 2.0, 5.0, 7.0]), ["a", "a", "a", "b"])) == [2.0, 3.0, 2.0, 0.0]


def test_a_sum_of_scores_prefers_what_both_searches_like() -> None:
    """Given a text that shares the rare word and one that is near in meaning, then what has both is first."""
    one = conversation("Martha met them", "", "goat", "", "Martha's goat", "")
    got = Baseline("sum_cells", Search.SUM, Cut.CELLS, corpora()).ask(one, asked("Martha and the goat"))
    assert got.items[0].turn_ids == ("t5", "t6")


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
    """Given a half that words answer and one that meaning answers, then each is asked with the other's weight, and
    misses what its own would have found."""
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


def test_without_another_half_the_weight_is_in_the_middle() -> None:
    data = (long_conversation("c1", by_word("w1")),)
    own, other = Convex("convex_turns", Cut.TURNS, corpora(), data).alphas
    assert own == MIDDLE > other


def test_a_turn_gains_from_its_session_its_neighbours_and_its_speaker() -> None:
    """Given turns of the same words, when one stands in a session about looms or is said by whom the question names,
    then it comes before the others."""
    start = datetime(2024, 1, 1, 9, tzinfo=UTC)

    def session(id_: str, *said: tuple[str, str]) -> Session:
        return Session(id_, start, tuple(Turn(f"{id_}{n}", who, text) for n, (who, text) in enumerate(said)))

    about = session("a", ("Bob", "The loom broke"), ("Bob", "It was blue"), ("Bob", "A loom is dear"))
    other = session("b", ("Bob", "Rain again"), ("Bob", "It was blue"), ("Bob", "More rain"))
    method = Scales("zsum_turns", corpora())
    got = method.ask(Conversation("c", (other, about), ()), asked("Which colour had the blue loom?"))
    places = [item.turn_ids[0] for item in got.items]
    assert places.index("a1") < places.index("b1")
    assert set(got.stages_ms) == {"embed", "search"}
    named = session("c", ("Bob", "It was blue"), ("Ada", "It was blue"), ("Bob", "It was blue"))
    got = method.ask(Conversation("c", (named,), ()), asked("What was blue, Ada?"))
    assert got.items[0].turn_ids == ("c1",)
