"""What the script in Redis computes: buckets, the factor that 429s lower, the circuit; time is a number here."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import pytest
from redis import Redis

from memforest_core.models.limits.call_limits import PREFIX, RedisLedger, open_redis
from memforest_core.models.limits.model_limits import (
    URGENT,
    Admission,
    CallEnd,
    CallOutcome,
    ModelLimits,
    Pause,
    Reason,
    Verdict,
)
from tests.contract.limits.limited import limits_of

NOW = 1_000.0
OUTAGE = CallEnd(CallOutcome.UNAVAILABLE)
SUCCESS = CallEnd(CallOutcome.ANSWERED)
LEAST_MEASURED = 4
LOWEST_FACTOR = 1 / 16
STATE, PERMITS = f"{PREFIX}{{m}}", f"{PREFIX}{{m}}:permits"


@dataclass(frozen=True)
class ModelState:
    """What Redis stores of a model; a new state is a calm one."""

    requests: float | None = None
    tokens: float | None = None
    filled_at: float = 0.0
    factor: float = 1.0
    cut_at: float = -1.0
    cuts: float = 0
    measured: float = 0
    paused_until: float = 0.0
    failures: float = 0
    openings: float = 0
    opened_at: float = 0.0
    open_until: float = 0.0
    reason: str = ""
    trial: str = ""
    trial_until: float = 0.0
    requested_until: float = 0.0
    answered_at: float = -1.0
    other_at: float = -1.0
    answered_by: str = ""
    checked_until: float = 0.0


class Script:
    """The script on given states and times."""

    client: Redis

    @classmethod
    def run(cls, state: ModelState, given: ModelLimits, now: float, under_way: int) -> RedisLedger:
        """A ledger at ``now`` over this state, with so many calls under way."""
        cls.client.delete(STATE, PERMITS)
        stored = {name: value for name, value in asdict(state).items() if value is not None}
        cls.client.hset(STATE, mapping=stored)
        if under_way:
            cls.client.zadd(PERMITS, {f"other-{number}": now + 1e6 for number in range(under_way)})
        return RedisLedger(cls.client, given, lambda: now)

    @classmethod
    def stored(cls) -> ModelState:
        """The state as Redis has it now."""
        found: Any = cls.client.hgetall(STATE)
        texts = ("reason", "trial", "answered_by")
        names = [field.name for field in fields(ModelState) if field.name in found]
        return ModelState(**{name: found[name] if name in texts else float(found[name]) for name in names})


@pytest.fixture(autouse=True)
def script(redis_url: str) -> Iterator[None]:
    Script.client = open_redis(redis_url)
    yield
    Script.client.close()


def limits(**changes: Any) -> ModelLimits:
    return limits_of(**({"circuit_open_s": 10.0, "circuit_longest_s": 60.0} | changes))


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
    admission, _ = Script.run(state, given, now, under_way).admit("m", permit, tokens, hold_s)
    return Script.stored(), admission


def settle(state: ModelState, given: ModelLimits, end: CallEnd, *, under_way: int, now: float) -> ModelState:
    Script.run(state, given, now, under_way).settle("m", end)
    return Script.stored()


def poll(state: ModelState, now: float) -> tuple[ModelState, Pause]:
    seen = Script.run(state, limits(), now, 0).pause("m")
    return Script.stored(), seen


def factor_now(state: ModelState, now: float) -> float:
    """The share of the limits in use, computed from the wait for a request."""
    _, admission = ask(replace(state, requests=0.0, filled_at=now), limits(requests_per_minute=600), now)
    return 60 / (600 * 0.95 * admission.wait_s)


def ceiling(state: ModelState, given: ModelLimits, now: float) -> float:
    """How many calls may be under way at once."""
    busy = (calls for calls in range(40) if ask(state, given, now, under_way=calls)[1].verdict is Verdict.BUSY)
    return next(busy, float("inf"))


def after(*ends: CallEnd, given: ModelLimits | None = None, state: ModelState | None = None) -> ModelState:
    state = state or ModelState()
    for end in ends:
        state = settle(state, given or limits(), end, under_way=1, now=NOW)
    return state


def grants(given: ModelLimits, seconds: float, step: Callable[[], float], tokens: int = 1) -> list[float]:
    """When calls start if a caller retries all the time."""
    now, started = NOW, []
    Script.client.delete(STATE, PERMITS)
    ledger = RedisLedger(Script.client, given, lambda: now)
    while now < NOW + seconds:
        admission, _ = ledger.admit("m", "p", tokens, 30.0)
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


class TestConcurrency:
    @pytest.mark.parametrize(
        ("under_way", "verdict"), [(0, Verdict.GRANTED), (3, Verdict.GRANTED), (4, Verdict.BUSY), (9, Verdict.BUSY)]
    )
    def test_as_many_calls_as_allowed_are_under_way(self, under_way: int, verdict: Verdict) -> None:
        assert ask(ModelState(), limits(concurrent_calls=4), under_way=under_way)[1].verdict is verdict


class TestRateLimited:
    def limited(self, state: ModelState, now: float, started: float, wait: float | None = None, calls: int = 1) -> Any:
        end = CallEnd(CallOutcome.RATE_LIMITED, "p", started, 1, 0, wait)
        return settle(state, limits(), end, under_way=calls, now=now)

    def test_everybody_waits_as_long_as_the_provider_says(self) -> None:
        state = self.limited(ModelState(), NOW, NOW - 1, wait=7.0)
        _, admission = ask(state, limits(), NOW + 2)
        assert (admission.verdict, admission.wait_s) == (Verdict.PAUSED, 5.0)
        assert ask(state, limits(), NOW + 7)[1].verdict is Verdict.GRANTED

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
        recovered = [factor_now(state, NOW + 5 + seconds) for seconds in (0, 10, 20, 50, 500)]
        assert recovered == pytest.approx([0.5, 0.6, 0.7, 1.0, 1.0])

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

    def test_some_calls_always_go_on(self) -> None:
        """429s that come whatever we do, teach nothing below a few calls at once: the pauses they ask for do the rest."""
        state = self.limited(ModelState(), NOW, NOW - 1, wait=0.0, calls=1)
        for round_ in range(1, 6):
            state = self.limited(state, NOW + round_, NOW + round_ - 0.5, wait=0.0, calls=1)
        assert ceiling(state, limits(), NOW + 6) == LEAST_MEASURED
        assert ceiling(state, limits(concurrent_calls=2), NOW + 6) == 2

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


class TestPoll:
    def test_a_pause_and_an_open_circuit_are_seen(self) -> None:
        assert poll(ModelState(paused_until=NOW + 3), NOW)[1].paused_s == 3.0
        assert poll(after(OUTAGE, OUTAGE, OUTAGE), NOW + 4)[1].paused_s == 6.0

    def test_the_first_poll_allows_a_trial_and_the_next_waits_a_second(self) -> None:
        state, first = poll(after(OUTAGE, OUTAGE, OUTAGE), NOW + 10)
        state, second = poll(state, NOW + 10.25)
        _, third = poll(state, NOW + 11.0)
        assert (first, second, third) == (Pause(0.0, True), Pause(0.75), Pause(0.0, True))

    def test_while_the_trial_runs_the_others_poll_each_second(self) -> None:
        state, _ = ask(after(OUTAGE, OUTAGE, OUTAGE), limits(), NOW + 10, hold_s=30)
        assert poll(state, NOW + 11)[1] == Pause(1.0)


def test_the_servers_clock_is_the_clock() -> None:
    """Workers' clocks may differ by minutes: none of them is used."""
    seconds, micros = Script.client.time()
    _, now = RedisLedger(Script.client, limits_of()).admit("clock", "p", 1, 5.0)
    assert now == pytest.approx(seconds + micros / 1e6, abs=2.0)


def test_every_key_expires_and_contains_no_text() -> None:
    ledger = RedisLedger(Script.client, limits_of(requests_per_minute=60))
    ledger.admit("openai/m@host", "p", 1, 5.0)
    ledger.settle("openai/m@host", CallEnd(CallOutcome.UNAVAILABLE, "p", 0.0, 1))
    ledger.admit("openai/m@host", "q", 1, 5.0)
    keys = sorted(Script.client.scan_iter(f"{PREFIX}*"))
    assert keys == ["memforest:limits:{openai/m@host}", "memforest:limits:{openai/m@host}:permits"]
    assert all(7_000 < Script.client.ttl(key) < 7_300 for key in keys)
    values: Any = Script.client.hvals(keys[0])
    assert all(value == "" or float(value) >= -1 for value in values)


# Timeouts lower how many calls to a model are under way at once, for all workers; quick answers raise it


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
