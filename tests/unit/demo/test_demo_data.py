"""The demo's data is fit to be ingested, and its questions can be answered from it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from memforest_core.cli.demo_data import DemoQuestion, load_conversation, load_expected, load_questions
from memforest_core.domain.turns import SessionFrame, TurnLimits, checked_messages, parse_turns

TURN_FIELDS = {"id", "role", "content", "timestamp", "speaker_id", "name"}
SPEAKERS = {("user", "bob", "Bob"), ("assistant", "assistant", "Assistant"), ("user", "maya", "Maya")}


def all_turns() -> list[Mapping[str, str]]:
    return [turn for session in load_conversation() for turn in session.turns]


def moments(turns: tuple[Mapping[str, str], ...]) -> list[datetime]:
    return [datetime.fromisoformat(turn["timestamp"]) for turn in turns]


def question(*, expect: tuple[str, ...] = ("Davis",), within: int = 2) -> DemoQuestion:
    return DemoQuestion("Where?", expect, within, "because")


def test_the_story_is_long_enough_to_need_a_memory() -> None:
    sessions = load_conversation()

    assert len(sessions) >= 8
    assert len(all_turns()) >= 90
    assert {session.owner for session in sessions} == {"bob"}
    assert moments(sessions[-1].turns)[-1] - moments(sessions[0].turns)[0] > timedelta(days=700)


def test_every_turn_is_complete_and_said_by_someone_known() -> None:
    for turn in all_turns():
        assert set(turn) == TURN_FIELDS
        assert (turn["role"], turn["speaker_id"], turn["name"]) in SPEAKERS
        assert 0 < len(turn["content"].strip()) == len(turn["content"]) <= 2_000


def test_exactly_one_session_has_a_second_human_speaker() -> None:
    people = [
        {turn["speaker_id"] for turn in session.turns if turn["role"] == "user"} for session in load_conversation()
    ]

    assert sum(who == {"bob", "maya"} for who in people) == 1
    assert sum(who == {"bob"} for who in people) == len(people) - 1


def test_time_only_goes_forward_within_and_across_sessions() -> None:
    story = [moment for session in load_conversation() for moment in moments(session.turns)]

    assert all(moment.tzinfo is not None for moment in story)
    assert all(earlier < later for earlier, later in pairwise(story))


def test_a_session_is_one_sitting() -> None:
    for session in load_conversation():
        spoken = moments(session.turns)
        assert spoken[-1] - spoken[0] < timedelta(hours=1)


def test_ids_are_unique() -> None:
    sessions = [session.session_id for session in load_conversation()]
    turns = [turn["id"] for turn in all_turns()]

    assert len(set(sessions)) == len(sessions)
    assert len(set(turns)) == len(turns)


def test_no_two_turns_say_the_same() -> None:
    contents = [turn["content"] for turn in all_turns()]

    assert len(set(contents)) == len(contents)


def test_the_door_accepts_every_session_unchanged() -> None:
    zone = ZoneInfo("UTC")
    for session in load_conversation():
        frame = SessionFrame(session.owner, zone, moments(session.turns)[0])

        accepted = parse_turns(checked_messages(session.turns), frame, TurnLimits())

        assert [turn.content for turn in accepted] == [turn["content"] for turn in session.turns]
        assert all(turn.dated for turn in accepted)


@pytest.mark.parametrize("place", ["Boston", "Davis", "Miami"])
def test_each_residence_is_named_in_one_turn_of_bob_alone(place: str) -> None:
    naming = [turn for turn in all_turns() if place.casefold() in turn["content"].casefold()]

    assert [turn["speaker_id"] for turn in naming] == ["bob"]


def test_bob_says_where_he_lives_in_the_order_boston_davis_miami() -> None:
    said_at = [
        next(i for i, turn in enumerate(all_turns()) if place in turn["content"])
        for place in ("Boston", "Davis", "Miami")
    ]

    assert said_at == sorted(said_at)


def test_moves_of_others_stand_between_those_of_bob() -> None:
    contents = [turn["content"] for turn in all_turns()]
    davis = next(i for i, content in enumerate(contents) if "Davis" in content)
    miami = next(i for i, content in enumerate(contents) if "Miami" in content)
    between = contents[davis + 1 : miami]

    assert any("moving to Denver" in content for content in between)
    assert any("moved to Seattle" in content for content in between)


def test_the_residence_questions_come_first_and_are_strict() -> None:
    first = load_questions()[:3]

    assert [(requested.question, requested.expect, requested.within) for requested in first] == [
        ("Where did Bob live before moving to Miami?", ("Davis",), 1),
        ("Where does Bob live now?", ("Miami",), 3),
        ("Where did Bob live before Davis?", ("Boston",), 3),
    ]


def test_there_are_enough_questions_and_none_is_repeated() -> None:
    questions = load_questions()

    assert len(questions) >= 10
    assert len({requested.question for requested in questions}) == len(questions)
    assert all(requested.within >= 1 and requested.why for requested in questions)


@pytest.mark.parametrize("requested", load_questions(), ids=lambda requested: requested.question)
def test_every_expected_answer_is_said_by_a_person(requested: DemoQuestion) -> None:
    said = [turn["content"] for turn in all_turns() if turn["role"] == "user"]

    assert requested.expect
    for wanted in requested.expect:
        assert any(wanted in content for content in said), wanted


@pytest.mark.parametrize("line", load_expected()["states"])
def test_every_expected_state_is_said_by_a_person(line: str) -> None:
    said = " ".join(turn["content"].casefold() for turn in all_turns() if turn["role"] == "user")
    sessions = {session.session_id for session in load_conversation()}
    when, subject, state, mark = line.split(" | ")
    value = state.partition(": ")[2].removeprefix("not ")

    assert when in sessions or when.rpartition(" ")[2] in {"2023", "2024", "2025"}
    assert subject in {"Bob", "Maya"}
    assert value.casefold() in said
    assert mark.removeprefix("ended by ").casefold() in said or mark in {
        "current",
        "current, planned",
        "planned",
        "stop",
    }


def test_an_answer_counts_only_among_the_first_texts() -> None:
    requested = question(within=2)

    assert requested.answered_by(["Miami it is", "So I live in davis now"])
    assert not requested.answered_by(["Miami it is", "Boston it was", "So I live in Davis now"])


def test_any_one_of_the_alternatives_is_enough() -> None:
    requested = question(expect=("Davis", "Yolo County"))

    assert requested.answered_by(["somewhere in Yolo County"])
    assert not requested.answered_by([])
