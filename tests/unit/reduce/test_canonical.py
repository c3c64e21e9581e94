"""Attaching a batch of candidates to facts: each to exactly one, and history is never rewritten."""

from __future__ import annotations

import math

import numpy as np

from memforest_core.domain.facts import CORRECTED_ITEM, Fact, Polarity, Statement
from memforest_core.domain.ids import FactId
from memforest_core.ingest.reduce.canonical import Known, attach, identify
from memforest_core.ingest.reduce.records import WaitingCandidate
from memforest_core.models.calls import Vectors
from tests.harness.builders import FOREST, candidate, statement

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
