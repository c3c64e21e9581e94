"""Who has a forest reduced, when several windows of it end near together."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from memforest_core.ingest.extract.service import LONGEST_S, Reading, Readings


class Clock:
    """Seconds that pass only when the test changes them."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    """A clock of one's own."""
    return Clock()


def begun(readings: Readings, forest: str = "bob", *, come: bool = True) -> tuple[ExitStack, Reading]:
    """A window that was sent to the model, and whose answer has come unless ``come`` is false."""
    stack = ExitStack()
    reading = stack.enter_context(readings.reading(forest))
    if come:
        reading.come()
    return stack, reading


def ended(window: tuple[ExitStack, Reading], *, stored: bool = True) -> bool:
    """Whether the forest is to be reduced after this window."""
    stack, reading = window
    reading.stored = stored
    stack.close()
    return reading.reduces


def test_a_window_alone_is_reduced_when_it_is_stored(clock: Clock) -> None:
    readings = Readings(clock)
    assert ended(begun(readings))
    assert not ended(begun(readings), stored=False)


def test_the_last_of_several_has_all_reduced(clock: Clock) -> None:
    readings = Readings(clock)
    first, second, third = begun(readings), begun(readings), begun(readings)
    assert [ended(second), ended(first), ended(third)] == [False, False, True]


def test_nobody_waits_for_an_answer_that_has_not_come(clock: Clock) -> None:
    readings = Readings(clock)
    first, requested = begun(readings), begun(readings, come=False)
    assert ended(first)
    assert ended(requested)


def test_nobody_waits_for_another_forest(clock: Clock) -> None:
    readings = Readings(clock)
    first, other = begun(readings, "bob"), begun(readings, "alice")
    assert ended(first)
    assert ended(other)


def test_who_stores_nothing_reduces_what_was_left_to_it(clock: Clock) -> None:
    readings = Readings(clock)
    first, second = begun(readings), begun(readings)
    assert not ended(first)
    assert ended(second, stored=False)


def test_a_window_that_ends_with_an_error_is_counted_no_longer(clock: Clock) -> None:
    readings = Readings(clock)

    def broken() -> None:
        with readings.reading("bob") as reading:
            reading.come()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        broken()
    assert ended(begun(readings))


def test_windows_that_follow_each_other_without_end_are_reduced_now_and_then(clock: Clock) -> None:
    readings, reduced = Readings(clock), list[int]()
    last = begun(readings)
    for number in range(12):
        following = begun(readings)
        if ended(last):
            reduced.append(number)
        clock.now += LONGEST_S * 2 / 3
        last = following
    assert reduced == [2, 5, 8, 11]
    assert ended(last)
