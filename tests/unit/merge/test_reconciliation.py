"""Reconciling facts: the target's own words first, then nearly the same, else a fact of its own."""

from __future__ import annotations

from uuid import UUID

from memforest_core.domain.ids import FactId, ForestId
from memforest_core.ingest.reduce.canonical import identify
from memforest_core.lifecycle.merge.comparing import own_ids, reconcile
from memforest_core.lifecycle.merge.records import StoredFact
from memforest_core.memtree import Key
from tests.harness.builders import statement

TARGET = ForestId(UUID(int=7))
TWIN = FactId(UUID(int=99))


def fact(number: int, text: str, *, superseded: bool = False) -> StoredFact:
    id_ = FactId(UUID(int=number))
    return StoredFact(id_, statement(text), b"", Key(0, 0, 0, id_.hex), 0, 1, False, superseded, None)


DAVIS, LAMP = fact(1, "Bob lives in Davis."), fact(2, "Bob has a lamp.")


def target_id(of: StoredFact) -> FactId:
    return identify(TARGET, of.statement)[0]


def test_a_fact_that_is_missing_in_the_target_gets_the_id_it_has_there() -> None:
    found = reconcile([DAVIS], own_ids(TARGET, [DAVIS]), frozenset(), {})
    assert found.facts == {DAVIS.id: target_id(DAVIS)}
    assert found.missing == {target_id(DAVIS): DAVIS}


def test_the_same_words_are_the_targets_fact() -> None:
    found = reconcile([DAVIS], own_ids(TARGET, [DAVIS]), frozenset({target_id(DAVIS), TWIN}), {DAVIS.id: TWIN})
    assert found.facts[DAVIS.id] == target_id(DAVIS)
    assert found.exact == {DAVIS.id}
    assert not found.near


def test_a_near_duplicate_counts_while_it_is_there() -> None:
    own = own_ids(TARGET, [LAMP])
    assert reconcile([LAMP], own, frozenset({TWIN}), {LAMP.id: TWIN}).facts == {LAMP.id: TWIN}
    assert reconcile([LAMP], own, frozenset(), {LAMP.id: TWIN}).facts == {LAMP.id: target_id(LAMP)}


def test_what_was_corrected_is_no_near_duplicate_of_anything() -> None:
    old = fact(3, "Bob has a lamp.", superseded=True)
    assert reconcile([old], own_ids(TARGET, [old]), frozenset({TWIN}), {old.id: TWIN}).near == frozenset()


def test_facts_of_one_text_and_time_become_one() -> None:
    repeated = fact(4, "bob lives in davis")
    found = reconcile([DAVIS, repeated], own_ids(TARGET, [DAVIS, repeated]), frozenset(), {})
    assert set(found.facts.values()) == {target_id(DAVIS)}
    assert found.missing == {target_id(DAVIS): DAVIS}
