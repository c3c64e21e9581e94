"""Denials, plans and corrections as the profile, the timeline and the facts have them, without a model."""

from __future__ import annotations

from memforest_core.domain.facts import Polarity
from tests.harness.stack import Stack

SAID = "2025-03-03T10:0{}:00Z"
GIVEN = {
    "hater": ("I hate fish.", "I can't stand Mondays.", "I don't eat pork.", "I'm not allergic to nuts."),
    "ex": ("I am vegetarian.", "I'm not vegetarian anymore."),
    "mover": ("I live in Boston.", "Sorry, I meant Denver, not Boston."),
    "planner": ("I work at Harbeck.", "I start at Norvik on 9 March."),
    "waverer": ("I'm moving to Lund on 9 March.", "The move is off."),
    "mother": ("My ex-wife lives in Tampa.", "My step-son lives in Rome.", "My client is vegetarian."),
    "joker": ("I almost moved to Denver.", "I pretend to work at Google.", "I doubt I'm allergic to cats."),
}


def tell(running: Stack) -> None:
    for owner, texts in GIVEN.items():
        turns = [
            {"id": f"t{at}", "role": "user", "content": text, "timestamp": SAID.format(at)}
            for at, text in enumerate(texts)
        ]
        running.memory.client.enqueue(owner, "s1", turns, display_name="Kim")


def test_dislikes_and_denials_are_in_the_profile_as_such(grown_once: Stack) -> None:
    known = grown_once.memory.profile("hater")
    assert {state.polarity for state in known.states} == {Polarity.NEGATIVE}
    assert [(state.attribute, state.value) for state in known.states] == [
        ("preference", "fish"), ("preference", "Mondays"), ("diet", "pork"), ("allergy", "nuts")
    ]  # fmt: skip
    for line in ("Kim hates fish", "Kim can't stand Mondays", "Kim doesn't eat pork", "Kim is not allergic to nuts"):
        assert line in known.text


def test_what_ended_is_two_facts_and_not_in_the_profile(grown_once: Stack) -> None:
    assert len(grown_once.memory.facts("ex").items) == 2
    assert "vegetarian" not in grown_once.memory.profile("ex").text


def test_a_correction_without_a_verb_is_the_value_that_counts(grown_once: Stack) -> None:
    assert [(state.attribute, state.value) for state in grown_once.memory.profile("mover").states] == [
        ("residence", "Denver")
    ]


def test_a_plan_that_came_true_says_so_and_one_taken_back_is_none(grown_once: Stack) -> None:
    (norvik,) = grown_once.memory.profile("planner").states
    assert (norvik.value, norvik.planned) == ("Norvik", True)
    assert "as planned" in grown_once.memory.profile("planner").text
    before = grown_once.memory.timeline("planner", attribute="job", as_of="2025-03-05")
    assert [(state.value, state.current) for state in before.states] == [("Harbeck", True), ("Norvik", False)]
    assert grown_once.memory.profile("waverer").states == ()


def test_other_peoples_states_and_jokes_are_not_the_speakers(grown_once: Stack) -> None:
    assert grown_once.memory.profile("mother").states == ()
    everybody = grown_once.memory.timeline("mother", entity="*").states
    assert {(state.subject, state.value) for state in everybody} == {
        ("Kim's ex-wife", "Tampa"), ("Kim's step-son", "Rome"), ("Kim's client", "vegetarian")
    }  # fmt: skip
    assert grown_once.memory.profile("joker").states == ()
