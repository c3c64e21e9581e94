"""The conversation in four languages says the same in each, and its figures are counted right."""

from __future__ import annotations

from benchmarks.eval.dataset import Question
from benchmarks.languages import LANGUAGES, Asked, conversations, row
from memforest_core.domain.words import words_of


def asked(number: int, share: float) -> Asked:
    return Asked(Question(f"q{number}", f"Question {number}?", "now", ("t1",), ""), share)


def test_each_language_has_the_same_turns_and_questions() -> None:
    told = dict(zip(LANGUAGES, conversations(), strict=True))
    for language, one in told.items():
        turns = [turn for _, turn in one.turns()]
        assert (len(turns), len(one.questions)) == (60, 30)
        assert all(turn.text.strip() for turn in turns)
        assert {gold for question in one.questions for gold in question.gold} <= {turn.id for turn in turns}
        assert sum(turn.by_owner for turn in turns) == 30
        assert one.id.endswith(language)


def test_each_question_is_read_by_the_words_of_its_language() -> None:
    for language, one in zip(("english", "german", "spanish", "chinese"), conversations(), strict=True):
        read = {question.text: [words.language for words in words_of(question.text)] for question in one.questions}
        assert [text for text, languages in read.items() if language not in languages] == []


def test_a_row_has_percents_and_their_ratio() -> None:
    figures = row("de", [asked(1, 1.0), asked(2, 0.5)], [asked(1, 0.5), asked(2, 0.0)], [asked(1, 1.0), asked(2, 0.0)])
    assert (figures["memforest"], figures["bm25"], figures["hybrid"], figures["ratio"]) == (75.0, 25.0, 50.0, 3.0)
    assert figures["missed"] == ["Question 2?"]


def test_without_anything_found_by_words_there_is_no_ratio() -> None:
    assert row("de", [asked(1, 1.0)], [asked(1, 0.0)], [asked(1, 0.0)])["ratio"] is None
