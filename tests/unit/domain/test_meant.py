"""Jokes, wishes, what nearly came true and other people's lives are distinguished from the speaker's own state."""

from __future__ import annotations

import pytest

from memforest_core.domain.facts import Modality, Statement
from memforest_core.domain.state_order import is_only_question, joking, meant, not_so, planned
from memforest_core.domain.text import terms
from memforest_core.domain.times import EARLIEST, UNKNOWN_TIME
from tests.harness.tables import cases


def said(text: str, subject: str = "Ann", attribute: str = "", modality: Modality = Modality.ASSERTED) -> Statement:
    return Statement(text, UNKNOWN_TIME, EARLIEST, "Ann", subject, attribute=attribute, modality=modality)


@pytest.mark.parametrize(
    "text",
    [
        "kidding, i live in a cupboard",
        "I live in a cupboard, just joking",
        "jk I work for NASA now",
        "Nur Spaß, ich wohne in einem Schrank",
        "Vivo en la luna, es en broma",
    ],
)
def test_a_joke_says_that_it_is_one(text: str) -> None:
    assert joking(text)
    assert not_so(text)


@pytest.mark.parametrize(
    "text",
    ["No kidding, I live in Malaga now.", "I'm not joking, I moved.", "You're kidding!", "JK Rowling lives here."],
)
def test_who_denies_to_joke_does_not_joke(text: str) -> None:
    assert not joking(text)


def test_laughter_is_perhaps_a_joke() -> None:
    assert not joking("i live in leeds now lol")
    assert joking("i live in leeds now lol", perhaps=True)
    assert joking("i live in leeds now 😂", perhaps=True)
    assert not joking("i live in leeds now", perhaps=True)


@pytest.mark.parametrize(
    "text",
    cases("""
Ann almost moved to London last year. | Ann refuses to live in London.
Ann told Ann's boss Ann lives in Antwerp, but that's a lie. | Ann wishes Ann had a horse.
Imagine: Ann lives in Tokyo. | Ann dreams of a house in Porto. | It's not true that Ann lives in Rome.
Ann doubts Ann is allergic to cats.
"""),
)
def test_what_only_nearly_came_true_is_not_so(text: str) -> None:
    assert not_so(text)
    assert not meant(said(text), (), now=False)


@pytest.mark.parametrize(
    "text", ["Ann has lived in Leeds for almost ten years.", "No doubt Ann lives in Rome.", "Ann moved to Porto."]
)
def test_what_is_so_is_so(text: str) -> None:
    assert not not_so(text)
    assert meant(said(text), (), now=True)


def test_a_supposition_is_not_meant_whatever_its_words() -> None:
    assert not meant(said("Ann lives in Tokyo.", modality=Modality.HYPOTHETICAL), (), now=False)
    assert meant(said("Ann moves to Tokyo in May.", modality=Modality.PLANNED), (), now=True)


def test_how_it_was_once_is_not_how_it_is_now() -> None:
    former = said("Ann lived in Gdansk.", attribute="former residence")
    for once in (former, said("Ann used to live in Gdansk."), said("Back when Ann lived in Gdansk the sea was near.")):
        assert not meant(once, (), now=True)
        assert meant(once, (), now=False)


def test_of_relatives_only_those_whom_the_question_names() -> None:
    brother = said("Ann's brother lives in Doha now.", subject="Ann's brother")
    assert not meant(brother, terms("Where do I live now?"), now=True)
    assert meant(brother, terms("Where does my brother live now?"), now=True)


@pytest.mark.parametrize(
    "text",
    cases("""
Have you got the keys? | does nilo go there | so where is the boat now | did she like it 😂 | 住在哪里？
"""),
)
def test_a_question_alone_has_its_mark_or_not(text: str) -> None:
    assert is_only_question(text)


@pytest.mark.parametrize(
    "text", cases("What a day! | I moved to Brno. You? | did 5k today | how a boat smells, i know it now | was great")
)
def test_a_turn_that_states_something_is_no_question_alone(text: str) -> None:
    assert not is_only_question(text)


def test_a_plan_says_so() -> None:
    assert all(map(planned, ("Signed us up for a race in Brno.", "we'll sail to Oslo", "she wants to learn the harp")))
    assert not any(map(planned, ("The race in Brno was cold.", "we sailed to Oslo", "she learnt the harp in May")))
