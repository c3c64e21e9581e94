"""Timeouts lower how many calls to a model are under way at once, for all workers; quick answers raise it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from memforest_core.models.limits.call_limits import RedisLedger, open_redis
from memforest_core.models.limits.model_limits import URGENT, CallEnd, CallOutcome, Verdict
from tests.contract.limits.limited import limits_of

HOLD_S = 100.0


class Calls:
    """Calls to one model, on a clock of the test."""

    now = 1_000.0

    def __init__(self, ledger: RedisLedger) -> None:
        self.ledger = ledger
        self.under_way: dict[str, float] = {}
        self.made = 0

    def begin(self, most: int = 100, *, urgent: bool = False) -> int:
        """Begin calls until no more may; how many began."""
        Calls.now += 1
        for number in range(most):
            self.made += 1
            permit = f"{URGENT if urgent else ''}{self.made}"
            if self.ledger.admit("m", permit, 1, HOLD_S)[0].verdict is not Verdict.GRANTED:
                return number
            self.under_way[permit] = self.now
        return most

    def end(self, outcome: CallOutcome) -> None:
        """All of them end so."""
        for permit, started in self.under_way.items():
            self.ledger.settle("m", CallEnd(outcome, permit, started, input=permit))
        self.under_way.clear()


@pytest.fixture
def calls(redis_url: str) -> Iterator[Calls]:
    client = open_redis(redis_url)
    client.flushdb()
    made = Calls(RedisLedger(client, limits_of(circuit_failures=1_000), lambda: Calls.now))
    yield made
    client.close()


def round_of(calls: Calls, outcome: CallOutcome, after_s: float, most: int = 8) -> int:
    """How many of ``most`` calls may be under way; they end so, after so many seconds."""
    began = calls.begin(most)
    Calls.now += after_s
    calls.end(outcome)
    return began


def test_timeouts_halve_the_calls_at_once_down_to_one(calls: Calls) -> None:
    """Given answers meanwhile, when calls that are under way together time out, then half of them may be next."""
    found = []
    for _ in range(5):
        most = calls.begin(8)
        found.append(most)
        Calls.now += HOLD_S / 2
        calls.ledger.settle("m", CallEnd(CallOutcome.ANSWERED, "elsewhere", Calls.now - 1))
        Calls.now += HOLD_S / 2 - 1
        calls.end(CallOutcome.TIMED_OUT)
    assert found == [8, 4, 2, 1, 1]


def test_one_call_at_once_is_left_when_a_whole_timeout_brought_no_answer(calls: Calls) -> None:
    assert round_of(calls, CallOutcome.TIMED_OUT, HOLD_S - 1) == 8
    assert round_of(calls, CallOutcome.TIMED_OUT, HOLD_S - 1) == 1


def test_quick_answers_raise_the_calls_at_once_and_late_ones_lower_it(calls: Calls) -> None:
    round_of(calls, CallOutcome.TIMED_OUT, HOLD_S - 1)
    assert [round_of(calls, CallOutcome.ANSWERED, 0.1 * HOLD_S) for _ in range(3)] == [1, 2, 3]
    assert [round_of(calls, CallOutcome.ANSWERED, 0.4 * HOLD_S) for _ in range(2)] == [4, 4]
    assert [round_of(calls, CallOutcome.ANSWERED, 0.9 * HOLD_S) for _ in range(2)] == [4, 2]


def test_a_call_that_somebody_waits_for_is_not_delayed_by_timeouts_of_others(calls: Calls) -> None:
    round_of(calls, CallOutcome.TIMED_OUT, HOLD_S - 1)
    assert (calls.begin(8), calls.begin(3, urgent=True)) == (1, 3)
