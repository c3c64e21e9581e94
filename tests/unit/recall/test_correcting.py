"""Corrections are followed to the last fact, and never in a circle."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from memforest_core.domain.evidence import with_corrections
from memforest_core.domain.facts import Statement
from memforest_core.domain.ids import FactId, ForestId
from memforest_core.domain.times import UNKNOWN_TIME
from memforest_core.recall.deliver import LONGEST, dated_text, facts_with_successors, last_corrections
from memforest_core.recall.records import FactText
from tests.harness.builders import FOREST, NOON, day


def fact(number: int, by: int | None = None) -> FactText:
    right = None if by is None else FactId(UUID(int=by))
    said = Statement(f"fact {number}", UNKNOWN_TIME, NOON, "Bob", "Bob")
    return FactText(FactId(UUID(int=number)), said, superseded_by=right)


class Facts:
    """Facts by number, each with the one that replaces it."""

    def __init__(self, *facts: FactText) -> None:
        self.facts_by_id = {fact.id: fact for fact in facts}
        self.reads = 0

    def facts(self, forest: ForestId, ids: Sequence[UUID], until: datetime | None = None) -> list[FactText]:
        return [self.facts_by_id[FactId(id_)] for id_ in ids if id_ in self.facts_by_id]

    def one(self, found: list[FactText]) -> list[FactText]:
        self.reads += 1
        return found


def read(rows: Facts, *numbers: int) -> dict[UUID, FactText]:
    found = rows.one(rows.facts(FOREST, [UUID(int=number) for number in numbers]))
    return facts_with_successors(rows, FOREST, found, None)  # type: ignore[arg-type]


def texts(facts: dict[UUID, FactText], *numbers: int) -> list[str]:
    return [fact.statement.text for fact in last_corrections([FactId(UUID(int=number)) for number in numbers], facts)]


def test_the_last_correction_is_read() -> None:
    rows = Facts(fact(1, by=2), fact(2, by=3), fact(3))
    facts = read(rows, 1)
    assert len(facts) == 3
    assert texts(facts, 1) == ["fact 3"]


def test_two_facts_with_the_same_correction_are_read_as_one() -> None:
    facts = read(Facts(fact(1, by=3), fact(2, by=3), fact(3)), 1, 2)
    assert texts(facts, 1, 2, 3) == ["fact 3"]


def test_facts_that_stand_are_read_once() -> None:
    rows = Facts(fact(1), fact(2))
    assert texts(read(rows, 1, 2), 1) == ["fact 1"]
    assert rows.reads == 1


def test_what_is_not_placed_yet_does_not_stand() -> None:
    facts = read(Facts(fact(1, by=9)), 1)
    assert texts(facts, 1, 9) == []


def test_a_circle_ends() -> None:
    rows = Facts(fact(1, by=2), fact(2, by=1))
    assert texts(read(rows, 1), 1) == []
    long = Facts(*(fact(number, by=number + 1) for number in range(3 * LONGEST)))
    assert len(read(long, 0)) == LONGEST


def test_a_corrected_turn_says_both_and_the_day() -> None:
    moved = Statement("Bob moved.", day(2023, 5, 8), NOON, "Bob", "Bob")
    said = dated_text(moved, NOON.tzinfo)  # type: ignore[arg-type]
    assert said == "Bob moved. (Monday 8 May 2023)"
    assert with_corrections("Bob: I moved in June.", [said]) == (
        "Bob: I moved in June. [corrected: Bob moved. (Monday 8 May 2023)]"
    )
    assert with_corrections("Bob: I moved in May.", []) == "Bob: I moved in May."
