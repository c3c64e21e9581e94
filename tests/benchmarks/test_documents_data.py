"""The conversation with documents that ships is whole: long turns, tools' results, and evidence that is in them."""

from __future__ import annotations

from collections import Counter
from itertools import chain

from benchmarks.eval import locomo
from benchmarks.eval.__main__ import DOCUMENTS
from benchmarks.eval.dataset import Question

(ONE,) = locomo.load(DOCUMENTS)
TURNS = {turn.id: turn for _, turn in ONE.turns()}


def roles(question: Question) -> set[str]:
    return {TURNS[turn].role for turn in question.gold}


def test_long_turns_tools_and_talk_alternate() -> None:
    assert 10 <= len(ONE.sessions) <= 12
    lengths = {role: [len(turn.text) for turn in TURNS.values() if turn.role == role] for role in locomo.ROLES}
    assert sum(length >= 1_200 for length in lengths["assistant"]) >= 10
    assert sum(length >= 1_200 for length in lengths["user"]) >= 3
    assert len(lengths["tool"]) >= 10
    assert sum(length < 200 for length in chain(*lengths.values())) > len(TURNS) / 2
    assert all(turn.by_owner is (turn.role == "user") for turn in TURNS.values())


def test_thirty_questions_of_four_kinds_ask_for_what_is_there() -> None:
    assert Counter(question.category for question in ONE.questions) == {
        "detail": 12,
        "talk": 8,
        "number": 6,
        "sessions": 4,
    }
    assert len({question.text for question in ONE.questions}) == 30
    for question in ONE.questions:
        assert question.gold
        long = {turn for turn in question.gold if len(TURNS[turn].text) >= 400}
        assert set(question.excerpts) == long


def test_numbers_are_asked_of_tools_and_talk_of_people() -> None:
    for question in ONE.questions:
        if question.category == "number":
            assert roles(question) == {"tool"}
        if question.category == "talk":
            assert roles(question) == {"user"}
        assert len(question.gold) == (2 if question.category == "sessions" else 1)
