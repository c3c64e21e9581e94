"""Two speakers are exchanged everywhere alike, so that the same turns hold the answers."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from benchmarks.eval.dataset import Conversation, Question, Session, Turn
from benchmarks.eval.swapping import swapped

STARTED = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
ASKED = Question(
    "q", "What did Ana tell BEN?", "one fact", ("t0",), "that Ana's cat is ill", excerpts={"t0": "Ben, my"}
)


def told(*turns: Turn, asked: Question = ASKED) -> Conversation:
    return Conversation("c", (Session("s", STARTED, turns),), (asked,))


def dialogue() -> Conversation:
    return told(Turn("t0", "Ana", "Ben, my cat is ill.", by_owner=True), Turn("t1", "Ben", "Oh no, dear ana! (Bent.)"))


def test_each_turn_is_the_other_persons_and_names_the_other() -> None:
    """Given two people who name each other, when swapped, then who speaks and who is named are exchanged."""
    (one,) = swapped((dialogue(),))
    assert [(turn.speaker, turn.text) for _, turn in one.turns()] == [
        ("Ben", "Ana, my cat is ill."),
        ("Ana", "Oh no, dear ben! (Bent.)"),
    ]


def test_the_same_turn_still_answers_the_question() -> None:
    """Given a question about one of them, when swapped, then it asks about the other, and its evidence is the same turn."""
    (one,) = swapped((dialogue(),))
    (question,) = one.questions
    assert (question.text, question.answer) == ("What did Ben tell ANA?", "that Ben's cat is ill")
    assert question.gold == ("t0",)
    assert one.evidence(question) == ["Ana, my"]
    assert "Ana, my" in one.sessions[0].turns[0].text


def test_the_owner_goes_on_saying_the_same() -> None:
    """Given an owner, when swapped, then "I" in a question means the turns that it meant before."""
    (one,) = swapped((dialogue(),))
    assert [turn.by_owner for _, turn in one.turns()] == [True, False]


def test_swapping_twice_gives_the_dialogue_back() -> None:
    assert swapped(swapped((dialogue(),))) == (dialogue(),)


def test_a_full_name_is_exchanged_as_a_whole_and_a_given_name_by_itself() -> None:
    asked = Question("q", "Does Ana Ruiz know Ben?", "one fact", ("t0",), "Ana does")
    (one,) = swapped((told(Turn("t0", "Ana Ruiz", "Hi Ben Ode!"), Turn("t1", "Ben Ode", "Ana?"), asked=asked),))
    assert [(turn.speaker, turn.text) for _, turn in one.turns()] == [("Ben Ode", "Hi Ana Ruiz!"), ("Ana Ruiz", "Ben?")]
    assert (one.questions[0].text, one.questions[0].answer) == ("Does Ben Ode know Ana?", "Ben does")


@pytest.mark.parametrize(
    "one",
    [
        told(Turn("t0", "Ana", "Hello."), Turn("t1", "assistant", "Hello, Ana.", role="assistant")),
        told(Turn("t0", "Ana", "Ben?"), Turn("t1", "Ben", "Yes?"), Turn("t2", "Cleo", "Ana?")),
    ],
    ids=["with an assistant", "three people"],
)
def test_what_is_no_dialogue_of_two_people_stays(one: Conversation) -> None:
    assert swapped((one,)) == (one,)
