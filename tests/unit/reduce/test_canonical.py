"""When two statements are one fact, and attaching a batch of candidates: each to exactly one, and history is never rewritten."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import numpy as np
import pytest

from memforest_core.domain.facts import CORRECTED_ITEM, Change, Fact, Modality, Polarity, Statement
from memforest_core.domain.ids import FactId, ForestId
from memforest_core.domain.times import UNKNOWN_TIME
from memforest_core.ingest.reduce.canonical import Known, attach, identify, identity_span, mergeable
from memforest_core.ingest.reduce.records import WaitingCandidate
from memforest_core.models.calls import Vectors
from tests.harness.builders import FOREST, NOON, candidate, day, statement

THRESHOLD = 0.93


def towards(cosine: float) -> Vectors:
    """A unit vector that has this cosine with the first axis."""
    return np.array([cosine, math.sqrt(1 - cosine * cosine), 0.0], np.float32)


def incoming(said: Statement, cosine: float = 1.0, item: int = 0, cell: int = 1) -> WaitingCandidate:
    return WaitingCandidate(candidate(said, item, cell), towards(cosine), None, cell)


def known(said: Statement, cosine: float = 1.0) -> Known:
    return Known(identify(FOREST, said)[0], said, towards(cosine))


def attached(
    *batch: WaitingCandidate, stored: frozenset[FactId] = frozenset(), near: tuple[Known, ...] = ()
) -> tuple[list[FactId], list[Fact]]:
    return attach(FOREST, batch, stored, near, THRESHOLD)


LIVES = statement("Bob lives in Davis.")
RESIDES = statement("Bob resides in Davis.")
DWELLS = statement("Bob dwells in Davis.")


def test_a_new_candidate_becomes_a_fact_of_its_own() -> None:
    found = attached(incoming(LIVES, item=4, cell=7))

    [fact] = found[1]
    assert found[0] == [fact.id]
    assert (fact.statement, fact.normalized) == (LIVES, "bob lives in davis")
    assert (fact.cell_ordinal, fact.item) == (7, 4)
    assert fact.id == identify(FOREST, LIVES)[0]


def test_exact_duplicates_in_a_batch_are_one_fact_at_its_first_place() -> None:
    found = attached(incoming(LIVES, item=0, cell=1), incoming(statement("BOB lives in Davis"), item=3, cell=2))

    assert len(found[1]) == 1
    assert found[0] == [found[1][0].id] * 2
    assert found[1][0].statement is LIVES
    assert found[1][0].cell_ordinal == 1


def test_a_near_duplicate_joins_the_stored_fact() -> None:
    twin = known(LIVES)

    assert attached(incoming(RESIDES, 0.94), near=(twin,)) == ([twin.id], [])


def test_near_duplicates_in_a_batch_join_the_first() -> None:
    found = attached(incoming(LIVES), incoming(RESIDES, 0.95), incoming(DWELLS, 0.94))

    assert [fact.statement for fact in found[1]] == [LIVES]
    assert found[0] == [found[1][0].id] * 3


def test_below_the_threshold_facts_stay_separate() -> None:
    """Knowledge updates sound alike too: the artifact measured 0.67 to 0.79 for them."""
    found = attached(incoming(RESIDES, 0.92), near=(known(LIVES),))

    assert [fact.statement for fact in found[1]] == [RESIDES]


def test_the_closest_that_may_merge_is_taken() -> None:
    """Given a closer fact that denies it, and two that say it, then the closer of the two gets the occurrence."""
    denial = known(statement("Bob doesn't live in Davis.", polarity=Polarity.NEGATIVE), 1.0)
    second, third = known(RESIDES, 0.99), known(DWELLS, 0.96)

    assert attached(incoming(LIVES), near=(denial, third, second))[0] == [second.id]


def test_an_exact_duplicate_goes_before_a_near_one() -> None:
    stored = identify(FOREST, RESIDES)[0]

    assert attached(incoming(RESIDES), stored=frozenset({stored}), near=(known(LIVES),))[0] == [stored]


def test_a_correction_is_no_duplicate_of_what_it_corrects() -> None:
    near = (known(LIVES, 1.0),)
    exact = identify(FOREST, RESIDES)[0]
    assert attach(FOREST, [incoming(RESIDES)], frozenset(), near, THRESHOLD)[0] == [near[0].id]
    corrected = incoming(RESIDES, item=CORRECTED_ITEM)
    assert attach(FOREST, [corrected], frozenset(), near, THRESHOLD)[0] == [exact]


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


def test_other_words_or_another_forest_are_another_fact() -> None:
    assert not same(STATE, statement("Bob lives in Miami."))
    assert not same(statement("Bob moved to Davis."), STATE)
    assert identify(FOREST, STATE)[0] != identify(ForestId(UUID(int=2)), STATE)[0]


def test_mondays_gym_is_not_tuesdays() -> None:
    """Given an event without a date, then the day of its mention is its date; a date that was resolved stays its own."""
    assert same(EVENT, replace(EVENT, mentioned_at=NOON + timedelta(hours=11)))
    assert not same(EVENT, replace(EVENT, mentioned_at=TOMORROW))
    assert identity_span(EVENT) == day(2023, 5, 8)
    dated = replace(EVENT, time=day(2023, 5, 1))
    assert same(dated, replace(dated, mentioned_at=TOMORROW))
    assert not same(dated, replace(dated, time=day(2023, 5, 2)))


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
