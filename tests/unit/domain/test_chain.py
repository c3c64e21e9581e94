"""How statements of one subject and attribute become states that end each other."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from uuid import UUID

import pytest

from memforest_core.domain.chain import ChainState, states_of
from memforest_core.domain.facts import Change, Modality, Origin, Polarity, Statement
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
    fields: dict[str, Any] = {
        "text": f"Ann: {attribute} {value}",
        "previous_value": "",
        "change": Change.NONE,
        "polarity": Polarity.POSITIVE,
        "modality": Modality.ASSERTED,
    }
    statement = Statement(
        time=time,
        mentioned_at=day(days[0]),
        speaker="Ann",
        subject="Ann",
        attribute=attribute,
        value=value,
        entities=(),
        scene="",
        origin=Origin.USER,
        verbatim=False,
        **(fields | stance),
    )
    number = next(_IDS)
    fact = StoredState(
        id=FactId(UUID(int=number)),
        subject_key="ann",
        attribute=attribute,
        statement=statement,
        key=(micros(time.start or day(days[0])), 0, 0),
        known_since=day(days[0]),
    )
    return placed(fact, [Mention(fact.id, SessionId(UUID(int=9)), (each,), day(each)) for each in days])


def chain(*parts: list[Said], attribute: str = "residence") -> list[ChainState]:
    return states_of(attribute, [each for part in parts for each in part])


def reported(states: list[ChainState]) -> list[tuple[str, bool]]:
    return [(state.statement.value, state.current) for state in states]


def test_another_value_ends_the_one_before() -> None:
    boston, davis = chain(said("Davis", 20), said("Boston", 10))
    assert reported([boston, davis]) == [("Boston", False), ("Davis", True)]
    assert boston.superseded_by == davis.id
    assert davis.supersedes == [boston.id]


def test_events_count_from_when_they_happened_not_from_when_they_were_mentioned() -> None:
    states = chain(said("Miami", 30, change=Change.SWITCH), said("Davis", 40, time=on(10), change=Change.SWITCH))
    assert reported(states) == [("Davis", False), ("Miami", True)]


def test_the_same_value_said_again_is_one_state() -> None:
    (state,) = chain(said("Davis", 10, 12), said("Davis, California", 20), said("davis", 30, change=Change.SWITCH))
    assert len(state.mentions) == 4
    assert len({each.fact.id for each in state.said}) == 3
    assert state.current


def test_going_back_is_a_new_state_even_when_the_very_same_sentence_says_it() -> None:
    states = chain(said("Boston", 10, 30), said("Davis", 20))
    assert reported(states) == [("Boston", False), ("Davis", False), ("Boston", True)]
    assert [len(state.mentions) for state in states] == [1, 1, 1]


def test_figures_are_the_same_only_when_they_are_equal() -> None:
    states = chain(
        *(said(value, at, attribute="weight") for at, value in enumerate(("70 kg", "70.5 kg", "70.5 KG", "70 kg"))),
        attribute="weight",
    )
    assert reported(states) == [("70 kg", False), ("70.5 kg", False), ("70 kg", True)]


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


def test_a_stop_of_something_else_leaves_the_current_state() -> None:
    assert reported(chain(said("Davis", 10), said("Boston", 20, change=Change.STOP))) == [
        ("Davis", True),
        ("Boston", False),
    ]


def test_a_stop_without_a_value_ends_the_current_state() -> None:
    nurse, stop = chain(said("nurse", 10, attribute="job"), said("", 20, attribute="job", change=Change.STOP))
    assert nurse.superseded_by == stop.id


def test_after_a_stop_the_same_state_is_a_new_one() -> None:
    stop = said("", 20, attribute="job", change=Change.STOP)
    states = chain(said("nurse", 10, attribute="job"), stop, said("nurse", 30, attribute="job"), attribute="job")
    assert reported(states) == [("nurse", False), ("", False), ("nurse", True)]
    assert states[2].supersedes == []


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


def test_pets_live_side_by_side() -> None:
    states = chain(pet("cat named Misty", 1), pet("dog named Bruno", 2), pet("cat named Misty", 3), attribute="pet")
    assert reported(states) == [("cat named Misty", True), ("dog named Bruno", True)]
    assert len(states[0].mentions) == 2


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


def test_a_switch_replaces_only_what_it_names() -> None:
    hobbies = [said(value, at, attribute="hobby") for at, value in enumerate(("tennis", "chess"))]
    switch = said("squash", 5, attribute="hobby", change=Change.SWITCH, previous_value="tennis")
    assert reported(chain(*hobbies, switch, attribute="hobby")) == [
        ("tennis", False),
        ("chess", True),
        ("squash", True),
    ]
    blind = said("squash", 5, attribute="hobby", change=Change.SWITCH)
    assert reported(chain(*hobbies, blind, attribute="hobby")) == [("tennis", True), ("chess", True), ("squash", True)]


def test_a_correction_replaces_what_was_said_wrongly() -> None:
    wrong = said("peanuts", 1, attribute="allergy")
    right = said("walnuts", 2, attribute="allergy", change=Change.CORRECT, previous_value="peanuts")
    other = said("pollen", 1, attribute="allergy")
    assert reported(chain(wrong, other, right, attribute="allergy")) == [
        ("peanuts", False),
        ("pollen", True),
        ("walnuts", True),
    ]


def test_a_correction_ends_what_it_denies_even_if_that_is_about_a_later_time() -> None:
    wrong = said("Boston", 50, time=on(40), change=Change.SWITCH)
    right = said("Austin", 60, time=on(30), change=Change.CORRECT, previous_value="Boston")
    austin, boston = chain(wrong, right)
    assert (austin.current, boston.current) == (True, False)
    assert boston.superseded_by == austin.id


def test_a_corrected_date_replaces_the_state_with_the_wrong_one() -> None:
    states = chain(
        said("Davis", 50, time=on(10), change=Change.SWITCH), said("Davis", 60, time=on(20), change=Change.CORRECT)
    )
    assert reported(states) == [("Davis", False), ("Davis", True)]
    assert states[1].statement.time == on(20)


def test_a_divorce_ends_a_marriage_and_is_a_state() -> None:
    married = said("married to Ben", 1, attribute="relationship")
    divorced = said("divorced", 2, attribute="relationship", change=Change.STOP)
    assert reported(chain(married, divorced, attribute="relationship")) == [
        ("married to Ben", False),
        ("divorced", True),
    ]


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


@pytest.mark.parametrize("one, other", [("A+", "A-"), ("C", "C++"), ("C++", "C#"), ("-5", "5")])
def test_values_that_differ_in_a_sign_are_two_states(one: str, other: str) -> None:
    states = chain(said(one, 1, attribute="possession"), said(other, 2, attribute="possession"), attribute="possession")
    assert [state.statement.value for state in states] == [one, other]
