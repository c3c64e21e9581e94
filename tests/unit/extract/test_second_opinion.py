"""Which states of a model's items contradict the words that they quote."""

from __future__ import annotations

import pytest

from memforest_core.domain.facts import Change, Modality, Polarity
from memforest_core.ingest.extract.answer_checks import contradicted
from memforest_core.ingest.extract.extraction_prompt import Item


def item(attribute: str, value: str, subject: str = "Kim", **stance: object) -> Item:
    return Item.model_validate(
        {"text": "Kim says so.", "turns": [1], "attribute": attribute, "value": value, "subject": subject} | stance
    )


@pytest.mark.parametrize(
    ("quote", "state"),
    [
        ("I applied to Norvik for a job", item("job", "Norvik")),
        ("I have an interview at Norvik on Monday", item("job", "Norvik")),
        ("I almost moved to Denver last year", item("residence", "Denver")),
        ("I'd love to live in Rome", item("residence", "Rome")),
        ("maybe I'll get a dog", item("pet", "dog")),
        ("if I lived in Oslo I would ski", item("residence", "Oslo")),
        ("I don't work at Acme", item("job", "Acme")),
        ("I never lived in Lima", item("residence", "Lima")),
        ("My sister lives in Tampa", item("residence", "Tampa")),
        ("my landlord is a dentist", item("job", "dentist")),
        ("my best friend's dad lives in Hull", item("residence", "Hull")),
        ("I live in Ghent, just kidding", item("residence", "Ghent")),
        ("I feel like a teenager", item("age", "teenager")),
        ("I'm in heaven", item("residence", "heaven")),
        ("I moved", item("residence", "true")),
        ("Do I live in Oslo?", item("residence", "Oslo")),
        ("Everyone thinks I live in Bern", item("residence", "Bern")),
        ("he has a dog", item("pet", "dog")),
        ("the landlord lives in Rome", item("residence", "Rome")),
        ("I'm not vegan", item("diet", "vegan")),
        ("I'm not allergic to nuts", item("allergy", "nuts")),
        ("I used to be a teacher", item("job", "teacher")),
        ("I sold my bike", item("possession", "bike")),
        ("my mom said, I live in Rome", item("residence", "Rome")),
        ("we are looking at a flat in Turku", item("residence", "Turku")),
    ],
)
def test_what_a_quote_contradicts_makes_no_state(quote: str, state: Item) -> None:
    assert contradicted(state, quote, "Kim")


@pytest.mark.parametrize(
    ("quote", "state"),
    [
        ("I live in Boston", item("residence", "Boston")),
        ("im a nurse now", item("job", "nurse")),
        ("I might be late, I live in Hull", item("residence", "Hull")),
        ("my sister thinks I'm crazy but I moved to Oslo", item("residence", "Oslo")),
        ("I work at Acme, but I want to move", item("job", "Acme")),
        ("My sister lives in Tampa", item("residence", "Tampa", "Kim's sister")),
        ("I start at Norvik on 9 March", item("job", "Norvik", modality=Modality.PLANNED)),
        ("I applied to Norvik", item("job", "Norvik", modality=Modality.PLANNED)),
        ("I don't live in Oslo anymore", item("residence", "Oslo", change=Change.STOP)),
        ("I don't eat pork", item("diet", "no pork")),
        ("I'm not allergic to nuts", item("allergy", "nuts", polarity=Polarity.NEGATIVE)),
        ("Ich wohne in Berlin", item("residence", "Berlin")),
        ("I used to live in Rome", item("residence", "Rome", change=Change.STOP)),
        ("", item("residence", "Rome")),
        ("I said something", item("", "")),
    ],
)
def test_a_state_that_its_quote_says_or_leaves_open_is_accepted(quote: str, state: Item) -> None:
    assert not contradicted(state, quote, "Kim")
