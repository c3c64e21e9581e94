"""The conversation in four languages says the same in each."""

from __future__ import annotations

from benchmarks.eval.languages import LANGUAGES, conversations
from memforest_core.domain.words import words_of


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
