"""How statements of one subject and attribute become states that end each other."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, cast
from uuid import UUID

import pytest

from memforest_core.domain.chain import ChainState, states_of
from memforest_core.domain.facts import Change, Modality, Polarity, Statement
from memforest_core.domain.ids import FactId, SessionId
from memforest_core.domain.state_names import SINGLE_VALUED, canonical, single_valued, spellings
from memforest_core.domain.state_order import Mention, Role, Said, StoredState, placed
from memforest_core.domain.times import UNKNOWN_TIME, Precision, TimeSpan, micros
from tests.harness.tables import cases

START = datetime(2022, 1, 1, tzinfo=UTC)
_IDS = count(1)


def day(number: int) -> datetime:
    return START + timedelta(days=number)


def on(number: int) -> TimeSpan:
    return TimeSpan(day(number), day(number + 1), Precision.DAY)


def said(
    value: str, *days: int, attribute: str = "residence", time: TimeSpan = UNKNOWN_TIME, **stance: object
) -> list[Said]:
    """A fact said on these days, at its positions in its chain."""
    text = stance.pop("text", f"Ann: {attribute} {value}")
    statement = Statement(str(text), time, day(days[0]), "Ann", "Ann", attribute, value, **cast(Any, stance))
    number = next(_IDS)
    key = (micros(time.start or day(days[0])), 0, 0)
    fact = StoredState(FactId(UUID(int=number)), "ann", attribute, statement, key, day(days[0]))
    return placed(fact, [Mention(fact.id, SessionId(UUID(int=9)), (each,), day(each)) for each in days])


def chain(*parts: list[Said], attribute: str = "residence") -> list[ChainState]:
    return states_of(attribute, [each for part in parts for each in part])


def reported(states: list[ChainState]) -> list[tuple[str, bool]]:
    return [(state.statement.value, state.current) for state in states]


_SAYING = re.compile(r"(?:(stop|switch|correct)(?: |(?=@)))?(.*?)(?: < (.*?))? ?@([\d,]+)(?: for (\d+))?")


def chained(table: str, attribute: str) -> str:
    """The states of a chain in order, with a star the current ones, of what was said: how it changes what, its value,
    the value before, the days on which it was said, and the day that it happened on."""
    parts = []
    for each in table.split("; "):
        found = _SAYING.fullmatch(each)
        assert found is not None, each
        change, value, previous, days, begins = found.groups("")
        stance = {"change": Change(change or "none"), "previous_value": previous, "attribute": attribute}
        time = on(int(begins)) if begins else UNKNOWN_TIME
        parts.append(said(value, *map(int, days.split(",")), time=time, **stance))
    return ", ".join(f"{state.statement.value}{'*' * state.current}" for state in chain(*parts, attribute=attribute))


@pytest.mark.parametrize(
    ("attribute", "table", "states"),
    cases("""
residence => Davis @20; Boston @10 => Boston, Davis*
residence => switch Miami @30; switch Davis @40 for 10 => Davis, Miami*
residence => Boston @10,30; Davis @20 => Boston, Davis, Boston*
weight => 70 kg @0; 70.5 kg @1; 70.5 KG @2; 70 kg @3 => 70 kg, 70.5 kg, 70 kg*
residence => Davis @10; stop Boston @20 => Davis*, Boston
job => nurse @10; stop@20; nurse @30 => nurse, , nurse*
pet => cat named Misty @1; dog named Bruno @2; cat named Misty @3 => cat named Misty*, dog named Bruno*
hobby => tennis @0; chess @1; switch squash < tennis @5 => tennis, chess*, squash*
hobby => tennis @0; chess @1; switch squash @5 => tennis*, chess*, squash*
allergy => peanuts @1; pollen @1; correct walnuts < peanuts @2 => peanuts, pollen*, walnuts*
residence => switch Boston @50 for 40; correct Austin < Boston @60 for 30 => Austin*, Boston
residence => switch Davis @50 for 10; correct Davis @60 for 20 => Davis, Davis*
relationship => married to Ben @1; stop divorced @2 => married to Ben, divorced*
possession => A+ @1; A- @2 => A+*, A-* | possession => C @1; C++ @2 => C*, C++*
possession => C++ @1; C# @2 => C++*, C#* | possession => -5 @1; 5 @2 => -5*, 5*
"""),
)
def test_statements_become_states_that_end_each_other(attribute: str, table: str, states: str) -> None:
    assert chained(table, attribute) == states


def test_another_value_ends_the_one_before() -> None:
    boston, davis = chain(said("Davis", 20), said("Boston", 10))
    assert reported([boston, davis]) == [("Boston", False), ("Davis", True)]
    assert boston.superseded_by == davis.id
    assert davis.supersedes == [boston.id]


def test_the_same_value_said_again_is_one_state() -> None:
    (state,) = chain(said("Davis", 10, 12), said("Davis, California", 20), said("davis", 30, change=Change.SWITCH))
    assert len(state.mentions) == 4
    assert len({each.fact.id for each in state.said}) == 3
    assert state.current


@pytest.mark.parametrize("stance", [{"change": Change.STOP}, {"change": Change.STOP, "polarity": Polarity.NEGATIVE}])
def test_a_stop_ends_what_it_names_and_is_no_state_itself(stance: dict[str, Any]) -> None:
    boston, stop = chain(said("Boston", 10), said("Boston", 20, **stance))
    assert (boston.current, boston.superseded_by) == (False, stop.id)
    assert (stop.role, stop.current) == (Role.ENDS, False)


def test_leaving_an_employer_ends_the_job_whose_sentence_names_it() -> None:
    """Given "a data analyst at Norvik Freight", when Norvik is left, then that is over; leaving another is not."""
    analyst = said("data analyst", 10, attribute="job", text="Ann is a data analyst at Norvik Freight.")

    for left, still in (("Norvik", False), ("Acme", True)):
        states = chain(analyst, said(left, 20, attribute="job", change=Change.STOP), attribute="job")
        assert reported(states)[0] == ("data analyst", still)


def test_a_stop_without_a_value_ends_the_current_state() -> None:
    nurse, stop = chain(said("nurse", 10, attribute="job"), said("", 20, attribute="job", change=Change.STOP))
    assert nurse.superseded_by == stop.id


@pytest.mark.parametrize(
    "stance",
    [
        {"modality": Modality.PLANNED},
        {"modality": Modality.HEARSAY},
        {"modality": Modality.HYPOTHETICAL},
        {"polarity": Polarity.NEGATIVE},
        {"modality": Modality.PLANNED, "change": Change.STOP},
    ],
)
def test_what_is_planned_heard_of_supposed_or_denied_changes_nothing(stance: dict[str, Any]) -> None:
    states = chain(said("Davis", 10), said("Oslo", 20, **stance), said("Oslo", 25, **stance), said("Davis", 30))
    assert reported(states) == [("Davis", True), ("Oslo", False)]
    assert states[1].superseded_by is None
    assert [len(state.mentions) for state in states] == [2, 2]


def test_a_plan_that_came_true_stays_in_addition_to_the_deed() -> None:
    states = chain(said("Oslo", 10, modality=Modality.PLANNED), said("Oslo", 20, change=Change.SWITCH))
    assert [(state.role, state.current) for state in states] == [(Role.MARKED, False), (Role.SETS, True)]


def pet(value: str, at: int, **stance: Any) -> list[Said]:
    return said(value, at, attribute="pet", **stance)


@pytest.mark.parametrize(
    "stopped, left",
    [
        ("dog Bruno", ["cat named Misty", "dog named Rex"]),
        ("Misty", ["dog named Bruno", "dog named Rex"]),
        ("dog", ["cat named Misty", "dog named Bruno"]),  # nameless: the latest that fits
        ("dog Otto", ["cat named Misty", "dog named Bruno", "dog named Rex"]),
        ("", ["cat named Misty", "dog named Bruno", "dog named Rex"]),
    ],
)
def test_a_stop_ends_the_one_of_several_that_it_names(stopped: str, left: list[str]) -> None:
    pets = (pet("cat named Misty", 1), pet("dog named Bruno", 2), pet("dog named Rex", 3))
    states = chain(*pets, pet(stopped, 9, change=Change.STOP), attribute="pet")
    assert [state.statement.value for state in states if state.current] == left


def test_what_sets_no_attribute_is_an_event_and_never_current() -> None:
    states = chain(said("", 1, attribute=""), said("", 2, attribute=""), attribute="")
    assert [(state.role, state.current, state.superseded_by) for state in states] == [(Role.EVENT, False, None)] * 2


def test_what_was_not_said_yet_has_no_place() -> None:
    (one,) = said("Davis", 10)
    assert placed(one.fact, []) == []


@pytest.mark.parametrize(
    "attribute, single",
    [
        *((name, True) for name in ("residence", "Home", "job", "occupation", "age", "weight", "blood pressure")),
        *((name, True) for name in ("favourite dish", "favorite film", "marathon time", "status", "wife", "diet")),
        *((name, False) for name in ("pet", "pet name", "hobby", "possession", "preference", "allergy", "sister")),
        *((name, False) for name in ("former residence", "activity", "language", "something new")),
    ],
)
def test_which_attributes_hold_one_value(attribute: str, single: bool) -> None:
    assert single_valued(attribute) is single


def test_an_attribute_is_found_under_all_its_names() -> None:
    assert canonical("Occupation") == canonical("job") == "job"
    assert {"job", "occupation", "profession"} <= spellings("JOB")
    assert canonical("favourite dish") == canonical("favorite dish")
    assert "shoe size" in spellings(" Shoe  size ")


@pytest.mark.parametrize(
    ("given", "known"),
    cases("""
home => residence | lives_in => residence | Current City => residence | vehicle => car | drives => car
occupation => job | workplace => employer | smart-phone => smart phone | Hair Colour => hair color
medication/dosage => medication dose | tea of choice => tea of choice
"""),
)
def test_a_models_attribute_is_the_known_one(given: str, known: str) -> None:
    assert canonical(given) == known


@pytest.mark.parametrize("given", ["home", "lives_in", "current_city", "current city", "place-of-residence"])
def test_every_way_to_write_it_is_looked_for(given: str) -> None:
    assert given in spellings("residence")


@pytest.mark.parametrize("name", sorted(SINGLE_VALUED))
def test_the_known_names_mean_themselves(name: str) -> None:
    assert canonical(name) == name or canonical(name) in SINGLE_VALUED
