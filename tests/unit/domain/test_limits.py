"""The arithmetic of limits: buckets, the factor that 429s lower, the circuit; time is a number here."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from memforest_core.domain.limits import (
    LEAST_MEASURED,
    LOWEST_FACTOR,
    Admission,
    CallEnd,
    CallOutcome,
    Look,
    ModelLimits,
    ModelState,
    Reason,
    Verdict,
    admit,
    ceiling,
    estimated_tokens,
    factor_now,
    limit_key,
    look,
    outcome_of,
    settle,
)
from memforest_core.errors import (
    ContentRefused,
    ContextTooLong,
    MemForestError,
    ModelAuthFailed,
    ModelRateLimited,
    ModelRejected,
    ModelUnavailable,
)

NOW = 1_000.0
OUTAGE = CallEnd(CallOutcome.UNAVAILABLE)
SUCCESS = CallEnd(CallOutcome.ANSWERED)


def limits(**changes: Any) -> ModelLimits:
    given: dict[str, Any] = {
        "requests_per_minute": None,
        "tokens_per_minute": None,
        "concurrent_calls": None,
        "circuit_failures": 3,
        "circuit_open_s": 10.0,
        "circuit_longest_s": 60.0,
    }
    return ModelLimits(**(given | changes))


def ask(
    state: ModelState,
    given: ModelLimits,
    now: float = NOW,
    *,
    permit: str = "p",
    tokens: int = 1,
    hold_s: float = 30.0,
    under_way: int = 0,
) -> tuple[ModelState, Admission]:
    return admit(state, given, permit=permit, tokens=tokens, hold_s=hold_s, under_way=under_way, now=now)


def after(*ends: CallEnd, given: ModelLimits | None = None, state: ModelState | None = None) -> ModelState:
    state = state or ModelState()
    for end in ends:
        state = settle(state, given or limits(), end, under_way=1, now=NOW)
    return state


def grants(given: ModelLimits, seconds: float, step: Callable[[], float], tokens: int = 1) -> list[float]:
    """When calls start if somebody asks again and again."""
    state, now, started = ModelState(), NOW, []
    while now < NOW + seconds:
        state, admission = ask(state, given, now, tokens=tokens)
        if admission.verdict is Verdict.GRANTED:
            started.append(now)
        else:
            now += max(0.001, min(admission.wait_s, step()))
    return started


def busiest(started: list[float], window_s: float) -> int:
    """The most starts in any window that is open at its end."""
    return max((sum(1 for each in started if first <= each < first + window_s) for first in started), default=0)


class TestRequestsPerMinute:
    @pytest.mark.parametrize("per_minute", [1, 2, 7, 60, 90, 600])
    def test_no_minute_ever_sees_more_than_the_limit(self, per_minute: int) -> None:
        rng = random.Random(per_minute)
        started = grants(limits(requests_per_minute=per_minute), 200.0, lambda: rng.uniform(0.001, 0.5))
        assert busiest(started, 60.0) <= per_minute

    @pytest.mark.parametrize("per_minute", [60, 600])
    def test_nearly_all_of_the_limit_is_used(self, per_minute: int) -> None:
        started = grants(limits(requests_per_minute=per_minute), 300.0, lambda: 0.05)
        assert len(started) >= 5 * per_minute * 0.94

    def test_the_burst_is_three_seconds_of_the_limit_and_one(self) -> None:
        started = grants(limits(requests_per_minute=200), 0.001, lambda: 1.0)
        assert len(started) == 11

    def test_a_refusal_says_when_the_next_request_is_there(self) -> None:
        given = limits(requests_per_minute=1)
        state, _ = ask(ModelState(), given)
        state, admission = ask(state, given)
        assert admission.verdict is Verdict.SPENT
        assert ask(state, given, NOW + admission.wait_s - 0.1)[1].verdict is Verdict.SPENT
        assert ask(state, given, NOW + admission.wait_s + 0.001)[1].verdict is Verdict.GRANTED

    def test_a_call_that_was_never_made_gives_its_request_and_tokens_back(self) -> None:
        given = limits(requests_per_minute=1, tokens_per_minute=100)
        state, _ = ask(ModelState(), given, tokens=50)
        state = settle(state, given, CallEnd(CallOutcome.UNMADE, "p", NOW, 50), under_way=1, now=NOW)
        assert ask(state, given)[1].verdict is Verdict.GRANTED

    def test_a_clock_that_is_set_back_fills_nothing_and_stops_nothing(self) -> None:
        given = limits(requests_per_minute=60)
        state = ModelState(requests=0.0, filled_at=NOW)
        state, admission = ask(state, given, NOW - 300.0)
        assert (admission.verdict, state.requests) == (Verdict.SPENT, 0.0)
        assert ask(state, given, NOW - 298.0)[1].verdict is Verdict.GRANTED


class TestTokensPerMinute:
    @pytest.mark.parametrize("tokens", [15, 90, 700])
    def test_a_minute_sees_the_limit_and_at_most_one_call_more(self, tokens: int) -> None:
        started = grants(limits(tokens_per_minute=3_000), 200.0, lambda: 0.05, tokens)
        assert (busiest(started, 60.0) - 1) * tokens < 3_000
        assert len(started) * tokens >= 3_000 * 200 / 60 * 0.9

    def test_a_call_larger_than_the_limit_starts_and_is_paid_for_afterwards(self) -> None:
        given = limits(tokens_per_minute=600)
        state, admission = ask(ModelState(), given, tokens=6_000)
        assert admission.verdict is Verdict.GRANTED
        assert ask(state, given)[1].wait_s == pytest.approx((6_000 - 30) / 9.5, rel=0.001)

    def test_what_was_reserved_and_not_used_comes_back(self) -> None:
        given = limits(tokens_per_minute=1_000)
        state, _ = ask(ModelState(), given, tokens=500)
        end = CallEnd(CallOutcome.ANSWERED, "p", NOW, reserved=500, used=40)
        assert settle(state, given, end, under_way=1, now=NOW).tokens == pytest.approx(10.0)

    def test_what_was_used_beyond_the_estimate_is_owed(self) -> None:
        given = limits(tokens_per_minute=1_000)
        state, _ = ask(ModelState(), given, tokens=10)
        end = CallEnd(CallOutcome.ANSWERED, "p", NOW, reserved=10, used=400)
        assert settle(state, given, end, under_way=1, now=NOW).tokens == pytest.approx(50 - 400)

    def test_unknown_use_keeps_the_estimate(self) -> None:
        given = limits(tokens_per_minute=1_000)
        state, _ = ask(ModelState(), given, tokens=10)
        end = CallEnd(CallOutcome.UNAVAILABLE, "p", NOW, reserved=10)
        assert settle(state, given, end, under_way=1, now=NOW).tokens == pytest.approx(40.0)


class TestConcurrency:
    @pytest.mark.parametrize(
        ("under_way", "verdict"), [(0, Verdict.GRANTED), (3, Verdict.GRANTED), (4, Verdict.BUSY), (9, Verdict.BUSY)]
    )
    def test_as_many_calls_as_allowed_are_under_way(self, under_way: int, verdict: Verdict) -> None:
        assert ask(ModelState(), limits(concurrent_calls=4), under_way=under_way)[1].verdict is verdict

    def test_without_a_limit_there_is_none(self) -> None:
        assert ask(ModelState(), limits(), under_way=10_000)[1].verdict is Verdict.GRANTED


class TestRateLimited:
    def limited(self, state: ModelState, now: float, started: float, wait: float | None = None, calls: int = 1) -> Any:
        end = CallEnd(CallOutcome.RATE_LIMITED, "p", started, 1, 0, wait)
        return settle(state, limits(), end, under_way=calls, now=now)

    def test_everybody_waits_as_long_as_the_provider_says(self) -> None:
        state = self.limited(ModelState(), NOW, NOW - 1, wait=7.0)
        _, admission = ask(state, limits(), NOW + 2)
        assert (admission.verdict, admission.wait_s) == (Verdict.PAUSED, 5.0)
        assert ask(state, limits(), NOW + 7)[1].verdict is Verdict.GRANTED

    def test_a_shorter_wait_does_not_end_a_longer_one(self) -> None:
        state = self.limited(self.limited(ModelState(), NOW, NOW - 1, wait=7.0), NOW, NOW - 1, wait=1.0)
        assert state.paused_until == NOW + 7

    def test_calls_that_were_under_way_together_lower_the_factor_once(self) -> None:
        state = self.limited(ModelState(), NOW, NOW - 1, wait=1.0)
        for _ in range(30):
            state = self.limited(state, NOW + 0.5, NOW - 1, wait=1.0)
        assert state.factor == 0.5

    def test_the_factor_halves_down_to_a_sixteenth(self) -> None:
        state, factors = ModelState(), []
        for round_ in range(6):
            now = NOW + round_
            state = self.limited(state, now, now - 0.1, wait=1.0)
            factors.append(state.factor)
        assert factors == [0.5, 0.25, 0.125, LOWEST_FACTOR, LOWEST_FACTOR, LOWEST_FACTOR]

    def test_the_factor_recovers_by_a_tenth_of_the_limit_in_ten_seconds(self) -> None:
        state = self.limited(ModelState(), NOW, NOW - 1, wait=5.0)
        recovered = [factor_now(state, NOW + 5 + seconds) for seconds in (-3, 0, 10, 20, 50, 500)]
        assert recovered == pytest.approx([0.5, 0.5, 0.6, 0.7, 1.0, 1.0])

    def test_half_the_factor_is_half_the_rate(self) -> None:
        given = limits(requests_per_minute=600)
        state = ModelState(requests=0.0, filled_at=NOW, factor=0.5, cut_at=NOW)
        assert ask(state, given)[1].wait_s == pytest.approx(2 * 60 / (600 * 0.95))

    def test_without_a_word_how_long_the_pause_doubles(self) -> None:
        state, now, pauses = ModelState(), NOW, []
        for _ in range(9):
            state = self.limited(state, now, now - 0.1)
            pauses.append(state.paused_until - now)
            now = state.paused_until + 0.2
        assert pauses == pytest.approx([1, 2, 4, 8, 16, 32, 60, 60, 60])

    def test_an_answer_makes_the_next_pause_short_again(self) -> None:
        state = self.limited(self.limited(ModelState(), NOW, NOW - 1), NOW + 2, NOW + 1)
        state = settle(state, limits(), CallEnd(CallOutcome.ANSWERED, "q", NOW + 3), under_way=1, now=NOW + 5)
        state = self.limited(state, NOW + 6, NOW + 5.5)
        assert state.paused_until == NOW + 7

    def test_without_a_rate_the_calls_at_once_are_measured_and_halved(self) -> None:
        state = self.limited(ModelState(), NOW, NOW - 1, wait=0.0, calls=20)
        assert ceiling(state, limits(), NOW) == 10
        assert ceiling(state, limits(), NOW + 10) == 12
        assert ceiling(state, limits(), NOW + 51) == float("inf")
        assert ask(state, limits(), under_way=10)[1].verdict is Verdict.BUSY

    def test_a_second_429_halves_what_was_measured_at_the_first(self) -> None:
        state = self.limited(ModelState(), NOW, NOW - 1, wait=0.0, calls=20)
        state = self.limited(state, NOW + 1, NOW + 0.5, wait=0.0, calls=3)
        assert ceiling(state, limits(), NOW + 1) == 5

    def test_some_calls_always_go_on(self) -> None:
        """429s that come whatever we do, teach nothing below a few calls at once: the pauses they ask for do the rest."""
        state = self.limited(ModelState(), NOW, NOW - 1, wait=0.0, calls=1)
        for round_ in range(1, 6):
            state = self.limited(state, NOW + round_, NOW + round_ - 0.5, wait=0.0, calls=1)
        assert ceiling(state, limits(), NOW + 6) == LEAST_MEASURED
        assert ceiling(state, limits(concurrent_calls=2), NOW + 6) == 2

    def test_with_a_rate_the_rate_falls_and_not_the_calls_at_once(self) -> None:
        state = self.limited(ModelState(), NOW, NOW - 1, wait=0.0, calls=20)
        assert ceiling(state, limits(requests_per_minute=60, concurrent_calls=30), NOW) == 30

    def test_a_429_is_no_failure_of_the_circuit(self) -> None:
        state = after(OUTAGE, OUTAGE)
        state = self.limited(state, NOW, NOW - 1, wait=0.0)
        assert after(OUTAGE, OUTAGE, state=state).openings == 0


class TestCircuit:
    @pytest.mark.parametrize(
        ("ends", "openings"),
        [
            ([OUTAGE, OUTAGE], 0),
            ([OUTAGE, OUTAGE, OUTAGE], 1),
            ([OUTAGE, OUTAGE, SUCCESS, OUTAGE, OUTAGE], 0),
            ([OUTAGE, OUTAGE, CallEnd(CallOutcome.UNMADE), OUTAGE], 1),
            ([CallEnd(CallOutcome.AUTH)], 1),
        ],
    )
    def test_it_opens_after_failures_in_a_row_and_at_once_for_a_refused_key(
        self, ends: list[CallEnd], openings: int
    ) -> None:
        assert after(*ends).openings == openings

    def test_while_open_nobody_calls(self) -> None:
        state = after(OUTAGE, OUTAGE, OUTAGE)
        assert ask(state, limits(), NOW + 3)[1] == Admission(Verdict.OPEN, 7.0, Reason.OUTAGE)

    def test_the_reason_is_told(self) -> None:
        assert ask(after(CallEnd(CallOutcome.AUTH)), limits(), NOW)[1].reason is Reason.AUTH

    def test_a_provider_that_names_a_longer_wait_gets_it(self) -> None:
        end = replace(OUTAGE, retry_after=25.0)
        assert after(end, end, end).open_until == NOW + 25

    def test_then_one_trial_goes_through(self) -> None:
        state = after(OUTAGE, OUTAGE, OUTAGE)
        state, first = ask(state, limits(), NOW + 10, permit="trial", hold_s=30)
        state, second = ask(state, limits(), NOW + 10.5)
        assert first.verdict is Verdict.GRANTED
        assert second == Admission(Verdict.OPEN, 1.0, Reason.OUTAGE)

    def test_a_success_of_the_trial_closes_it(self) -> None:
        state, _ = ask(after(OUTAGE, OUTAGE, OUTAGE), limits(), NOW + 10, permit="trial")
        end = CallEnd(CallOutcome.ANSWERED, "trial", NOW + 10, 1)
        state = settle(state, limits(), end, under_way=1, now=NOW + 11)
        assert state.openings == 0
        assert ask(state, limits(), NOW + 11, under_way=5)[1].verdict is Verdict.GRANTED

    @pytest.mark.parametrize("outcome", [CallOutcome.UNAVAILABLE, CallOutcome.AUTH])
    def test_failed_trials_double_the_pause_up_to_the_longest(self, outcome: CallOutcome) -> None:
        state, now, pauses = after(OUTAGE, OUTAGE, OUTAGE), NOW, []
        for _ in range(5):
            now = state.open_until
            state, _ = ask(state, limits(), now, permit="trial")
            state = settle(state, limits(), CallEnd(outcome, "trial", now, 1), under_way=1, now=now)
            pauses.append(state.open_until - now)
        assert pauses == [20, 40, 60, 60, 60]

    def test_calls_from_before_the_outage_neither_lengthen_nor_end_it(self) -> None:
        state = after(OUTAGE, OUTAGE, OUTAGE)
        for outcome in (CallOutcome.UNAVAILABLE, CallOutcome.ANSWERED, CallOutcome.AUTH):
            assert after(CallEnd(outcome, "old", NOW - 5, 1), state=state).open_until == state.open_until

    def test_a_trial_whose_worker_died_is_replaced_when_its_permit_ends(self) -> None:
        state, _ = ask(after(OUTAGE, OUTAGE, OUTAGE), limits(), NOW + 10, permit="dead", hold_s=5)
        assert ask(state, limits(), NOW + 14.9)[1].verdict is Verdict.OPEN
        assert ask(state, limits(), NOW + 15)[1].verdict is Verdict.GRANTED

    def test_a_trial_that_was_not_made_leaves_it_to_the_next(self) -> None:
        state, _ = ask(after(OUTAGE, OUTAGE, OUTAGE), limits(), NOW + 10, permit="trial")
        state = settle(state, limits(), CallEnd(CallOutcome.UNMADE, "trial", NOW + 10, 1), under_way=1, now=NOW + 10)
        assert ask(state, limits(), NOW + 10)[1].verdict is Verdict.GRANTED


class TestLook:
    def test_a_calm_model_is_not_paused(self) -> None:
        assert look(ModelState(), NOW) == (ModelState(), Look(0.0))

    def test_a_pause_and_an_open_circuit_are_seen(self) -> None:
        assert look(ModelState(paused_until=NOW + 3), NOW)[1].paused_s == 3.0
        assert look(after(OUTAGE, OUTAGE, OUTAGE), NOW + 4)[1].paused_s == 6.0

    def test_one_who_asks_is_sent_to_try_and_the_next_waits_a_second(self) -> None:
        state, first = look(after(OUTAGE, OUTAGE, OUTAGE), NOW + 10)
        state, second = look(state, NOW + 10.25)
        _, third = look(state, NOW + 11.0)
        assert (first, second, third) == (Look(0.0, True), Look(0.75), Look(0.0, True))

    def test_while_the_trial_runs_the_others_look_again_each_second(self) -> None:
        state, _ = ask(after(OUTAGE, OUTAGE, OUTAGE), limits(), NOW + 10, hold_s=30)
        assert look(state, NOW + 11)[1] == Look(1.0)


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
        (called(ModelRejected("m")), CallOutcome.ANSWERED),
        (called(ContextTooLong("m")), CallOutcome.ANSWERED),
        (called(ContentRefused("m")), CallOutcome.ANSWERED),
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


def test_two_deployments_behind_one_host_are_apart_and_their_path_is_not_told() -> None:
    one, other = (limit_key("m", f"https://gateway/acc-{n}/v1") for n in (1, 2))
    assert one != other
    assert "acc" not in one + other


def test_a_share_is_one_part_of_the_limits_and_lets_at_least_one_call_through() -> None:
    whole = limits(requests_per_minute=60, tokens_per_minute=900, concurrent_calls=2)
    assert whole.share(4) == replace(whole, requests_per_minute=15, tokens_per_minute=225, concurrent_calls=1)
    assert limits().share(4) == limits()
