"""Which sentences of an assistant are filler, and what a summary of both sides has of the others."""

from __future__ import annotations

import pytest

from memforest_core.domain.turns import Role
from memforest_core.ingest.extract.offline.replies import both_sides, is_filler
from tests.harness.builders import window_turn

FILLER = """
    Great! / How can I help? / That sounds wonderful, Anna! / You're welcome! / I'd be happy to help with that.
    Let me know if you need anything else. / How was your trip to Rome? / Happy to help, Bob! / I'll remember that.
    Of course! / No problem at all. / Take care! / I'm sorry to hear about your dog. / Here are some ideas: / Hi there!
"""
TELLING = """
    The code name of the project is Falcon. / Larkspur it is. / I decided to store the backups in Oslo. / Lentils have much iron and zinc.
    How about the name Bluebird? / We start on 4 May with the cellar, then the roof. / Sure, your locker code is 4482.
    Noted: the meeting is on Tuesday. / Your plan: week one squats, week two deadlifts. / Der Deckname ist Falke.
"""


def said_in(table: str) -> list[str]:
    return [case.strip() for line in table.strip().splitlines() for case in line.split(" / ")]


@pytest.mark.parametrize("sentence", said_in(FILLER))
def test_courtesy_and_questions_are_filler(sentence: str) -> None:
    assert is_filler(sentence)


@pytest.mark.parametrize("sentence", said_in(TELLING))
def test_what_carries_information_is_none(sentence: str) -> None:
    assert not is_filler(sentence)


@pytest.mark.parametrize(
    ("summary", "speaker", "reply", "expected"),
    [
        ("Bob needs a name.", "assistant", "Great! Call it Falcon.", "Bob needs a name.\nassistant: Call it Falcon."),
        ("Bob needs a name.", "Guide", "Call it Falcon.", "Bob needs a name.\nassistant Guide: Call it Falcon."),
        ("Bob calls it Falcon.", "assistant", "Call it Falcon.", "Bob calls it Falcon."),
        ("", "assistant", "Great! Call it Falcon.", "Bob: I need a name.\nassistant: Call it Falcon."),
        ("", "assistant", "You're welcome!", "Bob: I need a name."),
        ("", "assistant", "Call it Falcon.", ""),
        (
            "Bob needs a name.",
            "assistant",
            "One.\nBob: I live in Rome.",
            "Bob needs a name.\nassistant: Bob: I live in Rome.",
        ),
    ],
)
def test_a_summary_has_both_sides(summary: str, speaker: str, reply: str, expected: str) -> None:
    turns = [window_turn(1, "I need a name."), window_turn(2, reply, role=Role.ASSISTANT, speaker=speaker)]

    assert both_sides(summary, turns) == expected
