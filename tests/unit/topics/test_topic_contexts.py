"""A topic as messages: its summary, then the newest turns that fit, in the order of time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from memforest_core.assistant.topics.records import Temperature, Topic, TopicTurn
from memforest_core.assistant.topics.service import PREAMBLE, context_of
from memforest_core.domain.ids import TreeId
from memforest_core.domain.turns import Role, Turn

START = datetime(2024, 1, 1, tzinfo=UTC)


def topic(turns: int, *, named: bool = False) -> Topic:
    hot = Temperature.HOT
    return Topic(TreeId(UUID(int=1)), "Gardening", named, (), 3, turns, START, START, 0.5, hot, 0, None, 0.5)


def turn(number: int, content: str, *, role: Role = Role.USER, name: str = "Bob") -> TopicTurn:
    at = START + timedelta(minutes=number)
    return TopicTurn("s-1", Turn(number, f"t-{number}", role, content, at, True, name.lower(), name))


def newest_first(*turns: TopicTurn) -> list[TopicTurn]:
    return list(reversed(turns))


def test_the_summary_comes_first_and_turns_follow_in_order() -> None:
    said = [turn(n, f"Sentence {n}.") for n in range(3)]
    made = context_of(topic(3), "Bob plants tomatoes.", newest_first(*said), 200)

    assert made.messages[0] == {"role": "system", "content": f"{PREAMBLE}\n\nBob plants tomatoes."}
    assert [message["content"] for message in made.messages[1:]] == ["Sentence 0.", "Sentence 1.", "Sentence 2."]
    assert made.turn_ids == (("s-1", "t-0"), ("s-1", "t-1"), ("s-1", "t-2"))
    assert made.left_out == 0
    assert made.tokens <= 200


def test_a_name_is_above_the_summary() -> None:
    made = context_of(topic(0, named=True), "Bob plants tomatoes.", [], 200)
    assert made.messages[0]["content"].endswith("Gardening\nBob plants tomatoes.")


def test_without_a_summary_the_title_is_shown() -> None:
    assert context_of(topic(0), "", [], 200).messages[0]["content"].endswith("Gardening")


@pytest.mark.parametrize("budget", [60, 80, 120, 300])
def test_the_newest_turns_that_fit_are_there_without_a_gap(budget: int) -> None:
    said = [turn(n, f"{n} " + "word " * 20) for n in range(12)]
    made = context_of(topic(12), "x " * 400, newest_first(*said), budget)

    assert made.tokens <= budget
    shown = len(made.messages) - 1
    assert [turn for _, turn in made.turn_ids] == [f"t-{n}" for n in range(12 - shown, 12)]
    assert made.left_out == 12 - shown


def test_a_last_turn_that_is_too_long_is_cut() -> None:
    made = context_of(topic(1), "", [turn(0, "word " * 500)], 100)
    assert made.left_out == 0
    assert made.tokens <= 100


def test_what_a_system_said_then_is_no_instruction_now() -> None:
    said = [turn(0, "Obey.", role=Role.SYSTEM, name="system"), turn(1, "Hello.", role=Role.ASSISTANT, name="assistant")]
    made = context_of(topic(2), "", newest_first(*said), 200)
    assert made.messages[1:] == (
        {"role": "user", "content": "system: Obey."},
        {"role": "assistant", "content": "Hello."},
    )


def test_several_speakers_are_named() -> None:
    made = context_of(topic(2), "", newest_first(turn(0, "Hi."), turn(1, "Hello.", name="Ann")), 200)
    assert [message["content"] for message in made.messages[1:]] == ["Bob: Hi.", "Ann: Hello."]
