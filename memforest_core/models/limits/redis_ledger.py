"""The state of each model's limits in Redis: one Lua script, atomic over all workers, on the clock of the server."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.retry import Retry

from memforest_core.models.limits.model_limits import Admission, CallEnd, Fault, ModelLimits, Pause, Reason, Verdict

PREFIX = "memforest:limits:"
"""Of every key in Redis."""
SCRIPT = Path(__file__).with_name("limits.lua")
TIMEOUT_S = 0.5
"""Of connecting and of an answer, each: limits must not cost more than they save."""


def client_address(broker_url: str) -> str | None:
    """The client's URL for Celery's; None for sentinels, whose master's name no broker URL says.

    Of several addresses (``a;b``) the first is taken.
    """
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
        """Whether a call of about ``tokens`` tokens may start, and the time on the server's clock.

        ``permit`` names the call; it ends by itself after ``hold_s`` seconds.
        """
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
