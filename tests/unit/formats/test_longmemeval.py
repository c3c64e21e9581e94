"""Histories in LongMemEval's format, invented ones."""

from __future__ import annotations

from typing import Any

import pytest

from memforest_core.ingest.formats.datasets import longmemeval
from memforest_core.ingest.formats.file_items import Converted, Refused, Value, Wordless, each

BREAD = [
    {"role": "user", "content": "I bake rye bread on Mondays.", "has_answer": True},
    {"role": "assistant", "content": "Lovely."},
]


def question(**changes: object) -> dict[str, Any]:
    return {
        "question_id": "q1",
        "question": "When?",
        "question_date": "2022/02/02 (Wed) 10:00",
        "haystack_session_ids": ["bread"],
        "haystack_dates": ["2022/02/01 (Tue) 09:30"],
        "haystack_sessions": [BREAD],
    } | changes


def test_a_history_is_the_memory_of_its_question() -> None:
    assert list(each([Value(1, question())], longmemeval, None)) == [
        Converted(
            1,
            "q1",
            "bread",
            [
                {
                    "role": "user",
                    "content": "I bake rye bread on Mondays.",
                    "id": "bread:1",
                    "metadata": {"has_answer": True},
                },
                {"role": "assistant", "content": "Lovely.", "id": "bread:2"},
            ],
            "2022-02-01T09:30:00",
        )
    ]


def test_questions_of_one_owner_have_separate_histories() -> None:
    values = [Value(1, question()), Value(2, question(question_id="q2", haystack_dates=["2022/05/01 (Sun) 09:30"]))]
    found = [(one.owner, one.session_id) for one in each(values, longmemeval, "ann") if isinstance(one, Converted)]
    assert found == [("ann", "q1/bread"), ("ann", "q2/bread")]


def test_sessions_have_names_of_their_own() -> None:
    """Given session ids that are missing or given twice, then each session has a name."""
    twice = {"haystack_sessions": [BREAD, BREAD], "haystack_dates": ["2022/02/01", "2022/02/02"]}
    unnamed = question(question_id="q2", haystack_session_ids=None, **twice)
    values = [Value(1, question(haystack_session_ids=["bread", "bread"], **twice)), Value(2, unnamed)]
    found = [one.session_id for one in each(values, longmemeval, None) if isinstance(one, Converted)]
    assert found == ["bread", "bread+", "session-1", "session-2"]


def test_empty_turns_are_left_out_and_ids_still_count_them() -> None:
    raw = question(haystack_sessions=[[{"role": "user", "content": " "}, *BREAD]])
    (found,) = each([Value(1, raw)], longmemeval, None)
    assert isinstance(found, Converted)
    assert [turn["id"] for turn in found.turns if isinstance(turn, dict)] == ["bread:2", "bread:3"]
    assert list(each([Value(1, question(haystack_sessions=[[]]))], longmemeval, None)) == [Wordless(1, "bread")]


@pytest.mark.parametrize(
    "changes, session, hint",
    [
        ({"question_id": None}, None, "question_id"),
        ({"haystack_sessions": None}, None, "haystack_sessions"),
        ({"haystack_dates": []}, None, "1 sessions, 0 dates"),
        ({"haystack_dates": ["soon"]}, "bread", "no time"),
        ({"haystack_sessions": ["text"]}, "bread", "list"),
        ({"haystack_sessions": [["text"]]}, "bread", "object"),
        ({"haystack_sessions": [[{"role": "narrator", "content": "x"}]]}, "bread", "user or assistant"),
        ({"haystack_sessions": [[{"role": "user", "content": 3}]]}, "bread", "text"),
    ],
)
def test_what_is_malformed_is_refused(changes: dict[str, object], session: str | None, hint: str) -> None:
    (bad,) = each([Value(3, question(**changes))], longmemeval, None)
    assert isinstance(bad, Refused) and (bad.position, bad.session_id) == (3, session)
    assert hint in bad.error.message
