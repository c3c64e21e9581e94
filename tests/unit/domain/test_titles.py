"""Titles from terms: what many of the texts have and few others do."""

from __future__ import annotations

import pytest

from memforest_core.domain.indexed import count_terms
from memforest_core.ingest.refresh.summarizer import TITLE_CHARS, title_from_terms

POTTERY = ("Alice joined a pottery class.", "Alice glazed her first bowl in the pottery class.", "Pottery calms Alice.")
OTHERS = tuple(count_terms(text) for text in ("Alice moved to Oslo.", "Alice likes jazz.", "Alice works at Initech."))


def test_what_is_in_many_texts_and_in_few_others_comes_first() -> None:
    assert title_from_terms(POTTERY, OTHERS).split(", ")[:2] == ["pottery", "class"]


def test_a_word_that_most_scenes_have_is_left_out() -> None:
    without = title_from_terms(POTTERY, ()).split(", ")
    assert without[0] in {"Alice", "pottery"}
    words = title_from_terms(("Alice saw Rome.", "Alice left Rome."), OTHERS).split(", ")
    assert words[0] == "Rome" and "Alice" not in words


def test_a_title_is_bounded_whatever_the_words() -> None:
    long = [f"{letter * 29} and {letter * 28}x." for letter in "abcdefgh"]
    assert 0 < len(title_from_terms(long, ())) <= TITLE_CHARS
    assert len(title_from_terms(["x" * 5_000], ())) <= TITLE_CHARS


def test_verbs_of_saying_times_and_fillers_are_no_topic() -> None:
    said = ("Bob said: The choir sang again.", "Bob told Ann two weeks ago that the choir got new robes.")
    words = title_from_terms(said, ()).split(", ")
    assert "choir" in words and {"said", "told", "weeks", "two", "new", "got"}.isdisjoint(words)


def test_a_first_turn_without_telling_words_gives_its_beginning_without_the_speaker() -> None:
    assert (
        title_from_terms(("Bob said: I told you so, again and again.", "Go."), ()) == "I told you so, again and again."
    )


@pytest.mark.parametrize("texts", [("It was what it is.",), ("42 17",), ("a b c",)])
def test_texts_without_telling_words_give_their_beginning(texts: tuple[str, ...]) -> None:
    assert title_from_terms(texts, ()) == texts[0]


def test_other_languages_and_scripts_have_words_too() -> None:
    german = ("Anna spielt Klavier.", "Das Klavier steht in der Küche.", "Anna übt Klavier mit den Kindern.")
    assert title_from_terms(german, ()).split(", ")[0] == "Klavier"
    assert "钢琴" in title_from_terms(("我在学钢琴", "钢琴课很有趣"), ())
