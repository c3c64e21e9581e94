"""An unavailable service: which caller may try it, and when."""

from __future__ import annotations

from memforest_core.models.outages import LONGEST_PAUSE_S, OutagePause


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_service_that_answers_is_never_paused() -> None:
    pause = OutagePause(Clock())
    assert all(pause.may_try() for _ in range(5))
    assert not pause.unavailable


def test_after_a_failure_nobody_tries_until_the_pause_is_over_and_then_one_does() -> None:
    clock = Clock()
    pause = OutagePause(clock)
    pause.failed()
    assert pause.unavailable and not pause.may_try()
    clock.now += 1.0
    assert [pause.may_try() for _ in range(3)] == [True, False, False]


def test_calls_that_fail_together_count_once_and_each_failed_trial_doubles_the_pause() -> None:
    clock = Clock()
    pause = OutagePause(clock)
    for _ in range(8):
        pause.failed()
    waited = []
    for _ in range(7):
        before = clock.now
        while not pause.may_try():
            clock.now += 0.5
        waited.append(clock.now - before)
        pause.failed()
    assert waited == [1, 2, 4, 8, 16, LONGEST_PAUSE_S, LONGEST_PAUSE_S]


def test_an_answer_ends_the_outage_at_once() -> None:
    clock = Clock()
    pause = OutagePause(clock)
    pause.failed()
    clock.now += 1.0
    assert pause.may_try()
    pause.worked()
    assert [pause.may_try(), pause.may_try(), pause.unavailable] == [True, True, False]


def test_a_trial_that_never_reports_is_followed_by_another() -> None:
    clock = Clock()
    pause = OutagePause(clock)
    pause.failed()
    clock.now += 1.0
    assert pause.may_try()
    clock.now += 1.0
    assert pause.may_try()
