"""Statements about one thing are lifted by their place in the order of time, and by how near they are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from memforest_core.domain.asked_series import Series
from memforest_core.domain.scoring import Item, Voted
from memforest_core.domain.series import SIGNAL, Stated, lift_series

START = datetime(2024, 1, 1, tzinfo=UTC)


def stated(day: int, near: float, score: float = 1.0, *, often: bool = False) -> Stated:
    item = Item(place=(UUID(int=day + 1), 0, 0), cell=UUID(int=day + 1), facts=())
    return Stated(Voted(item, score, {"cell": score}), (START + timedelta(days=day), 0), near, often)


CARS = (stated(0, 1.0, 3.0), stated(1, 0.8), stated(2, 0.9), stated(3, 0.1, 2.0))
"""The first one has the words of the question; the last piece is about something else."""


def days(voted: list[Voted]) -> list[int]:
    return [one.item.place[0].int - 1 for one in voted]


@pytest.mark.parametrize(
    ("series", "anchor", "first"),
    [
        (Series.LATEST, None, 2),
        (Series.FIRST, None, 0),
        (Series.BEFORE, None, 1),
        (Series.BEFORE, 1, 0),
        (Series.AFTER, 0, 1),
        (Series.ALL, None, 0),
    ],
)
def test_the_statement_that_is_asked_for_comes_first(series: Series, anchor: int | None, first: int) -> None:
    moment = None if anchor is None else (START + timedelta(days=anchor), 0)
    assert days(lift_series(CARS, series, moment, 1.0))[0] == first


@pytest.mark.parametrize("series", list(Series))
def test_what_is_about_something_else_keeps_its_score(series: Series) -> None:
    other = next(one for one in lift_series(CARS, series, None, 1.0) if one.item.place[0] == UUID(int=4))
    assert (other.score, other.signals) == (2.0, {"cell": 2.0})


def test_all_statements_of_a_list_go_before_what_is_about_something_else() -> None:
    voted = lift_series(CARS, Series.ALL, None, 1.0)
    assert sorted(days(voted)[:3]) == [0, 1, 2]
    assert all(SIGNAL in one.signals for one in voted[:3])


def test_how_long_needs_statements_that_are_surely_about_it() -> None:
    voted = lift_series([stated(0, 1.0), stated(1, 0.6), stated(2, 0.75)], Series.ENDS, None, 1.0)
    assert {day for day, one in zip(days(voted), voted, strict=True) if SIGNAL in one.signals} == {0, 2}


def test_how_often_is_answered_by_what_tells_a_frequency() -> None:
    pieces = [stated(0, 1.0, 3.0), stated(1, 0.6, often=True)]
    assert days(lift_series(pieces, Series.OFTEN, None, 1.0)) == [1, 0]


def test_a_signal_says_what_was_added() -> None:
    for one in lift_series(CARS, Series.LATEST, None, 1.0):
        assert one.score == pytest.approx(sum(one.signals.values()))


def test_nothing_is_no_special_case() -> None:
    assert lift_series([], Series.LATEST, None, 1.0) == []
