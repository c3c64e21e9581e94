"""Which of two statements is current, and what tense and date make of each."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from memforest_core.domain.chain import states_of
from memforest_core.domain.facts import CORRECTED_ITEM, Change, Polarity, Statement
from memforest_core.domain.ids import FactId, SessionId
from memforest_core.domain.state_order import Mention, Role, Said, StoredState, Tense, placed, role_of, tense_of
from memforest_core.domain.times import UNKNOWN_TIME, Precision, TimeSpan, micros

MAY_1 = datetime(2024, 5, 1, 10, tzinfo=UTC)
MAY_10 = datetime(2024, 5, 10, 10, tzinfo=UTC)


def month(number: int, year: int = 2024) -> TimeSpan:
    start = datetime(year, number, 1, tzinfo=UTC)
    return TimeSpan(start, (start + timedelta(days=32)).replace(day=1), Precision.MONTH)


def statement(
    text: str, value: str, *, time: TimeSpan = UNKNOWN_TIME, attribute: str = "residence", **stance: Any
) -> Statement:
    return Statement(text, time, MAY_1, "Ann", "Ann", attribute, value, **stance)


def said(reported: Statement, *moments: datetime, number: int = 1, item: int = 0) -> list[Said]:
    id_ = FactId(UUID(int=number))
    fact = StoredState(id_, "ann", reported.attribute, reported, (micros(moments[0]), 0, item), MAY_1)
    return placed(fact, [Mention(id_, SessionId(UUID(int=9)), (0,), moment) for moment in moments])


def current(*parts: list[Said]) -> list[str]:
    states = states_of("residence", [each for part in parts for each in part])
    return [state.statement.value for state in states if state.current]


@pytest.mark.parametrize(
    ("text", "value", "tense"),
    [
        ("Ann lives in Oslo.", "Oslo", Tense.PRESENT),
        ("Ann has lived in Oslo since April.", "Oslo", Tense.PRESENT),
        ("Ann is working at Initech.", "Initech", Tense.PRESENT),
        ("Ann lived in Oslo.", "Oslo", Tense.PAST),
        ("Ann had been working at Initech.", "Initech", Tense.PAST),
        ("Ann was happy and lives in Oslo.", "Oslo", Tense.PRESENT),
        ("Ann got married in April.", "married", Tense.CHANGE),
        ("Ann wohnte 2019 in Madrid.", "Madrid", Tense.UNKNOWN),
        ("Ann lives in Oslo.", "", Tense.UNKNOWN),
        ("Ann lives in C++ (the town.", "C++ (the town", Tense.PRESENT),
    ],
)
def test_the_tense_is_that_of_the_verb_before_the_value(text: str, value: str, tense: Tense) -> None:
    assert tense_of(statement(text, value)) is tense


def test_a_change_has_no_tense() -> None:
    assert tense_of(statement("Ann was in Oslo.", "Oslo", change=Change.SWITCH)) is Tense.UNKNOWN


@pytest.mark.parametrize(
    ("reported", "role"),
    [
        (statement("Ann worked at Initech.", "Initech", attribute="job"), Role.MARKED),
        (statement("Ann was 80 kg.", "80 kg", attribute="weight"), Role.SETS),
        (statement("Ann moves to Oslo.", "Oslo", time=month(6), change=Change.SWITCH), Role.MARKED),
        (statement("Ann left.", "", time=month(6), attribute="job", change=Change.STOP), Role.MARKED),
        (statement("Ann lives in Oslo.", "Oslo", time=month(6)), Role.SETS),
        (statement("Ann moved to Oslo.", "Oslo", time=month(5), change=Change.SWITCH), Role.SETS),
    ],
)
def test_what_is_past_or_lies_ahead_changes_nothing(reported: Statement, role: Role) -> None:
    assert role_of(said(reported, MAY_1)[0]) is role


def test_a_correction_by_hand_may_be_about_a_later_time_than_the_words_it_replaces() -> None:
    reported = statement("Ann moved to Oslo.", "Oslo", time=month(6), change=Change.SWITCH)
    assert role_of(said(reported, MAY_1, item=CORRECTED_ITEM)[0]) is Role.SETS


def test_a_dated_change_ends_an_undated_state_said_before_it() -> None:
    oslo = said(statement("Ann lives in Oslo.", "Oslo"), MAY_1, number=1)
    bergen = said(statement("Ann moved to Bergen.", "Bergen", time=month(4), change=Change.SWITCH), MAY_10, number=2)
    first, second = states_of("residence", [*bergen, *oslo])
    assert (first.statement.value, first.current, first.ended) == ("Oslo", False, month(4))
    assert (second.statement.value, second.current, second.ended) == ("Bergen", True, None)
    assert first.position < second.position


def test_the_state_that_was_said_last_is_current_again() -> None:
    oslo = said(statement("Ann lives in Oslo.", "Oslo"), MAY_1, MAY_10 + timedelta(days=5), number=1)
    bergen = said(statement("Ann moved to Bergen.", "Bergen", time=month(4), change=Change.SWITCH), MAY_10, number=2)
    assert current(oslo, bergen) == ["Oslo"]


def test_an_undated_change_that_is_repeated_counts_each_time() -> None:
    oslo = said(statement("Ann moved to Oslo.", "Oslo", change=Change.SWITCH), MAY_1, MAY_10, number=1)
    bergen = said(
        statement("Ann moved to Bergen.", "Bergen", change=Change.SWITCH), MAY_1 + timedelta(days=4), number=2
    )
    assert current(oslo, bergen) == ["Oslo"]


def test_an_undated_change_happened_shortly_before_it_was_said() -> None:
    oslo = said(statement("Ann moved to Oslo.", "Oslo", change=Change.SWITCH), MAY_1, number=1)
    march = said(statement("Ann moved to Bergen.", "Bergen", time=month(3), change=Change.SWITCH), MAY_10, number=2)
    april = said(statement("Ann moved to Bergen.", "Bergen", time=month(4), change=Change.SWITCH), MAY_10, number=3)
    assert current(oslo, march) == ["Oslo"]
    assert current(oslo, april) == ["Bergen"]


def test_a_date_next_to_a_state_in_the_present_tense_is_not_its_beginning() -> None:
    """ "I live in Oslo and went to Rome last week." """
    oslo = said(statement("Ann lives in Oslo and went to Rome.", "Oslo", time=month(4)), MAY_10, number=1)
    bergen = said(statement("Ann lives in Bergen.", "Bergen"), MAY_1, number=2)
    assert current(bergen, oslo) == ["Oslo"]


def test_since_gives_the_beginning() -> None:
    bergen = said(statement("Ann has lived in Bergen since April.", "Bergen", time=month(4)), MAY_10, number=1)
    march = said(statement("Ann moved to Oslo.", "Oslo", time=month(3), change=Change.SWITCH), MAY_10, number=2)
    assert current(bergen, march) == ["Bergen"]


def test_a_denial_ends_the_value_it_names_and_no_other() -> None:
    oslo = said(statement("Ann lives in Oslo.", "Oslo"), MAY_1, number=1)
    denied = said(statement("Ann isn't in Oslo.", "Oslo", polarity=Polarity.NEGATIVE), MAY_10, number=2)
    other = said(statement("Ann isn't in Bergen.", "Bergen", polarity=Polarity.NEGATIVE), MAY_10, number=3)
    assert current(oslo, denied) == []
    assert current(oslo, other) == ["Oslo"]


def test_when_it_was_stored_decides_nothing() -> None:
    reported = statement("Ann lives in Oslo.", "Oslo")
    late = StoredState(FactId(UUID(int=1)), "ann", "residence", reported, (0, 0, 0), MAY_10 + timedelta(days=900))
    oslo = placed(late, [Mention(late.id, SessionId(UUID(int=9)), (0,), MAY_1)])
    bergen = said(statement("Ann lives in Bergen.", "Bergen"), MAY_10, number=2)
    assert current(oslo, bergen) == ["Bergen"]
