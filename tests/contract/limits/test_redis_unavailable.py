"""Redis frozen, killed, emptied: calls go on within the process's own share, and nobody waits for Redis."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from redis import Redis
from structlog.testing import capture_logs

from memforest_core.client.embedded.servers import EmbeddedServers
from memforest_core.errors import ModelRateLimited
from memforest_core.models.limits import call_limits
from memforest_core.models.limits.call_limits import CallLimits, client_address
from memforest_core.models.limits.model_limits import ModelLimits, ModelPaused
from tests.contract.limits.limited import MODEL, limited, limits_of, unavailable

Opened = Callable[..., CallLimits]


@pytest.fixture(autouse=True)
def short_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_limits, "REST_S", 1.0)


@pytest.fixture
def frozen(own_redis: EmbeddedServers) -> Iterator[Callable[[bool], None]]:
    """Stops the server in its tracks (its connections stay open and silent), and lets it go on."""
    pid = own_redis.valkey.pid
    assert pid is not None

    def freeze(stopped: bool) -> None:
        os.kill(pid, signal.SIGSTOP if stopped else signal.SIGCONT)

    yield freeze
    if own_redis.valkey.pid is not None:
        freeze(False)


def timed(limits: CallLimits, error: Any = None, wait_s: float = 0.0) -> float:
    started = time.monotonic()
    with limits.acquire(MODEL, 10, wait_s, hold_s=30.0) as permit:
        permit.done(error)
    return time.monotonic() - started


def under_way_at_most(limits: CallLimits, tried: int) -> int:
    """How many calls may be under way at once."""
    taken = []
    for _ in range(tried):
        try:
            taken.append(limits.acquire(MODEL, 1, 0.0, hold_s=30.0))
        except ModelRateLimited:
            break
    for permit in taken:
        permit.done(None)
    return len(taken)


class TestFrozen:
    def test_it_costs_one_timeout_now_and_then_and_not_one_per_call(
        self, own_redis: EmbeddedServers, frozen: Callable[[bool], None], opened: Opened
    ) -> None:
        limits = opened(url=own_redis.redis_url)
        timed(limits)
        frozen(True)
        with capture_logs() as logs:
            rounds = [[timed(limits) for _ in range(2_000)] for _ in range(3)]
            paused = limits.paused(MODEL)
        # Each round, however busy the machine is: 2,000 timeouts would take a quarter of an hour.
        for seconds in rounds:
            assert max(seconds) < 5.0
            assert sum(seconds) < 20.0
            assert sorted(seconds)[len(seconds) // 2] < 0.01
        # A busy machine delays one of the three rounds, not all.
        assert min(max(seconds) for seconds in rounds) < 1.3
        assert min(sum(seconds) for seconds in rounds) < 3.0
        assert min(sorted(seconds)[len(seconds) // 2] for seconds in rounds) < 0.001
        assert paused == 0.0
        assert [line["event"] for line in logs] == ["shared_limits_unavailable"]

    def test_each_process_stays_within_its_share_until_redis_is_back(
        self, own_redis: EmbeddedServers, frozen: Callable[[bool], None], opened: Opened
    ) -> None:
        limits = opened(limits_of(concurrent_calls=8), processes=4, url=own_redis.redis_url)
        assert under_way_at_most(limits, 12) == 8
        frozen(True)
        assert under_way_at_most(limits, 12) == 2
        frozen(False)
        time.sleep(1.1)
        # Redis now runs the requests that it got while it was frozen: permits that expire.
        with capture_logs() as logs:
            assert 2 < under_way_at_most(limits, 12) <= 8
        assert [line["event"] for line in logs] == ["shared_limits_back"]

    def test_calls_that_were_under_way_count_in_the_share(
        self, own_redis: EmbeddedServers, frozen: Callable[[bool], None], opened: Opened
    ) -> None:
        limits = opened(limits_of(concurrent_calls=8), processes=2, url=own_redis.redis_url)
        held = [limits.acquire(MODEL, 1, 0.0, hold_s=30.0) for _ in range(3)]
        frozen(True)
        assert under_way_at_most(limits, 12) == 1
        for permit in held:
            permit.done(None)
        assert under_way_at_most(limits, 12) == 4

    def test_the_circuit_and_a_429_work_without_it(
        self, own_redis: EmbeddedServers, frozen: Callable[[bool], None], opened: Opened
    ) -> None:
        limits = opened(url=own_redis.redis_url)
        timed(limits, unavailable())
        timed(limits, unavailable())
        frozen(True)
        timed(limits, unavailable())
        with pytest.raises(ModelPaused):
            timed(limits)
        time.sleep(0.5)
        timed(limits)
        timed(limits, limited(30.0))
        assert 29.0 < limits.paused(MODEL) <= 30.0


class TestGone:
    def test_killed_and_started_again_it_is_used_again(self, own_redis: EmbeddedServers, opened: Opened) -> None:
        limits = opened(limits_of(concurrent_calls=8), processes=4, url=own_redis.redis_url)
        held = limits.acquire(MODEL, 1, 0.0, hold_s=30.0)
        own_redis.valkey.kill()
        with capture_logs() as logs:
            assert max(timed(limits) for _ in range(200)) < 0.5
        assert [(line["event"], line["log_level"]) for line in logs] == [("shared_limits_unavailable", "warning")]
        own_redis.valkey.start()
        time.sleep(1.1)
        assert under_way_at_most(limits, 12) == 8
        held.done(None)
        assert under_way_at_most(limits, 12) == 8

    def test_it_need_not_be_there_at_the_start(self, own_redis: EmbeddedServers, opened: Opened) -> None:
        own_redis.valkey.kill()
        limits = opened(limits_of(concurrent_calls=8), processes=4, url=own_redis.redis_url)
        assert under_way_at_most(limits, 12) == 2
        own_redis.valkey.start()
        time.sleep(1.1)
        assert under_way_at_most(limits, 12) == 8

    def test_emptied_it_goes_on(self, own_redis: EmbeddedServers, opened: Opened) -> None:
        given: ModelLimits = limits_of(concurrent_calls=2, requests_per_minute=6_000)
        limits = opened(given, url=own_redis.redis_url)
        client = Redis.from_url(own_redis.redis_url)
        held = limits.acquire(MODEL, 1, 0.0, hold_s=30.0)
        client.flushall()
        client.script_flush()
        with capture_logs() as logs:
            assert under_way_at_most(limits, 5) == 2
            held.done(None)
            assert under_way_at_most(limits, 5) == 2
        assert logs == []
        client.close()

    def test_a_server_that_refuses_writes_counts_as_unavailable(
        self, own_redis: EmbeddedServers, opened: Opened
    ) -> None:
        limits = opened(url=own_redis.redis_url)
        client = Redis.from_url(own_redis.redis_url)
        client.replicaof("127.0.0.1", "1")
        with capture_logs() as logs:
            timed(limits)
            timed(limits)
        client.close()
        assert [line["event"] for line in logs] == ["shared_limits_unavailable"]

    def test_without_redis_at_all_each_process_has_its_share(self) -> None:
        limits = CallLimits(None, limits_of(concurrent_calls=9), 3)
        assert under_way_at_most(limits, 12) == 3
        limits.close()


@pytest.mark.parametrize(
    ("broker", "address"),
    [
        ("redis://:pw@host:6380/2", "redis://:pw@host:6380/2"),
        ("redis://a:1/0;redis://b:1/0", "redis://a:1/0"),
        ("rediss://host:6380/2?ssl_cert_reqs=CERT_NONE", "rediss://host:6380/2?ssl_cert_reqs=none"),
        ("redis+socket:///run/valkey.sock", "unix:///run/valkey.sock?db=0"),
        ("redis+socket:///run/valkey.sock?virtual_host=3", "unix:///run/valkey.sock?db=3"),
        ("sentinel://host:26379", None),
    ],
)
def test_the_brokers_address_is_the_clients(broker: str, address: str | None) -> None:
    assert client_address(broker) == address
