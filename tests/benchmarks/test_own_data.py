"""The conversations that ship are whole: every question's evidence is there, and says something about the answer."""

from __future__ import annotations

import json
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from benchmarks.eval import locomo
from benchmarks.eval.__main__ import OWN
from benchmarks.eval.dataset import Conversation
from memforest_core.domain.text import terms

RAW: list[dict[str, Any]] = json.loads(OWN.read_text(encoding="utf-8"))
DATA = locomo.load(OWN)


@pytest.fixture(params=[0, 1])
def pair(request: pytest.FixtureRequest) -> tuple[dict[str, Any], Conversation]:
    return RAW[request.param], DATA[request.param]


def test_there_are_two_conversations_of_some_months() -> None:
    assert [one.id for one in DATA] == ["own-1", "own-2"]
    for one in DATA:
        assert 8 <= len(one.sessions) <= 10
        assert one.sessions[-1].started_at - one.sessions[0].started_at > timedelta(days=180)
        assert all(12 <= len(session.turns) <= 18 for session in one.sessions)


def test_turns_are_numbered_within_their_session_and_said_by_both(pair: tuple[dict[str, Any], Conversation]) -> None:
    raw, one = pair
    for number, session in enumerate(one.sessions, 1):
        assert [turn.id for turn in session.turns] == [f"D{number}:{n + 1}" for n in range(len(session.turns))]
        speakers = {turn.speaker for turn in session.turns}
        assert speakers == {raw["conversation"]["speaker_a"], raw["conversation"]["speaker_b"]}


def test_the_evidence_of_every_question_exists(pair: tuple[dict[str, Any], Conversation]) -> None:
    raw, one = pair
    known = {turn.id for _, turn in one.turns()}
    for question in raw["qa"]:
        assert question["evidence"]
        assert set(question["evidence"]) <= known
    # The loader drops what it does not find: it drops nothing.
    assert [list(question.gold) for question in one.questions] == [list(q["evidence"]) for q in raw["qa"]]


def test_every_category_is_asked_and_three_questions_have_no_answer(pair: tuple[dict[str, Any], Conversation]) -> None:
    _, one = pair
    counted = Counter(question.category for question in one.questions)
    assert set(counted) == set(locomo.CATEGORIES.values())
    assert counted["adversarial"] == 3
    assert 25 <= sum(question.measures_recall for question in one.questions) <= 30
    assert all(len(question.gold) >= 2 for question in one.questions if question.category == "multi-hop")


def test_questions_are_asked_once_in_words_of_their_own() -> None:
    questions = [(one, question) for one in DATA for question in one.questions if question.measures_recall]
    assert len({question.text for _, question in questions}) == len(questions)
    shares = []
    for one, question in questions:
        texts = {turn.id: turn.text for _, turn in one.turns()}
        gold = set(terms(" ".join(texts[id_] for id_ in question.gold)))
        asked = set(terms(question.text))
        shares.append(len(asked & gold) / len(asked))
    assert sum(shares) / len(shares) < 0.35
