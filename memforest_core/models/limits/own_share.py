"""In-memory limits of one process while Redis is unavailable: its part of the common ones."""

from __future__ import annotations

import threading
from collections.abc import Callable

from memforest_core.models.limits.model_limits import (
    BATCH,
    CHECK,
    Admission,
    CallOutcome,
    Fault,
    ModelLimits,
    Reason,
    Verdict,
)

BURST = 1 / 20
"""Share of a minute's limit that may go out at once."""
CHECK_S = 10.0
"""While one caller checks whether the model answers, the others leave it to that one for so long."""
MOST_INPUTS = 500
"""Failed inputs of a model that are held in memory; in an outage with more of them the rest is not distinguished."""
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
        self._inputs: dict[str, tuple[float, bool]] = {}
        """Inputs that failed last: when, and whether others were answered meanwhile."""
        self._answers: tuple[tuple[float, str], float] = ((-1.0, ""), -1.0)
        """The last answer and its input, and the time of the last one to any other input."""
        self._checked_until = 0.0

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

    def settle(
        self, permit: str, outcome: CallOutcome, retry_after: float | None, now: float, named: str, checks: bool
    ) -> Fault:
        """A call ended: a 429 pauses the model, failures in a row open its circuit, as in the script."""
        self._permits.pop(permit, None)
        if named == CHECK:
            self._checked_until = now
        match outcome:
            case CallOutcome.ANSWERED:
                self._refusals = self._failures = 0
                (last_at, last), other_at = self._answers
                self._answers = ((now, named), other_at if named == last else last_at)
                self._inputs.pop(named, None)
            case CallOutcome.REJECTED:
                self._refusals = self._failures = 0
                return self._fault(named, checks, now)
            case CallOutcome.RATE_LIMITED if retry_after is not None:
                self._paused_until = max(self._paused_until, now + retry_after)
            case CallOutcome.RATE_LIMITED if now >= self._paused_until:
                self._paused_until = now + min(LONGEST_PAUSE_S, 2.0 ** min(self._refusals, 16))
                self._refusals += 1
            case CallOutcome.UNAVAILABLE | CallOutcome.TIMED_OUT | CallOutcome.AUTH if now >= self._open_until:
                refused, before = outcome is CallOutcome.AUTH, self._inputs.get(named)
                fault = self._fault(named, checks and not refused, now)
                if named in self._inputs and self._inputs[named][1]:
                    return fault
                new = before is None or before[0] < self._answers[0][0]
                failures = self._failures + (new or self._failures >= self._limits.circuit_failures)
                if refused or named == CHECK:
                    failures = max(failures, self._limits.circuit_failures)
                if not checks or refused:
                    self._failed(failures, Reason.AUTH if refused else Reason.OUTAGE, now)
                elif failures < self._limits.circuit_failures:
                    self._failures = failures
                return fault
        return Fault()

    def _fault(self, named: str, checks: bool, now: float) -> Fault:
        """What a failure says about its input, which is noted as failed."""
        if named in ("", CHECK):
            return Fault()
        (last_at, last), other_at = self._answers
        before = self._inputs.get(named)
        alone = before is not None and (other_at if last == named else last_at) > before[0]
        if before is not None or len(self._inputs) < MOST_INPUTS:
            self._inputs[named] = (now, alone or (before is not None and before[1]))
        known = before is not None or named.startswith(BATCH) or self._failures + 1 >= self._limits.circuit_failures
        check = checks and not alone and known and now >= self._checked_until
        if check:
            self._checked_until = now + CHECK_S
        return Fault(alone, check)

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

    def settle(
        self,
        model: str,
        permit: str,
        outcome: CallOutcome,
        retry_after: float | None,
        named: str = "",
        checks: bool = False,
    ) -> Fault:
        """Note the end of a call; what it says about the input that is ``named`` so."""
        with self._lock:
            now = self._clock()
            return self._of(model, now).settle(permit, outcome, retry_after, now, named, checks)

    def paused_s(self, model: str) -> float:
        """Seconds until a pause or an open circuit of the model ends."""
        with self._lock:
            now = self._clock()
            return self._of(model, now).paused_s(now)

    def _of(self, model: str, now: float) -> ModelShare:
        if model not in self._models:
            self._models[model] = ModelShare(self._limits, now)
        return self._models[model]
