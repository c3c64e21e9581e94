"""What an error says about a model, and what a call is estimated to cost; the name and the share of a model's limits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from memforest_core.errors import (
    ContentRefused,
    ContextTooLong,
    MemForestError,
    ModelAuthFailed,
    ModelRateLimited,
    ModelRejected,
    ModelUnavailable,
)
from memforest_core.models.limits.limited_models import FailedCalls
from memforest_core.models.limits.model_limits import (
    Admission,
    CallEnd,
    CallOutcome,
    ModelShare,
    Reason,
    Verdict,
    estimated_tokens,
    limit_key,
    outcome_of,
)
from tests.contract.limits.limited import limits_of


def called(error: MemForestError) -> MemForestError:
    error.call = object()
    return error


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (None, CallOutcome.ANSWERED),
        (called(ModelRateLimited("m")), CallOutcome.RATE_LIMITED),
        (called(ModelUnavailable("m")), CallOutcome.UNAVAILABLE),
        (called(ModelAuthFailed("m")), CallOutcome.AUTH),
        (called(ModelRejected("m")), CallOutcome.REJECTED),
        (called(ContextTooLong("m")), CallOutcome.REJECTED),
        (called(ContentRefused("m")), CallOutcome.REJECTED),
        (ModelUnavailable("all slots stayed busy"), CallOutcome.UNMADE),
        (ModelAuthFailed("no key is set"), CallOutcome.UNMADE),
    ],
)
def test_what_an_error_says_about_the_model(error: MemForestError | None, outcome: CallOutcome) -> None:
    assert outcome_of(error) is outcome


def test_tokens_are_estimated_by_bytes_and_the_answer_comes_on_top() -> None:
    assert estimated_tokens(["a" * 400]) == 101
    assert estimated_tokens(["記憶" * 100], output=50) == 201
    assert estimated_tokens([]) == 1
    assert estimated_tokens(["\ud800"]) == 1


@pytest.mark.parametrize(
    ("api_base", "key"),
    [
        (None, "openai/m"),
        ("http://10.0.0.1:8000/v1", "openai/m@10.0.0.1:8000"),
        ("https://user:secret@models.example/v1/?key=secret", "openai/m@models.example"),
    ],
)
def test_a_model_is_named_with_its_host_and_without_secrets(api_base: str | None, key: str) -> None:
    assert limit_key("openai/m", api_base) == key


def test_two_deployments_behind_one_host_differ_and_their_path_is_not_shown() -> None:
    one, other = (limit_key("m", f"https://gateway/acc-{n}/v1") for n in (1, 2))
    assert one != other
    assert "acc" not in one + other


def test_a_share_is_one_part_of_the_limits_and_lets_at_least_one_call_through() -> None:
    whole = limits_of(requests_per_minute=60, tokens_per_minute=900, concurrent_calls=2)
    assert whole.share(4) == replace(whole, requests_per_minute=15, tokens_per_minute=225, concurrent_calls=1)
    assert limits_of().share(4) == limits_of()


# Limits that one process observes while Redis is unavailable; time is a number here


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


# What the log says of failed calls


def test_each_kind_is_logged_at_once_and_its_repetitions_once_a_minute() -> None:
    now = 100.0
    calls = FailedCalls(lambda: now)
    refused, unavailable = ModelAuthFailed("The key is refused."), ModelUnavailable("It is away.")
    with capture_logs() as logged:
        for error in (refused, refused, unavailable, refused):
            calls.tell("extract", "openai/m", error)
        now = 161.0
        calls.tell("extract", "openai/m", refused)
    assert [(line["code"], line["reason"], line["since_last"]) for line in logged] == [
        ("model_auth_failed", "The key is refused.", 0),
        ("model_unavailable", "It is away.", 0),
        ("model_auth_failed", "The key is refused.", 2),
    ]
    assert {line["event"] for line in logged} == {"model_call_failed"}
