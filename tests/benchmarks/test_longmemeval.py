"""Loading questions in LongMemEval's format."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.eval.ingesting import payload
from benchmarks.eval.longmemeval import load


def requested(**changes: Any) -> dict[str, Any]:
    """One question with a history of two sessions, the later one first."""
    return {
        "question_id": "q1",
        "question_type": "single-session-user",
        "question": "Where do I keep the spare key?",
        "answer": "in the blue jug",
        "question_date": "2023/05/30 (Tue) 23:40",
        "haystack_session_ids": ["s2", "s1"],
        "haystack_dates": ["2023/05/21 (Sun) 10:00", "2023/05/20 (Sat) 02:21"],
        "haystack_sessions": [
            [{"role": "user", "content": "Plan my week."}, {"role": "assistant", "content": "Gladly."}],
            [
                {"role": "user", "content": "The spare key is in the blue jug.", "has_answer": True},
                {"role": "assistant", "content": " "},
            ],
        ],
        "answer_session_ids": ["s1"],
    } | changes


def written(directory: Path, document: object) -> Path:
    path = directory / "data.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def test_each_question_is_a_conversation_of_its_own_in_the_order_of_time(tmp_path: Path) -> None:
    one, other = load(written(tmp_path, [requested(), requested(question_id="q2")]))
    assert (one.id, other.id) == ("q1", "q2")
    assert [session.id for session in one.sessions] == ["s1", "s2"]
    assert one.sessions[0].started_at == datetime(2023, 5, 20, 2, 21, tzinfo=UTC)
    question = one.questions[0]
    assert (question.category, question.gold) == ("single-session-user", ("s1:1",))
    assert question.asked_at == datetime(2023, 5, 30, 23, 40, tzinfo=UTC)
    assert question.measures_recall


def test_the_user_is_the_owner_of_the_memory(tmp_path: Path) -> None:
    (one,) = load(written(tmp_path, [requested()]))
    user, assistant = payload(one, one.sessions[1])
    assert user == {"id": "s2:1", "role": "user", "name": "user", "content": "Plan my week.", "speaker_id": "q1"}
    assert assistant["role"] == "assistant"
    assert "speaker_id" not in assistant


def test_a_question_that_the_history_does_not_answer_measures_no_recall(tmp_path: Path) -> None:
    (one,) = load(written(tmp_path, [requested(question_id="q1_abs")]))
    assert not one.questions[0].measures_recall
