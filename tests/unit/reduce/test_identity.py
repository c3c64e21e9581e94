"""When two statements are one fact, and when they only sound alike."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from memforest_core.domain.facts import Change, Modality, Polarity, Statement
from memforest_core.domain.times import UNKNOWN_TIME
from memforest_core.ingest.reduce.canonical import identify, identity_span, mergeable
from tests.harness.builders import FOREST, NOON, day, statement

STATE = statement()
EVENT = statement("Bob went to the gym.", attribute="", value="", entities=())
TOMORROW = NOON + timedelta(days=1)


def same(one: Statement, other: Statement) -> bool:
    return identify(FOREST, one) == identify(FOREST, other)


@pytest.mark.parametrize(
    "text", ["Bob lives in Davis", "  bob LIVES in  Davis. ", "“Bob lives in Davis.”", "Bob lives in Davis…"]
)
def test_the_same_words_are_the_same_fact(text: str) -> None:
    assert same(STATE, statement(text))


def test_other_words_are_another_fact() -> None:
    assert not same(STATE, statement("Bob lives in Miami."))
    assert not same(statement("Bob moved to Davis."), STATE)


def test_mondays_gym_is_not_tuesdays() -> None:
    """Given an event without a date, then the day of its mention is its date."""
    assert same(EVENT, replace(EVENT, mentioned_at=NOON + timedelta(hours=11)))
    assert not same(EVENT, replace(EVENT, mentioned_at=TOMORROW))
    assert identity_span(EVENT) == day(2023, 5, 8)


def test_a_state_is_the_same_fact_whenever_it_is_repeated() -> None:
    assert same(STATE, replace(STATE, mentioned_at=NOON + timedelta(days=400)))
    assert identity_span(STATE) == UNKNOWN_TIME


def test_a_move_back_is_a_new_fact() -> None:
    moved = replace(STATE, text="Bob moved to Boston.", change=Change.SWITCH)

    assert not same(moved, replace(moved, mentioned_at=NOON + timedelta(days=900)))


PARAPHRASE = replace(STATE, text="Bob resides in Davis.")


def test_a_paraphrase_may_merge() -> None:
    assert mergeable(STATE, PARAPHRASE)
    assert mergeable(STATE, replace(PARAPHRASE, subject=" bob ", entities=("the Davis",), mentioned_at=TOMORROW))


@pytest.mark.parametrize(
    "other",
    {
        "time": replace(PARAPHRASE, time=day(2023, 5, 1)),
        "polarity": replace(PARAPHRASE, polarity=Polarity.NEGATIVE),
        "modality": replace(PARAPHRASE, modality=Modality.PLANNED),
        "verbatim": replace(PARAPHRASE, verbatim=True),
        "attribute": replace(PARAPHRASE, attribute="workplace"),
        "change": replace(PARAPHRASE, change=Change.START, time=UNKNOWN_TIME),
        "subject": replace(PARAPHRASE, subject="Ann"),
        "value": replace(PARAPHRASE, value="Miami"),
        "speaker": replace(PARAPHRASE, speaker="Ann"),
        "entities": replace(PARAPHRASE, entities=("Davis", "Ann")),
        "numbers": replace(PARAPHRASE, text="Bob resides in 3 Davis Street."),
    }.items(),
    ids=lambda pair: pair[0],
)
def test_nothing_merges_that_differs_in_what_matters(other: tuple[str, Statement]) -> None:
    assert not mergeable(STATE, other[1])
    assert not mergeable(other[1], STATE)


def test_numbers_compare_by_value() -> None:
    assert mergeable(statement("Bob has 3 dogs."), statement("Bob owns three dogs."))
    assert not mergeable(statement("Bob has 3 dogs."), statement("Bob has 4 dogs."))


CALLED = statement("Ana called Ben.", attribute="", value="", subject="Ana", entities=("Ben",))


def test_a_name_that_the_sentence_has_may_be_the_subject_of_the_one_and_an_entity_of_the_other() -> None:
    passive = replace(CALLED, text="Ben was called by Ana.", subject="Ben", entities=())
    assert mergeable(CALLED, passive)
    assert not mergeable(CALLED, replace(passive, subject="Eva"))
    assert not mergeable(replace(CALLED, attribute="call"), replace(passive, attribute="call"))


def test_a_pronoun_is_whom_the_statement_is_about() -> None:
    she = replace(CALLED, text="She bought a car.", entities=())
    assert mergeable(she, replace(she, text="She purchased a car."))
    assert not mergeable(she, replace(she, text="She purchased a car.", subject="Eva"))


def test_what_a_speaker_is_quoted_with_is_what_the_speaker_says() -> None:
    quoted = replace(CALLED, text=f"{CALLED.speaker} said: Ana phoned Ben.", subject=CALLED.speaker)
    assert mergeable(CALLED, quoted)
    assert not mergeable(CALLED, replace(quoted, text="Eva said: Ana phoned Ben."))


def test_synonyms_may_be_values() -> None:
    flat = statement("Bob moved into a big flat.", value="big flat")
    assert mergeable(flat, statement("Bob moved into a large apartment.", value="a large apartment"))
    assert not mergeable(flat, statement("Bob moved into a large apartment.", value="a small apartment"))
