"""The ledger in Redis decides as the one in memory does, number for number, over any sequence of calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis import Redis

from memforest_core.domain.limits import CallEnd, CallOutcome, ModelLimits, ModelState, Verdict
from memforest_core.models.limits.ledgers import PREFIX, MemoryLedger, RedisLedger
from memforest_core.models.limits.redis_address import open_redis
from tests.contract.limits.limited import limits_of

START = 1_795_000_000.123456

LIMITS = st.builds(
    ModelLimits,
    requests_per_minute=st.none() | st.integers(1, 600) | st.floats(0.3, 100.0),
    tokens_per_minute=st.none() | st.integers(1, 100_000),
    concurrent_calls=st.none() | st.integers(1, 6),
    circuit_failures=st.integers(1, 3),
    circuit_open_s=st.floats(0.5, 20.0),
    circuit_longest_s=st.floats(20.0, 100.0),
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["admit", "admit", "admit", "end", "end", "end", "report", "look"]),
        # Seconds that pass, or to where something ends: pauses, circuits and trials are over just then.
        st.sampled_from([0.0, 0.0, 0.01, 0.3, "pause", "circuit", "trial", -2.0]) | st.floats(0.0, 30.0),
        st.sampled_from([*CallOutcome, CallOutcome.UNAVAILABLE, CallOutcome.UNAVAILABLE]),
        st.integers(1, 5_000),
        st.none() | st.integers(0, 9_000),
        st.none() | st.floats(0.0, 90.0),
        st.integers(0, 20),
    ),
    min_size=30,
    max_size=60,
)


@pytest.fixture
def client(redis_url: str) -> Iterator[Redis]:
    opened = open_redis(redis_url)
    yield opened
    opened.close()


def kept(client: Redis, model: str) -> ModelState:
    """The state as Redis has it."""
    fields_kept: Any = client.hgetall(f"{PREFIX}{{{model}}}")
    given: dict[str, Any] = {}
    for field in fields(ModelState):
        if field.name in fields_kept:
            text = fields_kept[field.name]
            given[field.name] = text if field.name in ("reason", "trial") else float(text)
    return ModelState(**given)


class _Twins:
    """Both ledgers on one clock; every answer is compared."""

    def __init__(self, client: Redis, limits: ModelLimits, model: str) -> None:
        self.now = START
        self.model = model
        self.client = client
        self.memory = MemoryLedger(limits, lambda: self.now)
        self.redis = RedisLedger(client, limits, lambda: self.now)
        self.under_way: list[tuple[str, float, int]] = []
        self.count = 0

    def admit(self, tokens: int, hold_s: float) -> None:
        self.count += 1
        name = f"permit-{self.count}"
        one = self.memory.admit(self.model, name, tokens, hold_s)
        assert one == self.redis.admit(self.model, name, tokens, hold_s)
        if one[0].verdict is Verdict.GRANTED:
            self.under_way.append((name, one[1], tokens))

    def settle(self, end: CallEnd) -> None:
        self.memory.settle(self.model, end)
        self.redis.settle(self.model, end)

    def look(self) -> None:
        assert self.memory.look(self.model) == self.redis.look(self.model)

    def passes(self, elapsed: float | str) -> None:
        state = self.memory._states.get(self.model, ModelState())
        ends = {"pause": state.paused_until, "circuit": state.open_until, "trial": state.trial_until}
        self.now = max(self.now, ends[elapsed]) if isinstance(elapsed, str) else self.now + elapsed

    def same(self) -> None:
        assert kept(self.client, self.model) == self.memory._states.get(self.model, ModelState())


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(LIMITS, STEPS)
def test_both_ledgers_agree_on_any_sequence(client: Redis, limits: ModelLimits, steps: list[Any]) -> None:
    client.delete(f"{PREFIX}{{twin}}", f"{PREFIX}{{twin}}:permits")
    twins = _Twins(client, limits, "twin")
    for kind, elapsed, outcome, tokens, used, retry_after, which in steps:
        twins.passes(elapsed)
        if kind == "admit":
            twins.admit(tokens, hold_s=7.5 + which)
        elif kind == "end" and twins.under_way:
            name, started, reserved = twins.under_way.pop(which % len(twins.under_way))
            twins.settle(CallEnd(outcome, name, started, reserved, used, retry_after))
        elif kind == "report":
            twins.settle(CallEnd(outcome, retry_after=retry_after))
        else:
            twins.look()
        if kind != "look":
            twins.same()


def test_the_servers_clock_is_the_clock(client: Redis) -> None:
    """Workers' clocks may differ by minutes: none of them is asked."""
    seconds, micros = client.time()
    _, now = RedisLedger(client, limits_of()).admit("clock", "p", 1, 5.0)
    assert now == pytest.approx(seconds + micros / 1e6, abs=2.0)


def test_every_key_ends_by_itself_and_holds_no_text(client: Redis) -> None:
    ledger = RedisLedger(client, limits_of(requests_per_minute=60))
    ledger.admit("openai/m@host", "p", 1, 5.0)
    ledger.settle("openai/m@host", CallEnd(CallOutcome.UNAVAILABLE, "p", 0.0, 1))
    ledger.admit("openai/m@host", "q", 1, 5.0)
    keys = sorted(client.scan_iter(f"{PREFIX}*"))
    assert keys == ["memforest:limits:{openai/m@host}", "memforest:limits:{openai/m@host}:permits"]
    assert all(7_000 < client.ttl(key) < 7_300 for key in keys)
    values = client.hvals(keys[0])
    assert all(value == "" or float(value) >= -1 for value in values)
