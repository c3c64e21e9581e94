"""A question as recall sees it."""

from __future__ import annotations

import pytest

from memforest_core.errors import InvalidInput
from memforest_core.recall.question import MAX_NAME_KEYS, MAX_QUESTION_CHARS, parse_question


@pytest.mark.parametrize("raw", ["", "  \n", "\x00", None, 7, ["Where?"]])
def test_an_empty_question_is_refused(raw: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_question(raw)
    assert refused.value.code == "empty_question"


def test_a_question_that_is_too_long_is_refused() -> None:
    assert parse_question("x" * MAX_QUESTION_CHARS)
    with pytest.raises(InvalidInput) as refused:
        parse_question("x" * (MAX_QUESTION_CHARS + 1))
    assert refused.value.code == "question_too_long"


def test_broken_characters_are_removed() -> None:
    assert parse_question("Where\x00 is\ud800 Bob?").text == "Where is Bob?"


def test_terms_are_stemmed_without_stop_words() -> None:
    assert parse_question("Where were the dogs running?").terms == {"dog", "run"}


def test_a_question_in_plain_english_has_one_term_a_word() -> None:
    question = parse_question("Where were the dogs running?")
    assert question.wanted == question.terms
    assert question.held({"dog", "cat"}) == {"dog"}


def test_another_language_is_searched_in_that_language_and_in_english() -> None:
    question = parse_question("Wo sind Annas Häuser?")
    assert {"anna", "haus", "hauser"} <= question.terms
    assert not question.terms & {"wo", "sind"}


@pytest.mark.parametrize("held", [{"haus"}, {"hauser"}, {"haus", "hauser"}])
def test_the_spellings_of_one_word_count_once(held: set[str]) -> None:
    question = parse_question("Wo sind die Häuser?")
    assert len(question.wanted) == 1
    assert question.held(held | {"dog"}) == question.wanted


def test_a_question_whose_language_is_unclear_is_searched_in_all() -> None:
    assert {"geburtstag"} < parse_question("Omas Geburtstage?").terms


@pytest.mark.parametrize(
    ("text", "model", "known"),
    [
        ("Where do the dogs live?", "all-minilm-l6-v2-int8", True),
        ("Wo wohnen die Hunde jetzt?", "all-minilm-l6-v2-int8", False),
        ("Wo wohnen die Hunde jetzt?", "multilingual-e5-small-4bit", True),
    ],
)
def test_an_english_model_knows_no_other_language(text: str, model: str, known: bool) -> None:
    assert parse_question(text).known_to(model) is known


def test_a_name_is_recognized_in_any_case_and_as_a_possessive() -> None:
    question = parse_question("what is BOB's job?")
    assert question.names("Bob Smith")
    assert not question.names("Ann")


def test_names_of_several_words_are_looked_up_shorter_ones_first() -> None:
    keys = parse_question("Did Mary Ann call?").name_keys()
    assert keys.index("mary") < keys.index("mary ann")


def test_a_long_question_looks_up_a_bounded_number_of_names() -> None:
    text = " ".join(f"word{number}" for number in range(800))
    assert len(parse_question(text).name_keys()) == MAX_NAME_KEYS


def test_the_asker_may_speak_of_themselves() -> None:
    assert parse_question("Where do I live?").first_person
    assert not parse_question("Where does Ian live?").first_person


def test_a_question_without_words_has_no_terms_to_search_for() -> None:
    question = parse_question("???")
    assert not question.terms
    assert question.name_keys() == ()
