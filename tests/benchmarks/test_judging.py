"""A verdict counts only when the judge gave exactly one, in the required shape."""

from __future__ import annotations

import pytest

from benchmarks.eval.judging import JUDGE, JudgeAnswer, judge, verdict_of
from benchmarks.eval.tables import Verdict
from memforest_core.errors import ContentFault
from tests.harness.chats import AnsweringChat

GOOD = '{"reason": "same day", "verdict": "correct"}'


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        (GOOD, Verdict.CORRECT),
        ('{"verdict": "wrong", "reason": ""}', Verdict.WRONG),
        (f"```json\n{GOOD}\n```", Verdict.CORRECT),
        (f"\n  {GOOD}  \n", Verdict.CORRECT),
    ],
)
def test_one_object_in_the_right_shape_is_a_verdict(text: str, verdict: Verdict) -> None:
    assert verdict_of(text) is verdict


@pytest.mark.parametrize(
    "text",
    [
        "",
        "correct",
        '{"verdict": "correct"}',
        '{"reason": "r", "verdict": "Correct!"}',
        '{"reason": "r", "verdict": true}',
        '{"reason": "r", "verdict": "correct", "score": 1}',
        '{"reason": "r", "verdict": "corr',
        f"{GOOD} {GOOD}",
        f"The answer is right: {GOOD}",
        "[" * 100_000,
    ],
)
def test_anything_else_is_none(text: str) -> None:
    with pytest.raises(ContentFault):
        verdict_of(text)


def test_a_judge_without_a_clear_verdict_gets_one_more_request_that_shows_why() -> None:
    chat = AnsweringChat("I think so", GOOD)
    assert judge(chat, "When?", "May", "in May") is Verdict.CORRECT
    first, second = chat.requests
    assert (first.step, first.schema, first.schema_name) == (JUDGE, JudgeAnswer.model_json_schema(), "verdict")
    assert second.messages[:2] == first.messages
    assert [message.role for message in second.messages] == ["system", "user", "assistant", "user"]
    assert second.messages[2].content == "I think so"
    assert "not one JSON object" in second.messages[3].content
