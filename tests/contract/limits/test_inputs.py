"""An input that fails while the model answers others is no outage: with limits in Redis, and in a process without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import pytest
from redis import Redis

from memforest_core.models.limits.call_limits import RedisLedger, open_redis
from memforest_core.models.limits.model_limits import (
    BATCH,
    CHECK,
    CallEnd,
    CallOutcome,
    Fault,
    ModelLimits,
    ModelShare,
    Verdict,
)
from tests.contract.limits.limited import limits_of

GIVEN = limits_of(circuit_failures=3, circuit_open_s=10.0, circuit_longest_s=60.0)


class Model:
    """A model as one kind of limits sees it, on a clock of the test."""

    now = 1_000.0
    calls = 0

    def admitted(self) -> bool:
        """Whether another call may start now."""
        raise NotImplementedError

    def ended(self, outcome: CallOutcome, named: str = "", *, checks: bool = False) -> Fault:
        """A call that began a second ago has ended."""
        raise NotImplementedError

    def failed(self, named: str, *, checks: bool = False) -> Fault:
        self.now += 1
        return self.ended(CallOutcome.UNAVAILABLE, named, checks=checks)

    def answered(self, named: str) -> None:
        self.now += 1
        self.ended(CallOutcome.ANSWERED, named)


class Shared(Model):
    def __init__(self, client: Redis, limits: ModelLimits) -> None:
        self.ledger = RedisLedger(client, limits, lambda: self.now)

    def admitted(self) -> bool:
        self.calls += 1
        return self.ledger.admit("m", f"p{self.calls}", 1, 5.0)[0].verdict is Verdict.GRANTED

    def ended(self, outcome: CallOutcome, named: str = "", *, checks: bool = False) -> Fault:
        permit = f"p{self.calls}"
        return self.ledger.settle("m", CallEnd(outcome, permit, self.now - 1, 1, input=named, checks=checks))


class Own(Model):
    def __init__(self, limits: ModelLimits) -> None:
        self.share = ModelShare(limits, lambda: self.now)

    def admitted(self) -> bool:
        self.calls += 1
        return self.share.admit(f"p{self.calls}", 1, 5.0).verdict is Verdict.GRANTED

    def ended(self, outcome: CallOutcome, named: str = "", *, checks: bool = False) -> Fault:
        return self.share.settle(CallEnd(outcome, f"p{self.calls}", input=named, checks=checks))


class Makes(Protocol):
    def __call__(self) -> Model: ...


@pytest.fixture(params=["shared", "own"])
def model(request: pytest.FixtureRequest, redis_url: str) -> Model:
    made: dict[str, Callable[[], Model]] = {
        "shared": lambda: Shared(open_redis(redis_url), GIVEN),
        "own": lambda: Own(GIVEN),
    }
    return made[request.param]()


def test_one_input_that_fails_again_and_again_opens_no_circuit(model: Model) -> None:
    for _ in range(20):
        assert not model.failed("poisoned").alone
    assert model.admitted()


def test_different_inputs_that_fail_in_a_row_open_it(model: Model) -> None:
    for named in ("one", "two", "one", "two"):
        model.failed(named)
    assert model.admitted()
    model.ended(CallOutcome.UNMADE)
    model.failed("three")
    assert not model.admitted()


def test_a_failure_counts_against_an_input_when_another_was_answered_since_the_last(model: Model) -> None:
    faults = []
    model.failed("poisoned")
    for _ in range(3):
        model.answered("other")
        faults += [model.failed("poisoned").alone, model.failed("poisoned").alone]
    assert faults == [True, False] * 3


def test_an_inputs_own_answer_says_nothing_against_it(model: Model) -> None:
    """A window's first call is answered, and its repair call fails, twice."""
    model.failed("window")
    model.answered("window")
    assert not model.failed("window").alone
    assert not model.failed("window").alone


def test_an_outage_of_any_length_counts_against_nobody(model: Model) -> None:
    """Given answers before the outage, then each input is blamed for its first failure at most."""
    for named in ("a", "b", "c", "d"):
        model.answered(named)
    model.now += 5
    blamed = [model.failed(named).alone for _ in range(50) for named in ("a", "b", "c", "d")]
    assert not any(blamed)


def test_an_input_that_was_found_at_fault_opens_no_circuit_later(model: Model) -> None:
    poisoned = [f"poisoned {number}" for number in range(5)]
    for named in poisoned:
        model.failed(named)
        model.answered("other")
    for _ in range(4):
        for named in poisoned:
            model.failed(named)
    assert model.admitted()


def test_a_repeated_failure_without_other_calls_requires_one_check(model: Model) -> None:
    assert model.failed("poisoned", checks=True) == Fault()
    assert model.failed("poisoned", checks=True) == Fault(alone=False, check=True)
    assert model.failed("other", checks=True) == Fault()
    assert model.failed("other", checks=True) == Fault()


def test_a_check_that_is_answered_is_evidence_and_one_that_fails_opens_the_circuit(model: Model) -> None:
    model.failed("poisoned", checks=True)
    assert model.failed("poisoned", checks=True).check
    model.answered(CHECK)
    assert model.failed("poisoned", checks=True).alone
    assert model.failed("poisoned", checks=True).check
    model.failed(CHECK)
    assert not model.admitted()


def test_before_the_circuit_opens_one_caller_checks(model: Model) -> None:
    requested = [model.failed(f"window {number}", checks=True).check for number in range(5)]
    assert requested == [False, False, True, False, False]
    assert model.admitted()


def test_a_failed_batch_is_checked_at_once(model: Model) -> None:
    assert model.failed(f"{BATCH}texts", checks=True).check


def test_a_refusal_of_one_input_counts_like_a_failure_and_opens_nothing(model: Model) -> None:
    model.ended(CallOutcome.REJECTED, "poisoned", checks=True)
    model.answered("other")
    model.now += 1
    assert model.ended(CallOutcome.REJECTED, "poisoned", checks=True).alone
    for number in range(10):
        model.ended(CallOutcome.REJECTED, f"{number}")
    assert model.admitted()


def test_a_failed_trial_of_a_poisoned_input_leaves_the_next_trial_to_another(redis_url: str) -> None:
    model = Shared(open_redis(redis_url), GIVEN)
    for named in ("one", "two", "three"):
        model.failed(named)
    model.now += 11
    assert model.admitted()
    assert model.failed("one", checks=True).check
    assert model.admitted()
    model.answered("another")
    assert model.admitted()


def test_what_redis_stores_of_inputs_is_bounded_and_ends_by_itself(redis_url: str) -> None:
    client = open_redis(redis_url)
    model = Shared(client, GIVEN)
    for number in range(600):
        model.failed(f"{number}")
    key = "memforest:limits:{m}:inputs"
    assert client.hlen(key) == 500
    assert 7_000 < client.ttl(key) < 7_300


def test_a_key_that_is_refused_for_a_poisoned_input_alone_stops_nobody(model: Model) -> None:
    model.failed("poisoned")
    model.answered("other")
    model.now += 1
    assert model.ended(CallOutcome.AUTH, "poisoned").alone
    assert model.admitted()
