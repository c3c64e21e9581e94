"""What is remembered fades with time, slower the more it is visited, and never when it is pinned."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.retaining import half_life_days, retention

VISITS = st.integers(0, 10_000)
DAYS = st.floats(0, 40_000, allow_nan=False)


def priority(importance: float, age_days: float, visits: int) -> float:
    """What a topic of this importance is worth so many days after it was last touched (DESIGN 9)."""
    return float(importance * 0.5 ** (age_days / half_life_days(visits)))


@pytest.mark.parametrize(
    ("visits", "days"),
    [(0, 1), (4, 1), (5, 2), (9, 2), (10, 4), (15, 8), (20, 16), (24, 16), (25, 30), (10_000_000, 30)],
)
def test_the_half_life_doubles_with_each_fifth_visit_up_to_thirty_days(visits: int, days: float) -> None:
    assert half_life_days(visits) == days


def test_a_topic_loses_half_of_its_priority_in_a_half_life() -> None:
    assert priority(0.8, 0.0, 0) == 0.8
    assert priority(0.8, 1.0, 4) == pytest.approx(0.4)
    assert priority(0.8, 4.0, 5) == pytest.approx(0.2)
    assert priority(0.8, 30.0, 25) == pytest.approx(0.4)


@given(VISITS, st.integers(1, 100), DAYS)
def test_more_visits_are_worth_more(visits: int, more: int, idle: float) -> None:
    assert retention(visits + more, idle) > retention(visits, idle)


@given(VISITS, DAYS, st.floats(0.001, 10_000))
def test_time_takes_from_it(visits: int, idle: float, longer: float) -> None:
    assert retention(visits, idle + longer) < retention(visits, idle)


@given(VISITS, st.floats(0, 400))
def test_it_is_the_logarithm_of_the_priority_of_what_was_visited(visits: int, idle: float) -> None:
    assert 2.0 ** retention(visits, idle) == pytest.approx(priority(1.0 + visits, idle, visits), rel=1e-9)


@given(VISITS, DAYS)
def test_what_is_pinned_outlasts_everything(visits: int, idle: float) -> None:
    assert retention(0, idle, pinned=True) == math.inf > retention(visits, 0.0)


def test_what_is_said_to_happen_yet_has_not_begun_to_fade() -> None:
    assert retention(3, -5.0) == retention(3, 0.0) == 2.0
