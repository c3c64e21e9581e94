"""Limits that all workers share through Redis (one Lua script, on its server's clock), and each one's own share while
Redis is unavailable."""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit
from uuid import uuid4

import structlog
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.retry import Retry

from memforest_core.domain.forks import renewed_in_child
from memforest_core.errors import MemForestError, ModelRateLimited, RetryableError
from memforest_core.models.limits.model_limits import (
    URGENT,
    Admission,
    CallEnd,
    CallOutcome,
    Fault,
    ModelLimits,
    ModelPaused,
    ModelShare,
    Pause,
    Reason,
    Verdict,
    outcome_of,
)
from memforest_core.models.outages import OutagePause

PREFIX = "memforest:limits:"
"""Of every key in Redis."""
SCRIPT = Path(__file__).with_name("limits.lua")
TIMEOUT_S = 0.5
"""Of connecting and of an answer, each: limits must not cost more than they save."""


def client_address(broker_url: str) -> str | None:
    """The client's URL for Celery's (of ``a;b`` the first); None for sentinels, whose master's name no broker URL
    says."""
    url = broker_url.split(";")[0]
    parts = urlsplit(url)
    if parts.scheme == "sentinel":
        return None
    query = dict(parse_qsl(parts.query))
    if parts.scheme == "redis+socket":
        database = query.get("virtual_host", query.get("db", "0"))
        return f"unix://{parts.netloc}{parts.path}?db={database}"
    if "ssl_cert_reqs" in query:
        query["ssl_cert_reqs"] = query["ssl_cert_reqs"].lower().removeprefix("cert_")
        return urlunsplit(parts._replace(query=urlencode(query)))
    return url


def open_redis(address: str) -> Redis:
    """A client that fails within a second; it connects on first use. Thread-safe."""
    return Redis.from_url(
        address,
        decode_responses=True,
        socket_timeout=TIMEOUT_S,
        socket_connect_timeout=TIMEOUT_S,
        # A connection that the server has closed meanwhile is opened again; a timeout is not repeated.
        retry=Retry(NoBackoff(), 1, supported_errors=(RedisConnectionError,)),
        protocol=2,
    )


class RedisLedger:
    """Calls the script. Every method raises redis.RedisError when Redis can't be used."""

    def __init__(self, client: Redis, limits: ModelLimits, clock: Callable[[], float] | None = None) -> None:
        """``clock`` replaces the server's in tests."""
        rates = (limits.requests_per_minute, limits.tokens_per_minute, limits.concurrent_calls)
        circuit = (limits.circuit_failures, limits.circuit_open_s, limits.circuit_longest_s)
        self._limits = [_text(limit) for limit in (*rates, *circuit)]
        self._clock = clock
        self._script: Any = client.register_script(SCRIPT.read_text())

    def admit(self, model: str, permit: str, tokens: int, hold_s: float) -> tuple[Admission, float]:
        """Whether a call of about ``tokens`` tokens, named by ``permit`` and ending by itself after ``hold_s`` seconds,
        may start; and the time on the server's clock."""
        verdict, wait, reason, now = self._run("admit", model, permit, _text(tokens), _text(hold_s))
        return Admission(Verdict(verdict), float(wait), Reason(reason)), float(now)

    def settle(self, model: str, end: CallEnd) -> Fault:
        """Note the end of a call; what it says about the call's input."""
        alone, check = self._run(
            "settle",
            model,
            end.permit,
            "" if math.isinf(end.started) else _text(end.started),
            end.outcome.value,
            _text(end.reserved),
            _text(end.used),
            _text(end.retry_after),
            end.input,
            "1" if end.checks else "",
        )
        return Fault(alone == 1, check == 1)

    def pause(self, model: str) -> Pause:
        """How long the model is paused. When a trial is due, one caller is sent to make it."""
        paused_s, to_try = self._run("pause", model)
        return Pause(float(paused_s), to_try == 1)

    def _run(self, what: str, model: str, *arguments: str) -> Any:
        # The braces keep a model's keys on one node of a cluster.
        keys = [f"{PREFIX}{{{model}}}{of}" for of in ("", ":permits", ":inputs")]
        now = "" if self._clock is None else _text(self._clock())
        return self._script(keys=keys, args=[what, now, *self._limits, *arguments])


def _text(number: float | None) -> str:
    """A number as Redis gets it, exact; empty for None."""
    return "" if number is None else repr(number)


log = structlog.get_logger(__name__)

T = TypeVar("T")

REST_S = 3.0
"""After a failure nobody calls Redis for this long; then one caller tries, at the price of one timeout."""
PAUSE_CACHED_S = 0.25
"""An answer of ``paused`` is cached this long in the process."""
SHORTEST_NAP_S = 0.02
LONGEST_NAP_S = 0.25
"""Between two tries to start a call while as many as allowed are under way."""

_WHY = {
    Reason.NONE: "is paused",
    Reason.OUTAGE: "failed too often in a row",
    Reason.AUTH: "refused the key (change MEMFOREST_LLM__API_KEY or MEMFOREST_EMBEDDING__API_KEY)",
}


_TROUBLE = (CallOutcome.RATE_LIMITED, CallOutcome.TIMED_OUT, CallOutcome.UNAVAILABLE, CallOutcome.AUTH)


@dataclass(slots=True)
class CallPermit:
    """The right to make one call; leaving its context gives it back, also without ``done``. Its end is noted in Redis
    and in the process's own share, so that each knows enough when the other decides."""

    limits: CallLimits
    model: str
    name: str
    tokens: int
    shared_at: float | None
    """When Redis admitted the call, on its clock; None: the process's own share did."""
    input: str = ""
    _open: bool = True

    def done(self, error: MemForestError | None, tokens_used: int | None = None, *, checks: bool = False) -> Fault:
        """Say how the call ended, at most once; ``tokens_used`` None leaves the estimate. What it says about the input.

        An error without a call record (``error.call`` is None) says that no request was made. ``checks``: the caller
        makes the check that the answer may ask for.
        """
        retry_after = error.retry_after if isinstance(error, RetryableError) else None
        return self._end(outcome_of(error), tokens_used, retry_after, checks)

    def _end(
        self, outcome: CallOutcome, used: int | None = None, retry_after: float | None = None, checks: bool = False
    ) -> Fault:
        if not self._open:
            return Fault()
        self._open = False
        started = math.inf if self.shared_at is None else self.shared_at
        end = CallEnd(outcome, self.name, started, self.tokens, used, retry_after, self.input, checks)
        fault = self.limits.own(self.model).settle(end)
        return fault if self.shared_at is None else self.limits.settle_shared(self.model, end) or fault

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end(CallOutcome.UNMADE)


@renewed_in_child
class CallLimits:
    """Requests and tokens per minute, calls at once and the circuit, per model (a name from ``limit_key``).
    Thread-safe. Without ``client`` each process uses its part for good."""

    def __init__(self, client: Redis | None, limits: ModelLimits, processes: int) -> None:
        """``processes``: how many share the limits; each uses one part of so many while Redis is unavailable."""
        self._client = client
        self.retry_after_longest_s = limits.retry_after_longest_s
        self._shared = None if client is None else RedisLedger(client, limits)
        self._outage = OutagePause(first_s=REST_S, longest_s=REST_S)
        self._own_limits = limits.share(processes)
        self._of_own: dict[str, ModelShare] = {}
        self._pauses: dict[str, tuple[float, float]] = {}
        self._closing = threading.Event()
        self._calling = threading.Condition()
        self._calls = 0
        """Questions to Redis under way."""
        self._rng = random.Random()  # noqa: S311 - jitter

    def acquire(
        self, model: str, tokens: int, wait_s: float, *, hold_s: float, named: str = "", urgent: bool = False
    ) -> CallPermit:
        """A permit for a call of about ``tokens`` tokens, which ends by itself after ``hold_s`` seconds.

        ``named``: the input's name, by which repeated failures of one input are distinguished from an outage.
        ``urgent``: somebody waits for the answer.

        Raises ModelRateLimited when there is none within ``wait_s`` seconds (at once when that is known) and
        ModelPaused when the circuit is open; both say when to come back.
        """
        deadline = time.monotonic() + wait_s
        name, tokens, nap = (URGENT if urgent else "") + uuid4().hex, max(1, tokens), SHORTEST_NAP_S
        while True:
            admission, permit = self._try(model, name, tokens, hold_s)
            if permit is not None:
                permit.input = named
                return permit
            left = deadline - time.monotonic()
            if admission.verdict is Verdict.OPEN:
                raise ModelPaused(
                    f"The model {model} {_WHY[admission.reason]}; it is tried again in {admission.wait_s:.1f} s.",
                    retry_after=admission.wait_s,
                )
            nap_s = min(left, max(admission.wait_s, nap) * self._rng.uniform(1.0, 1.5))
            if left <= 0 or admission.wait_s > left or self._closing.wait(nap_s):
                raise ModelRateLimited(
                    f"The calls allowed to {model} are used up ({admission.verdict}; see MEMFOREST_LIMITS).",
                    retry_after=max(admission.wait_s, LONGEST_NAP_S),
                )
            nap = min(LONGEST_NAP_S, nap * 1.5)

    def own(self, model: str) -> ModelShare:
        """The process's own share of a model's limits."""
        return self._of_own.setdefault(model, ModelShare(self._own_limits))

    def _try(self, model: str, name: str, tokens: int, hold_s: float) -> tuple[Admission, CallPermit | None]:
        shared = self._ask(lambda ledger: ledger.admit(model, name, tokens, hold_s))
        if shared is not None:
            admission, shared_at = shared[0], shared[1]
        else:
            admission, shared_at = self.own(model).admit(name, tokens, hold_s), None
        if admission.verdict is not Verdict.GRANTED:
            return admission, None
        if shared_at is not None:
            self.own(model).note(name, hold_s)
        return admission, CallPermit(self, model, name, tokens, shared_at)

    def paused(self, model: str) -> float:
        """Seconds for which nobody should begin work for this model; 0.0 when it can be called. At most one question to
        Redis per quarter of a second; when a trial is due, one caller gets 0.0 and the others a second."""
        now = time.monotonic()
        until, cached_until = self._pauses.get(model, (0.0, 0.0))
        if now >= cached_until:
            seen = self._ask(lambda ledger: ledger.pause(model)) or Pause(self.own(model).paused_s())
            until, now = now + seen.paused_s, time.monotonic()
            # Only this thread makes the trial call: the other threads of the process wait, as other processes do.
            self._pauses[model] = (until if not seen.to_try else now + PAUSE_CACHED_S, now + PAUSE_CACHED_S)
        return max(0.0, until - now)

    def settle_shared(self, model: str, end: CallEnd) -> Fault | None:
        """Note the end of a call for all workers, if Redis is there; a permit that is not ended expires."""
        fault = self._ask(lambda ledger: ledger.settle(model, end))
        if end.outcome in _TROUBLE:
            self._pauses.pop(model, None)
        return fault

    def _ask(self, question: Callable[[RedisLedger], T]) -> T | None:
        """Redis's answer, None while it is unavailable. A permit whose question or end is lost expires."""
        if self._shared is None or not self._begin():
            return None
        try:
            answer = question(self._shared)
        except RedisError as error:
            if self._outage.failed():
                reason = type(error).__name__
                log.warning("shared_limits_unavailable", error=reason, until_then="own share of the limits")
            return None
        finally:
            self._end()
        if self._outage.worked():
            log.info("shared_limits_back")
        return answer

    def _begin(self) -> bool:
        """Whether to call Redis; ``_end`` follows when True."""
        with self._calling:
            if self._closing.is_set() or not self._outage.may_try():
                return False
            self._calls += 1
            return True

    def _end(self) -> None:
        with self._calling:
            self._calls -= 1
            self._calling.notify_all()

    def close(self) -> None:
        """Release connections; a caller that still waits for a permit gives up. Waits a second at most for answers of
        Redis that are under way: a connection that is closed in a read breaks."""
        with self._calling:
            self._closing.set()
            self._calling.wait_for(lambda: not self._calls)
        if self._client is not None:
            self._client.close()
