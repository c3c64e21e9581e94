"""Which states of a model's items contradict the words that they quote."""

from __future__ import annotations

import pytest

from memforest_core.ingest.extract.answer_checks import contradicted
from memforest_core.ingest.extract.extraction_prompt import Item
from tests.unit.extract.test_offline import cases

CONTRADICTED = """
    I applied to Norvik for a job -> job=Norvik / I have an interview at Norvik on Monday -> job=Norvik
    I almost moved to Denver last year -> residence=Denver / I'd love to live in Rome -> residence=Rome
    maybe I'll get a dog -> pet=dog / if I lived in Oslo I would ski -> residence=Oslo
    I don't work at Acme -> job=Acme / I never lived in Lima -> residence=Lima
    My sister lives in Tampa -> residence=Tampa / my landlord is a dentist -> job=dentist
    my best friend's dad lives in Hull -> residence=Hull / I live in Ghent, just kidding -> residence=Ghent
    I feel like a teenager -> age=teenager / I'm in heaven -> residence=heaven / I moved -> residence=true
    Do I live in Oslo? -> residence=Oslo / Everyone thinks I live in Bern -> residence=Bern / he has a dog -> pet=dog
    the landlord lives in Rome -> residence=Rome / I'm not vegan -> diet=vegan
    I'm not allergic to nuts -> allergy=nuts / I used to be a teacher -> job=teacher
    I sold my bike -> possession=bike / my mom said, I live in Rome -> residence=Rome
    we are looking at a flat in Turku -> residence=Turku
"""
STATED = """
    I live in Boston -> residence=Boston / im a nurse now -> job=nurse
    I might be late, I live in Hull -> residence=Hull
    my sister thinks I'm crazy but I moved to Oslo -> residence=Oslo / I work at Acme, but I want to move -> job=Acme
    I start at Norvik on 9 March -> job=Norvik (planned) / I applied to Norvik -> job=Norvik (planned)
    I don't live in Oslo anymore -> residence=Oslo (stop) / I don't eat pork -> diet=no pork
    I'm not allergic to nuts -> allergy=nuts (negative) / Ich wohne in Berlin -> residence=Berlin
    I used to live in Rome -> residence=Rome (stop)
"""
STANCES = {"planned": "modality", "stop": "change", "negative": "polarity"}


def is_contradicted(quote: str, state: str, subject: str = "Kim") -> bool:
    """``state``: "attribute=value", and in brackets what of a stance is not as usual."""
    attribute, _, value = state.partition("=")
    value, _, stance = value.removesuffix(")").partition(" (")
    item = {"text": "Kim says so.", "turns": [1], "attribute": attribute, "value": value, "subject": subject}
    return contradicted(Item.model_validate(item | ({STANCES[stance]: stance} if stance else {})), quote, "Kim")


@pytest.mark.parametrize(("quote", "state"), cases(CONTRADICTED))
def test_what_a_quote_contradicts_makes_no_state(quote: str, state: str) -> None:
    assert is_contradicted(quote, state)


@pytest.mark.parametrize(("quote", "state"), cases(STATED))
def test_a_state_that_its_quote_says_or_leaves_open_is_accepted(quote: str, state: str) -> None:
    assert not is_contradicted(quote, state)


def test_nothing_contradicts_without_a_quote_or_of_somebody_else() -> None:
    assert not is_contradicted("", "residence=Rome")
    assert not is_contradicted("I said something", "=")
    assert not is_contradicted("My sister lives in Tampa", "residence=Tampa", "Kim's sister")
