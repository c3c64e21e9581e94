"""Reconciling facts: the target's own words first, then nearly the same, else a fact of its own."""

from __future__ import annotations

from uuid import UUID

import pytest

from memforest_core.domain.ids import FactId, ForestId
from memforest_core.ingest.reduce.canonical import identify
from memforest_core.lifecycle.merge.records import StoredFact
from memforest_core.lifecycle.merge.switching import reconcile
from memforest_core.memtree import Key
from tests.harness.builders import statement

TARGET = ForestId(UUID(int=7))
TWIN = FactId(UUID(int=99))


def fact(number: int, text: str, *, superseded: bool = False) -> StoredFact:
    id_ = FactId(UUID(int=number))
    return StoredFact(id_, statement(text), b"", Key(0, 0, 0, id_.hex), 0, 1, False, superseded, None)


DAVIS, OLD = fact(1, "Bob lives in Davis."), fact(3, "Bob lives in Davis.", superseded=True)
OWN = identify(TARGET, DAVIS.statement)[0]


@pytest.mark.parametrize(
    ("mine", "there", "near", "became", "how"),
    [
        (DAVIS, (), {}, OWN, "missing"),
        (DAVIS, (OWN, TWIN), {DAVIS.id: TWIN}, OWN, "exact"),
        (DAVIS, (TWIN,), {DAVIS.id: TWIN}, TWIN, "near"),
        (DAVIS, (), {DAVIS.id: TWIN}, OWN, "missing"),
        (OLD, (TWIN,), {OLD.id: TWIN}, OWN, "missing"),
    ],
)
def test_a_fact_is_the_targets_in_the_same_words_else_a_near_one_that_is_there_else_its_own(
    mine: StoredFact, there: tuple[FactId, ...], near: dict[FactId, FactId], became: FactId, how: str
) -> None:
    found = reconcile([mine], {mine.id: OWN}, frozenset(there), near)
    assert found.facts == {mine.id: became}
    assert [found.exact, found.near] == [frozenset({mine.id} if how == name else ()) for name in ("exact", "near")]
    assert found.missing == ({OWN: mine} if how == "missing" else {})


def test_facts_of_one_text_and_time_become_one() -> None:
    repeated = fact(4, "bob lives in davis")
    own = {each.id: identify(TARGET, each.statement)[0] for each in (DAVIS, repeated)}
    found = reconcile([DAVIS, repeated], own, frozenset(), {})
    assert (set(found.facts.values()), found.missing) == ({OWN}, {OWN: DAVIS})
