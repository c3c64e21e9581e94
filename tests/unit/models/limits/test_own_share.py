"""Limits that one process observes while Redis is unavailable; time is a number here."""

from __future__ import annotations

import pytest

from memforest_core.models.limits.model_limits import Admission, CallEnd, CallOutcome, ModelShare, Reason, Verdict
from tests.contract.limits.limited import limits_of


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def share(clock: Clock, **limits: object) -> ModelShare:
    return ModelShare(limits_of(**({"circuit_open_s": 10.0, "circuit_longest_s": 15.0} | limits)), clock)


def verdict(given: ModelShare, tokens: int = 1) -> Verdict:
    return given.admit("p", tokens, 30.0).verdict


@pytest.mark.parametrize("limit", ["requests_per_minute", "tokens_per_minute"])
def test_no_minute_sees_more_than_the_limit(clock: Clock, limit: str) -> None:
    given, granted = share(clock, **{limit: 60}), 0
    for _ in range(600):
        granted += verdict(given) is Verdict.GRANTED
        clock.now += 0.1
    assert 55 <= granted <= 60


def test_a_large_call_starts_and_the_next_waits_for_it(clock: Clock) -> None:
    given = share(clock, tokens_per_minute=600)
    assert verdict(given, tokens=6_000) is Verdict.GRANTED
    assert given.admit("q", 1, 30.0).wait_s == pytest.approx(6_000 / 9.5, rel=0.01)


def test_calls_that_are_not_settled_end_by_themselves(clock: Clock) -> None:
    given = share(clock, concurrent_calls=1)
    assert [verdict(given), verdict(given)] == [Verdict.GRANTED, Verdict.BUSY]
    clock.now += 30.0
    assert verdict(given) is Verdict.GRANTED


def test_a_429_pauses_as_long_as_it_says_and_else_each_time_longer(clock: Clock) -> None:
    given, pauses = share(clock), []
    for retry_after in (7.0, None, None, None):
        for _ in range(5):
            given.settle(CallEnd(CallOutcome.RATE_LIMITED, "p", retry_after=retry_after))
        pauses.append(given.paused_s())
        clock.now += pauses[-1]
    assert pauses == [7.0, 1.0, 2.0, 4.0]


def test_failures_in_a_row_open_the_circuit_each_time_for_longer(clock: Clock) -> None:
    given = share(clock)
    for _ in range(3):
        given.settle(CallEnd(CallOutcome.UNAVAILABLE, "p"))
    assert given.admit("p", 1, 30.0) == Admission(Verdict.OPEN, 10.0, Reason.OUTAGE)
    clock.now += 10.0
    assert verdict(given) is Verdict.GRANTED
    given.settle(CallEnd(CallOutcome.UNAVAILABLE, "p"))
    assert given.paused_s() == 15.0
    clock.now += 15.0
    given.settle(CallEnd(CallOutcome.ANSWERED, "p"))
    given.settle(CallEnd(CallOutcome.UNAVAILABLE, "p"))
    assert given.paused_s() == 0.0


def test_a_refused_key_opens_it_at_once(clock: Clock) -> None:
    given = share(clock)
    given.settle(CallEnd(CallOutcome.AUTH, "p"))
    assert given.admit("p", 1, 30.0).reason is Reason.AUTH
