"""The three lives are whole, their questions are balanced over an open and a locked half, and the locked half stays shut."""

from __future__ import annotations

from collections import Counter

from benchmarks.eval import lives
from benchmarks.eval.dataset import Conversation, Dataset, Question

OPEN = lives.load()
LOCKED = lives.load(locked=lives.LOCKED)
PER_HALF = {
    "one fact": 4,
    "several sessions": 4,
    "when": 3,
    "change": 4,
    "how long, how often, how many": 2,
    "category words": 2,
    lives.NEVER_SAID: 1,
}
"""Questions of each type in each half of each life."""


def questions(data: Dataset) -> list[tuple[Conversation, Question]]:
    return [(one, question) for one in data for question in one.questions]


def test_both_halves_are_about_the_same_lives() -> None:
    assert [one.sessions for one in OPEN] == [one.sessions for one in LOCKED]


def test_types_are_balanced_over_the_halves() -> None:
    assert tuple(PER_HALF) == lives.TYPES
    for one in (*OPEN, *LOCKED):
        assert Counter(question.category for question in one.questions) == PER_HALF


def test_the_evidence_of_every_question_exists_and_is_in_order() -> None:
    for one, question in (*questions(OPEN), *questions(LOCKED)):
        order = [turn.id for _, turn in one.turns()]
        assert list(question.gold) == sorted(set(question.gold), key=order.index), question.id
        assert bool(question.gold) is question.answerable is question.measures_recall


def test_no_question_occurs_twice_or_in_both_halves() -> None:
    requested = [question for _, question in (*questions(OPEN), *questions(LOCKED))]
    assert len(requested) == 120
    assert len({" ".join(question.text.casefold().split()) for question in requested}) == 120
    assert len({question.id for question in requested}) == 120


def test_the_locked_file_shows_no_word_of_its_questions() -> None:
    whole, opened = lives.LOCKED.read_text(encoding="ascii"), lives.LIVES.read_text(encoding="utf-8")
    for _, question in questions(LOCKED):
        assert question.text not in whole
        assert question.text not in opened
