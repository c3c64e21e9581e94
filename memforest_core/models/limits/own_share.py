"""The limits of one process while Redis is away: its share of the common ones, kept in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable

from memforest_core.models.limits.model_limits import Admission, CallOutcome, ModelLimits, Reason, Verdict

BURST = 1 / 20
"""Share of a minute's limit that may go out at once."""
LONGEST_PAUSE_S = 60.0
"""After 429s that do not say how long to wait; the first such pause takes a second, and each doubles."""


class Bucket:
    """Requests or tokens per minute: a burst at once, then a steady rate."""

    def __init__(self, per_minute: float, now: float) -> None:
        self._rate = per_minute * (1 - BURST) / 60
        self._capacity = 1 + per_minute * BURST
        self._level = self._capacity
        self._at = now

    def wait_s(self, now: float) -> float:
        """Seconds until something is left."""
        self._level = min(self._capacity, self._level + (now - self._at) * self._rate)
        self._at = now
        return max(0.0, (1 - self._level) / self._rate)

    def take(self, amount: float) -> None:
        """Take this much, even if less is left: then the next call waits longer."""
        self._level -= amount


class ModelShare:
    """One model as one process sees it."""

    def __init__(self, limits: ModelLimits, now: float) -> None:
        self._limits = limits
        requests, tokens = limits.requests_per_minute, limits.tokens_per_minute
        self._requests = None if requests is None else Bucket(requests, now)
        self._tokens = None if tokens is None else Bucket(tokens, now)
        self._permits: dict[str, float] = {}
        self._paused_until = self._open_until = 0.0
        self._refusals = self._failures = 0
        self._reason = Reason.NONE

    def paused_s(self, now: float) -> float:
        """Seconds until a pause or an open circuit ends."""
        return max(0.0, self._paused_until - now, self._open_until - now)

    def note(self, permit: str, until: float) -> None:
        """A call is under way, until it is settled or this time has come."""
        self._permits[permit] = until

    def admit(self, permit: str, tokens: int, until: float, now: float) -> Admission:
        """Whether one more call may start."""
        if now < self._open_until:
            return Admission(Verdict.OPEN, self._open_until - now, self._reason)
        if now < self._paused_until:
            return Admission(Verdict.PAUSED, self._paused_until - now)
        self._permits = {name: ends for name, ends in self._permits.items() if ends > now}
        most = self._limits.concurrent_calls
        if most is not None and len(self._permits) >= most:
            return Admission(Verdict.BUSY)
        costs = [(bucket, cost) for bucket, cost in ((self._requests, 1), (self._tokens, tokens)) if bucket]
        wait = max((bucket.wait_s(now) for bucket, _ in costs), default=0.0)
        if wait > 0:
            return Admission(Verdict.SPENT, wait)
        for bucket, cost in costs:
            bucket.take(cost)
        self.note(permit, until)
        return Admission(Verdict.GRANTED)

    def settle(self, permit: str, outcome: CallOutcome, retry_after: float | None, now: float) -> None:
        """A call ended: a 429 pauses the model, failures in a row open its circuit."""
        self._permits.pop(permit, None)
        match outcome:
            case CallOutcome.ANSWERED:
                self._refusals = self._failures = 0
            case CallOutcome.RATE_LIMITED if retry_after is not None:
                self._paused_until = max(self._paused_until, now + retry_after)
            case CallOutcome.RATE_LIMITED if now >= self._paused_until:
                self._paused_until = now + min(LONGEST_PAUSE_S, 2.0 ** min(self._refusals, 16))
                self._refusals += 1
            case CallOutcome.UNAVAILABLE if now >= self._open_until:
                self._failed(self._failures + 1, Reason.OUTAGE, now)
            case CallOutcome.AUTH if now >= self._open_until:
                self._failed(max(self._failures + 1, self._limits.circuit_failures), Reason.AUTH, now)

    def _failed(self, failures: int, reason: Reason, now: float) -> None:
        """Count a failure; each one past the limit opens the circuit for twice as long."""
        self._failures = failures
        beyond = failures - self._limits.circuit_failures
        if beyond >= 0:
            span = min(self._limits.circuit_longest_s, self._limits.circuit_open_s * 2.0 ** min(beyond, 16))
            self._open_until, self._reason = now + span, reason


class OwnShare:
    """The models that this process calls. Thread-safe."""

    def __init__(self, limits: ModelLimits, clock: Callable[[], float]) -> None:
        """``limits``: those of one process; ``clock``: seconds, monotonic."""
        self._limits = limits
        self._clock = clock
        self._lock = threading.Lock()
        self._models: dict[str, ModelShare] = {}

    def admit(self, model: str, permit: str, tokens: int, hold_s: float) -> Admission:
        """Whether a call of about ``tokens`` tokens may start; it counts for at most ``hold_s`` seconds."""
        with self._lock:
            now = self._clock()
            return self._of(model, now).admit(permit, tokens, now + hold_s, now)

    def note(self, model: str, permit: str, hold_s: float) -> None:
        """Count a call that Redis admitted as under way."""
        with self._lock:
            now = self._clock()
            self._of(model, now).note(permit, now + hold_s)

    def settle(self, model: str, permit: str, outcome: CallOutcome, retry_after: float | None) -> None:
        """Note the end of a call."""
        with self._lock:
            now = self._clock()
            self._of(model, now).settle(permit, outcome, retry_after, now)

    def paused_s(self, model: str) -> float:
        """Seconds until a pause or an open circuit of the model ends."""
        with self._lock:
            now = self._clock()
            return self._of(model, now).paused_s(now)

    def _of(self, model: str, now: float) -> ModelShare:
        if model not in self._models:
            self._models[model] = ModelShare(self._limits, now)
        return self._models[model]
