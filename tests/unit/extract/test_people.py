"""Speakers in a window: what the offline rules, the prompt and the check of an answer make of names and mentions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memforest_core.domain.cells import Window, WindowTurn
from memforest_core.domain.pasted import pasted
from memforest_core.domain.people import People
from memforest_core.ingest.extract.answer_checks import to_candidates
from memforest_core.ingest.extract.extraction_prompt import (
    MAX_PEOPLE,
    ExtractionAnswer,
    Item,
    input_hash,
    render_window,
    shown_people,
)
from memforest_core.ingest.extract.offline.proposing import propose
from memforest_core.ingest.extract.proposer import ModelProposer
from memforest_core.models.calls import ChatRequest
from tests.harness.builders import cells_of, window, window_turn

SPEAKERS = [("111", "gruzilkin"), ("111", "gruz"), ("222", "Florent"), ("5", "Alex"), ("6", "Alex"), ("7", "May")]
PEOPLE = People("u1", SPEAKERS, "Eva")


def among(*turns: WindowTurn, people: People | None = PEOPLE) -> Window:
    return replace(window(*turns), people=people)


def said(text: str, speaker: str = "Florent", number: int = 1) -> WindowTurn:
    return window_turn(number, text, speaker=speaker)


@pytest.mark.parametrize(
    ("text", "fact", "subject"),
    [
        ("gruzilkin is a great cook.", "Gruzilkin is a great cook.", "Gruzilkin"),
        ("gruz moved to Annecy.", "Gruz moved to Annecy.", "Gruz"),
        ("<@111> lives in Annecy.", "Gruzilkin lives in Annecy.", "Gruzilkin"),
        ("@gruz has a dog.", "Gruz has a dog.", "Gruz"),
        ("I live in Lyon.", "Florent lives in Lyon.", "Florent"),
        ("hey gruz, I live in Lyon.", "Florent lives in Lyon.", "Florent"),
    ],
)
def test_a_statement_is_about_whom_it_names(text: str, fact: str, subject: str) -> None:
    [item] = propose(among(said(text))).items

    assert (item.text, item.subject, item.speaker) == (fact, subject, "Florent")
    assert item.quote in text


ADDRESSED = """
    @Florent I am vegetarian -> Eva is vegetarian -> diet vegetarian
    @Jonas Weber I work at Siemens -> Eva works at Siemens -> job Siemens
    <@111> <@222> I'm allergic to peanuts -> Eva is allergic to peanuts -> allergy peanuts
    ＠gruz yesterday I moved to Graz -> Yesterday Eva moved to Graz -> residence Graz
    @⁨Jonas Weber⁩ I live in Oslo -> Eva lives in Oslo -> residence Oslo
    <!here> @all moved to Lisbon last week -> Eva moved to Lisbon last week -> residence Lisbon
    @gruz and @jonas:matrix.org sorry, I'm vegan -> Sorry, Eva is vegan -> diet vegan
    @gruz @Jonas moved to Rome -> Eva moved to Rome -> residence Rome
    @Jonas: moved to Rome -> Eva moved to Rome -> residence Rome
    hey @Jonas I live in Metz -> Eva lives in Metz -> residence Metz
    @Jonas Great news, I moved to Metz -> Great news, Eva moved to Metz -> residence Metz
    gruz I live in Turin -> Eva lives in Turin -> residence Turin
    Florent - I live in Turin -> Eva lives in Turin -> residence Turin
    May I say I live in Turin -> May Eva says Eva lives in Turin ->
    @gruz moved to Oslo -> Gruz moved to Oslo -> residence Oslo
    @gruz thinks I am vegetarian -> Gruz thinks Eva is vegetarian ->
    @gruz, my brother, is a nurse -> Gruz, Eva's brother, is a nurse -> job nurse
    @gruz and I moved to Rome -> Gruz and Eva moved to Rome -> residence Rome
    I met @Florent in Oslo -> Eva met Florent in Oslo ->
    My handle is @tomk and I live in Bonn -> Eva's handle is @tomk and Eva lives in Bonn -> residence Bonn
    Write to a@b.c, I live in Bonn -> Write to a@b.c, Eva lives in Bonn -> residence Bonn
    &gt; I live in Oslo -> Eva sent the text: &gt; I live in Oslo ->
    >I live in Oslo -> Eva sent the text: >I live in Oslo ->
"""


@pytest.mark.parametrize("case", ADDRESSED.strip().splitlines())
def test_those_to_whom_a_sentence_is_said_are_no_part_of_it(case: str) -> None:
    text, fact, state = (part.strip() for part in f"{case} ".split(" -> "))
    [item] = propose(among(replace(said(text, "Eva"), pasted=pasted(text)))).items

    assert (item.text, f"{item.attribute} {item.value}".strip()) == (fact, state)
    assert item.quote == text


def test_a_model_sees_the_people_whom_the_window_names_otherwise() -> None:
    shown = among(said("<@111> and flor cook.", "Eva"), said("Alex is here.", number=2))

    line = "Gruzilkin <@111>, also gruzilkin, also gruz"
    assert shown_people(shown) == [line]
    assert render_window(shown, ["job", "pet"]).splitlines()[-3:] == [
        "People:",
        line,
        "Attributes in use, take one where it fits: job, pet",
    ]


def test_at_most_so_many_people_are_shown() -> None:
    people = People("club", [(str(number), f"member{number}x") for number in range(100)])
    text = " ".join(f"<@{number}>" for number in range(100))

    assert len(shown_people(among(said(text), people=people))) == MAX_PEOPLE


def test_plain_names_need_no_telling_and_people_are_no_part_of_the_key() -> None:
    plain = among(said("Florent lives in Lyon."))
    mentioning = among(said("<@111> is a cook."))

    assert "People:" not in render_window(plain)
    assert input_hash(mentioning, "m") == input_hash(replace(mentioning, people=None), "m")


def candidates_of(shown: Window, **item: object) -> tuple[str, str, str, tuple[str, ...]]:
    text = shown.turns[0].text
    answer = ExtractionAnswer(items=[Item.model_validate({"text": text, "turns": [1], "quote": text} | item)])
    [candidate] = to_candidates(answer, shown, cells_of(shown))
    found = candidate.statement
    return found.text, found.subject, found.speaker, found.entities


@pytest.mark.parametrize(
    ("subject", "found"),
    [
        ("<@111>", "Gruzilkin"),
        ("@gruz", "gruz"),
        ("gruz", "gruz"),
        ("gruzil", "Gruzilkin"),
        ("111", "Gruzilkin"),
        ("flor", "Florent"),
        ("<@5>", "5"),
        ("<@404>", "<@404>"),
        ("Carol", "Carol"),
        ("I", "Florent"),
    ],
)
def test_the_subject_that_a_model_writes_is_the_speaker(subject: str, found: str) -> None:
    shown = among(said("<@111> is a cook."))

    assert candidates_of(shown, subject=subject)[:3] == ("Gruzilkin is a cook.", found, "Florent")


def test_entities_and_the_speaker_are_resolved_too() -> None:
    shown = among(said("<@111> is a cook in Lyon."))

    found = candidates_of(shown, speaker="flor", entities=["<@111>", "gruzil", "Lyon"], subject="<@111>")

    assert found[2:] == ("Florent", ("Gruzilkin", "Lyon"))


def test_the_fixed_part_stays_in_front_when_people_are_shown() -> None:
    heard: list[ChatRequest] = []

    class Chat:
        def model_name(self, step: object) -> str:
            return "m"

        def complete(self, request: ChatRequest) -> object:
            heard.append(request)
            raise InterruptedError

    proposer = ModelProposer(Chat(), 0)  # type: ignore[arg-type]  # what it answers does not matter here
    for shown in (among(said("Florent lives in Lyon.")), among(said("<@111> is a cook."))):
        with pytest.raises(InterruptedError):
            proposer.propose(shown, [])

    plain, telling = (request.messages[0].content for request in heard)
    assert plain == proposer.system
    assert telling.startswith(plain) and "People:" in telling
