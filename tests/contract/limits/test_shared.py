"""What all workers share: nobody exceeds it together, everybody learns of a 429, an outage, a death."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from memforest_core.errors import ModelAuthFailed, ModelRateLimited
from memforest_core.models.limits.call_limits import PREFIX, CallLimits, RedisLedger
from tests.contract.limits.limited import MODEL, limited, limits_of, unavailable
from tests.harness.timing import until, within

ROOT = Path(__file__).parents[3]
Opened = Callable[..., CallLimits]


def call(limits: CallLimits, error: Any = None, *, wait_s: float = 0.0, tokens: int = 10) -> None:
    """One call that ends with this error or, without one, well."""
    with limits.acquire(MODEL, tokens, wait_s, hold_s=30.0) as permit:
        permit.done(error)


@contextmanager
def callers(url: str, count: int, *, threads: int, seconds: float, call_s: float, **limits: Any) -> Iterator[list[Any]]:
    """So many processes, started together."""
    arguments = [url, json.dumps(limits), str(threads), str(seconds), str(call_s)]
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.contract.limits.caller", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for _ in range(count)
    ]
    try:
        for each in running:
            assert each.stdout is not None
            assert each.stdin is not None
            assert each.stdout.readline() == "ready\n"
        for each in running:
            assert each.stdin is not None
            each.stdin.write("\n")
            each.stdin.flush()
        yield running
    finally:
        for each in running:
            each.kill()
            each.communicate()


def spans(running: list[Any], timeout: float) -> list[tuple[float, float]]:
    """When calls began and ended, over all processes."""
    lines = [line for each in running for line in each.communicate(timeout=timeout)[0].splitlines()]
    return sorted((started, ended) for started, ended in map(json.loads, lines))


class TestTogether:
    def test_processes_do_not_exceed_requests_per_minute(self, redis_url: str) -> None:
        with callers(redis_url, 2, threads=4, seconds=3.0, call_s=0.0, requests_per_minute=1_200) as running:
            started = [first for first, _ in spans(running, 20)]
        # 1,200 a minute: a burst of 61, then 19 a second.
        for i, first in enumerate(started):
            for j in range(i + 1, len(started)):
                # A call begins a little after its permit was given, so windows may shrink by that much.
                assert j - i + 1 <= 61 + 19 * (started[j] - first + 0.5)
        assert len(started) >= 100

    def test_processes_do_not_exceed_concurrent_calls(self, redis_url: str) -> None:
        with callers(redis_url, 3, threads=6, seconds=2.0, call_s=0.05, concurrent_calls=5) as running:
            calls = spans(running, 20)
        changes = sorted([(first, 1) for first, _ in calls] + [(last, -1) for _, last in calls])
        under_way, peak = 0, 0
        for _, change in changes:
            under_way += change
            peak = max(peak, under_way)
        assert peak == 5
        assert len(calls) >= 60


class TestPermits:
    def test_a_call_that_gets_none_in_time_learns_when_to_retry(self, opened: Opened) -> None:
        limits = opened(limits_of(requests_per_minute=1))
        call(limits)

        def refused_at_once() -> None:
            with pytest.raises(ModelRateLimited) as caught:
                call(limits, wait_s=5.0)
            assert caught.value.retry_after == pytest.approx(60.0, abs=5.0)
            assert caught.value.call is None

        assert within(1.0, refused_at_once), "it is known that waiting is in vain"

    def test_a_permit_is_given_back_once_however_it_ends(self, opened: Opened) -> None:
        limits = opened(limits_of(concurrent_calls=1))
        permit = limits.acquire(MODEL, 1, 0.0, hold_s=30.0)
        permit.done(None)
        permit.done(unavailable())
        with pytest.raises(ZeroDivisionError), limits.acquire(MODEL, 1, 0.0, hold_s=30.0):
            raise ZeroDivisionError
        call(limits)

    def test_the_permits_of_a_killed_worker_end_by_themselves(self, redis_url: str, opened: Opened) -> None:
        limits = opened(limits_of(concurrent_calls=2))
        with callers(redis_url, 1, threads=2, seconds=30.0, call_s=30.0, concurrent_calls=2) as running:
            until(lambda: refuses(limits))
            running[0].send_signal(signal.SIGKILL)
            running[0].wait()
        assert refuses(limits)
        client = Redis.from_url(redis_url)
        held: Any = client.zrange(f"{PREFIX}{{{MODEL}}}:permits", 0, -1, withscores=True)
        assert [end - time.time() for _, end in held] == pytest.approx([60.0, 60.0], abs=5.0)
        client.zadd(f"{PREFIX}{{{MODEL}}}:permits", {name: time.time() - 0.001 for name, _ in held}, xx=True)
        client.close()
        call(limits)

    def test_a_closing_worker_waits_no_longer(self, opened: Opened) -> None:
        limits, other = opened(limits_of(concurrent_calls=1)), opened(limits_of(concurrent_calls=1))
        other.acquire(MODEL, 1, 0.0, hold_s=30.0)
        threading.Timer(0.2, limits.close).start()
        started = time.monotonic()
        with pytest.raises(ModelRateLimited):
            call(limits, wait_s=20.0)
        assert time.monotonic() - started < 5.0

    def test_a_closing_worker_lets_a_question_to_redis_be_answered(
        self, opened: Opened, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Given a caller with a request to Redis under way, when the worker closes, then the connection stays open until
        Redis has answered."""
        limits = opened(limits_of(concurrent_calls=1))
        ask, queries, answered = RedisLedger._run, threading.Event(), threading.Event()

        def slowly(ledger: RedisLedger, *arguments: Any) -> Any:
            queries.set()
            time.sleep(0.3)
            answer = ask(ledger, *arguments)
            answered.set()
            return answer

        monkeypatch.setattr(RedisLedger, "_run", slowly)
        with ThreadPoolExecutor(1) as threads:
            querying = threads.submit(limits.acquire, MODEL, 1, 0.0, hold_s=0.5)
            assert queries.wait(5.0)
            limits.close()
            assert answered.is_set()
            querying.result()


def refuses(limits: CallLimits) -> bool:
    try:
        call(limits)
    except ModelRateLimited:
        return True
    return False


class TestRateLimited:
    @pytest.mark.parametrize("minutes", [-5, 5])
    def test_a_worker_whose_clock_is_wrong_waits_as_long(
        self, opened: Opened, monkeypatch: pytest.MonkeyPatch, minutes: int
    ) -> None:
        one, other, right = opened(), opened(), time.time
        call(one, limited(2.0))
        monkeypatch.setattr(time, "time", lambda: right() + 60 * minutes)
        assert 1.5 < other.paused(MODEL) <= 2.0
        call(other, wait_s=5.0)
        call(one)


class TestCircuit:
    def test_a_key_missing_in_one_worker_is_that_workers_trouble(self, opened: Opened) -> None:
        one, other = opened(), opened()
        for _ in range(5):
            call(one, ModelAuthFailed("no key is set"))
        call(other)
