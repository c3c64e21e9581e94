"""A topic's priority fades with time, slower the more it is recalled; above a number the lowest ones become cold."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memforest_core.domain.temperature import (
    Decay,
    MemoryKind,
    Rated,
    cooling,
    learned_importance,
    memory_kind,
    moved,
    priority,
)

DAY = 86_400.0
DECAY = Decay()


@pytest.mark.parametrize(
    ("accesses", "days"),
    [(0, 1), (4, 1), (5, 2), (9, 2), (10, 4), (15, 8), (20, 16), (24, 16), (25, 30), (10_000_000, 30)],
)
def test_the_half_life_doubles_with_each_fifth_access_up_to_thirty_days(accesses: int, days: float) -> None:
    """And the kind of memory says where between the first and the longest one it is."""
    assert DECAY.half_life(accesses) == days * DAY
    kind = {1: MemoryKind.SHORT, 30: MemoryKind.LONG}.get(int(days), MemoryKind.TRANSITIONING)
    assert memory_kind(accesses, DECAY) is kind


@pytest.mark.parametrize(
    ("stated", "accesses", "idle_days", "importance", "half_life_days", "expected"),
    [
        (0.5, 0, 0, 0.5, 1, 0.5),
        (0.5, 0, 3.4, 0.5, 1, 0.0474),
        (0.5, 5, 2, 0.75, 2, 0.375),
        (0.9, 10, 8, 0.975, 4, 0.24375),
        (0.0, 25, 30, 0.96875, 30, 0.484375),
        (1.0, 100, 90, 1.0, 30, 0.125),
    ],
)
def test_the_decay_of_a_topic(
    stated: float, accesses: int, idle_days: float, importance: float, half_life_days: float, expected: float
) -> None:
    """The table: what is stated, accesses and idle days give an importance, a half-life and a priority."""
    assert learned_importance(stated, accesses, DECAY) == pytest.approx(importance)
    assert DECAY.half_life(accesses) == half_life_days * DAY
    assert priority(importance, accesses, idle_days * DAY, DECAY) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    ("before", "useful", "after"), [(0.5, True, 0.6), (0.5, False, 0.4), (1.0, True, 1.0), (0, False, 0)]
)
def test_a_feedback_moves_an_importance_a_fifth_of_the_way(before: float, useful: bool, after: float) -> None:
    assert moved(before, useful) == pytest.approx(after)


@pytest.mark.parametrize(
    ("importance", "accesses", "idle_days", "expected"),
    [
        (1.0, 0, 0, 1.0),
        (1.0, 0, 1, 0.5),
        (0.5, 0, 2, 0.125),
        (1.0, 5, 2, 0.5),
        (1.0, 25, 60, 0.25),
        (0.0, 25, 0, 0.0),
        (1.0, 0, -3, 1.0),
    ],
)
def test_a_topic_loses_half_of_its_priority_in_a_half_life(
    importance: float, accesses: int, idle_days: float, expected: float
) -> None:
    assert priority(importance, accesses, idle_days * DAY, DECAY) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("stated", "accesses", "expected"),
    [(0.5, 0, 0.5), (0.5, 5, 0.75), (0.5, 10, 0.875), (0.0, 5, 0.5), (1.0, 0, 1.0), (1.0, 50, 1.0), (7.0, 0, 1.0)],
)
def test_importance_is_stated_and_learned_from_accesses(stated: float, accesses: int, expected: float) -> None:
    assert learned_importance(stated, accesses, DECAY) == pytest.approx(expected)


@given(st.floats(0, 1), st.integers(0, 10_000), st.floats(0, 1e9))
def test_importance_and_priority_stay_between_0_and_1(stated: float, accesses: int, idle_s: float) -> None:
    importance = learned_importance(stated, accesses, DECAY)
    assert 0.0 <= priority(importance, accesses, idle_s, DECAY) <= importance <= 1.0


def rated(number: int, priority: float, *, active: bool = False) -> Rated:
    return Rated(UUID(int=number), priority, active)


@pytest.mark.parametrize(
    ("topics", "hot", "most", "expected"),
    [
        ([rated(1, 0.01), rated(2, 0.04), rated(3, 0.9)], 3, 20, []),
        ([rated(1, 0.01), rated(2, 0.04), rated(3, 0.9)], 3, 2, [1]),
        ([rated(1, 0.04), rated(2, 0.01), rated(3, 0.9)], 3, 1, [2, 1]),
        ([rated(1, 0.04), rated(2, 0.01), rated(3, 0.9)], 30, 1, [2, 1]),
        ([rated(1, 0.05), rated(2, 0.06)], 30, 1, []),
        ([rated(1, 0.0, active=True), rated(2, 0.01)], 30, 1, [2]),
        ([rated(2, 0.0), rated(1, 0.0)], 2, 1, [1]),
        ([], 5, 1, []),
    ],
)
def test_above_the_number_the_lowest_under_the_bound_become_cold_the_active_one_never(
    topics: list[Rated], hot: int, most: int, expected: list[int]
) -> None:
    assert cooling(topics, hot, most, 0.05) == [UUID(int=number) for number in expected]
