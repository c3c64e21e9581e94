"""The evidence of the current state goes first: once a state, and only of whom the question means."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import nullcontext
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from memforest_core.domain.facts import Change, Modality, Origin, Polarity, Statement
from memforest_core.domain.ids import FactId, ForestId, SessionId
from memforest_core.domain.state_order import Mention, StoredState
from memforest_core.domain.text import normalize_name
from memforest_core.domain.times import UNKNOWN_TIME
from memforest_core.recall.question import parse_question
from memforest_core.recall.records import TurnKey
from memforest_core.recall.states import SourceTurn
from memforest_core.recall.temporal import find_states
from memforest_core.store.owners import ForestRef
from tests.unit.recall.memory import FOREST

SESSION = SessionId(UUID(int=9))


def stored(number: int, subject: str, attribute: str, value: str, change: Change = Change.NONE) -> StoredState:
    """A fact that the turn of its number says."""
    statement = Statement(
        text=f"{subject}: {value}",
        time=UNKNOWN_TIME,
        mentioned_at=said_at(number),
        speaker="Ann",
        subject=subject,
        attribute=attribute,
        value=value,
        previous_value="",
        change=change,
        polarity=Polarity.POSITIVE,
        modality=Modality.ASSERTED,
        entities=(),
        scene="",
        origin=Origin.USER,
        verbatim=False,
    )
    return StoredState(fact(number), normalize_name(subject), attribute, statement, (number, 0, 0), said_at(number))


def fact(number: int) -> FactId:
    return FactId(UUID(int=number))


def said_at(number: int) -> datetime:
    return datetime(2024, 5, number, tzinfo=UTC)


class Rows:
    """What a timeline reads, from a list."""

    def __init__(self, *facts: StoredState) -> None:
        self.facts = facts

    def speakers(self, forest: ForestId) -> list[tuple[str, str]]:
        return [("ann", "Ann"), ("ben", "Ben")]

    def of_subjects(
        self, forest: ForestId, subjects: Collection[str], attributes: Collection[str] | None, limit: int
    ) -> list[StoredState]:
        found = [fact for fact in self.facts if fact.subject_key in subjects]
        return [fact for fact in found if attributes is None or fact.attribute in attributes][::-1][:limit]

    def mentions(self, facts: Collection[FactId], until: datetime | None, limit: int) -> list[Mention]:
        return [
            Mention(each.id, SESSION, (each.key[0],), said_at(each.key[0]))
            for each in self.facts
            if each.id in facts and (until is None or said_at(each.key[0]) <= until)
        ]

    def turns(self, keys: Collection[TurnKey], chars: int) -> dict[TurnKey, SourceTurn]:
        return {
            (session, turn): SourceTurn("s1", f"t{turn}", "Ann", said_at(turn), "Ann: ...") for session, turn in keys
        }


def meant(rows: Rows, text: str, as_of: datetime | None = None) -> set[FactId]:
    """The facts of the states that a question is about."""
    forest = ForestRef(id=FOREST, owner="ann", time_zone="UTC")
    reading: Any = partial(nullcontext, rows)
    return set(find_states(reading, forest, parse_question(text), as_of).facts)


def test_names_that_models_give_one_attribute_make_one_chain() -> None:
    rows = Rows(
        stored(1, "Ann", "residence", "Oslo"),
        stored(2, "Ann", "lives_in", "Bergen", Change.SWITCH),
        stored(3, "Ann", "home", "Moss", Change.SWITCH),
    )
    assert meant(rows, "Where does Ann live now?") == {fact(3)}
    assert meant(rows, "Where did Ann live before Moss?") == {fact(2)}


HOMES = Rows(
    stored(1, "Ann", "residence", "Oslo"),
    stored(2, "Ben", "residence", "Rome"),
    stored(3, "Ann's sister", "residence", "Turku"),
    stored(4, "Ann", "residence", "Bergen", Change.SWITCH),
)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Where do I live now?", {4}),
        ("Where does Ann live?", {4}),
        ("Where does Ben live?", {2}),
        ("Where does my sister live?", {3}),
        ("Where does Ann's sister live?", {3}),
        ("Where does my brother live?", set()),
        ("Where does Ben's sister live?", set()),
        ("Where do Ann and Ben live?", {2, 4}),
        ("Where does Zoe live?", set()),
    ],
)
def test_only_whom_the_question_means(question: str, expected: set[int]) -> None:
    assert meant(HOMES, question) == {fact(number) for number in expected}


def test_at_an_earlier_time_the_earlier_state_is_meant() -> None:
    assert meant(HOMES, "Where do I live?", said_at(3)) == {fact(1)}


def test_without_a_current_state_the_one_that_ended_it_is_meant() -> None:
    rows = Rows(stored(1, "Ann", "job", "nurse"), stored(2, "Ann", "job", "", Change.STOP))
    assert meant(rows, "Do I still work as a nurse?") == {fact(2)}


def test_of_several_values_those_that_the_question_names() -> None:
    rows = Rows(
        stored(1, "Ann", "pet", "dog named Rex"),
        stored(2, "Ann", "pet", "cat named Misty"),
        stored(3, "Ann", "pet", "dog Rex", Change.STOP),
    )
    assert meant(rows, "What pets do I have now?") == {fact(2)}
    assert meant(rows, "Do I still have a cat?") == {fact(2)}
    assert meant(rows, "Do I still have a dog?") == {fact(3)}


def test_still_names_a_state_by_its_value_alone() -> None:
    rows = Rows(
        stored(1, "Ann", "job", "Initech"),
        stored(2, "Ann", "activity", "chess"),
        stored(3, "Ann", "job", "Globex", Change.START),
    )
    assert meant(rows, "Am I still at Initech?") == {fact(3)}
    assert meant(rows, "Do I still play chess?") == {fact(2)}
    assert meant(rows, "Am I still awake?") == set()


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Where did I live before Bergen?", {1}),
        ("Where did Ann live before moving to Bergen?", {1}),
        ("Where did I live before?", {1}),
        ("Where did I live before Oslo?", set()),
        ("Where did I live before Narvik?", set()),
        ("Where did Ben live before?", set()),
        ("Did I brush my teeth before dinner?", set()),
    ],
)
def test_before_a_state_the_one_that_it_followed_is_meant(question: str, expected: set[int]) -> None:
    assert meant(HOMES, question) == {fact(number) for number in expected}
