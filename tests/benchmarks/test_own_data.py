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


def test_the_evidence_of_every_question_exists(pair: tuple[dict[str, Any], Conversation]) -> None:
    raw, one = pair
    known = {turn.id for _, turn in one.turns()}
    for question in raw["qa"]:
        assert question["evidence"]
        assert set(question["evidence"]) <= known
    # The loader drops what it does not find: it drops nothing.
    assert [list(question.gold) for question in one.questions] == [list(q["evidence"]) for q in raw["qa"]]


def test_every_category_has_questions_and_three_questions_have_no_answer(
    pair: tuple[dict[str, Any], Conversation],
) -> None:
    _, one = pair
    counted = Counter(question.category for question in one.questions)
    assert set(counted) == set(locomo.CATEGORIES.values())
    assert counted["adversarial"] == 3
    assert 25 <= sum(question.measures_recall for question in one.questions) <= 30
    assert all(len(question.gold) >= 2 for question in one.questions if question.category == "multi-hop")
