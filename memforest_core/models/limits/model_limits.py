"""The limits of one model and the verdicts about its calls; one process's own share of them, in memory."""

from __future__ import annotations

import hashlib
import math
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from urllib.parse import urlsplit

from memforest_core import errors
from memforest_core.errors import MemForestError, ModelAuthFailed, ModelRateLimited, ModelRejected, ModelUnavailable

CHECK = "check"
"""The input of a call that only checks whether the model answers; the script in Redis knows it by this name too."""
BATCH = "*"
"""Begins the name of an input that is one of many, which nobody tries again as it is: it is checked at once."""
URGENT = "!"
"""Begins the name of a permit for a call that somebody waits for: timeouts of other calls do not delay it."""
BYTES_PER_TOKEN = 4
"""Of UTF-8, over the common tokenizers."""


class ModelPaused(ModelUnavailable):
    """The model failed too often in a row, or refused the key: nobody calls it until ``retry_after``."""

    code = "model_paused"


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """The limits of one model, None where there is none; ``share`` makes those of one process."""

    requests_per_minute: float | None
    tokens_per_minute: float | None
    concurrent_calls: int | None
    circuit_failures: int
    circuit_open_s: float
    circuit_longest_s: float
    retry_after_longest_s: float = math.inf

    def share(self, processes: int) -> ModelLimits:
        """What one of ``processes`` may use when they can't agree; at least one call at a time."""
        requests, tokens, calls = self.requests_per_minute, self.tokens_per_minute, self.concurrent_calls
        return replace(
            self,
            requests_per_minute=None if requests is None else requests / processes,
            tokens_per_minute=None if tokens is None else tokens / processes,
            concurrent_calls=None if calls is None else max(1, calls // processes),
        )


class Reason(StrEnum):
    """Why a circuit is open."""

    NONE = ""
    OUTAGE = "outage"
    AUTH = "auth"


class Verdict(StrEnum):
    """Whether a call may start."""

    GRANTED = "granted"
    PAUSED = "paused"
    """The provider said when to come back."""
    OPEN = "open"
    """The circuit is open."""
    BUSY = "busy"
    """As many calls as allowed are under way."""
    SPENT = "spent"
    """The minute's requests or tokens are used up."""


@dataclass(frozen=True, slots=True)
class Admission:
    """A verdict, when it may change (seconds; 0 where that is not known), and why the circuit is open."""

    verdict: Verdict
    wait_s: float = 0.0
    reason: Reason = Reason.NONE


class CallOutcome(StrEnum):
    """What a call's end says about the model."""

    ANSWERED = "answered"
    REJECTED = "rejected"
    """The provider is there, and refuses this request."""
    RATE_LIMITED = "rate_limited"
    TIMED_OUT = "timed_out"
    UNAVAILABLE = "unavailable"
    AUTH = "auth"
    UNMADE = "unmade"
    """No request was made: it says nothing."""


@dataclass(frozen=True, slots=True)
class CallEnd:
    """The end of a call; without a permit it began just now and reserved nothing."""

    outcome: CallOutcome
    permit: str = ""
    started: float = math.inf
    """When the permit was given."""
    reserved: int = 0
    """Tokens; nothing reserved, nothing to give back."""
    used: int | None = None
    """Tokens, None where unknown."""
    retry_after: float | None = None
    input: str = ""
    """What names the input over its tries; empty where nothing does."""
    checks: bool = False
    """Whether the caller can check if the model answers."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What the end of a call says about its input."""

    alone: bool = False
    """It failed while the model answered other inputs."""
    check: bool = False
    """Nobody knows: the caller is to check whether the model answers at all."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Seconds that a model is paused; ``to_try`` if that is 0 for this caller alone."""

    paused_s: float
    to_try: bool = False


def limit_key(model: str, api_base: str | None) -> str:
    """The name under which a model at an address is limited: no key, password, path or query of the URL in it."""
    if api_base is None:
        return model
    parts = urlsplit(api_base)
    host = f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)
    path = parts.path.strip("/")
    if path in ("", "v1"):
        return f"{model}@{host}"
    return f"{model}@{host}/{hashlib.sha256(path.encode()).hexdigest()[:8]}"


def outcome_of(error: MemForestError | None) -> CallOutcome:
    """What an error says about the model; None is a success, an error without a call record says nothing."""
    if error is None:
        return CallOutcome.ANSWERED
    if error.call is None:
        return CallOutcome.UNMADE
    if isinstance(error, ModelRateLimited):
        return CallOutcome.RATE_LIMITED
    if isinstance(error, ModelUnavailable):
        return CallOutcome.TIMED_OUT if error.code == errors.TIMED_OUT else CallOutcome.UNAVAILABLE
    if isinstance(error, ModelAuthFailed):
        return CallOutcome.AUTH
    return CallOutcome.REJECTED if isinstance(error, ModelRejected) else CallOutcome.ANSWERED


def input_name(texts: Iterable[str]) -> str:
    """A short hash by which an input is known over its tries."""
    digest = hashlib.blake2b(digest_size=8)
    for text in texts:
        digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()


def estimated_tokens(texts: Iterable[str], output: int = 0) -> int:
    """Tokens that a call with these texts will cost, ``output`` tokens of answer included."""
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
    return size // BYTES_PER_TOKEN + 1 + output


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
    """What one process may use of one model, while Redis is unavailable. Thread-safe."""

    def __init__(self, limits: ModelLimits, clock: Callable[[], float] = time.monotonic) -> None:
        """``limits``: those of one process; ``clock``: seconds, monotonic."""
        self._limits = limits
        self._clock = clock
        self._lock = threading.Lock()
        per_minute = (limits.requests_per_minute, limits.tokens_per_minute)
        self._requests, self._tokens = (None if each is None else Bucket(each, clock()) for each in per_minute)
        self._permits: dict[str, float] = {}
        self._paused_until = self._open_until = 0.0
        self._refusals = self._failures = 0
        self._reason = Reason.NONE
        self._inputs: dict[str, tuple[float, bool]] = {}
        """Inputs that failed last: when, and whether others were answered meanwhile."""
        self._answers: tuple[tuple[float, str], float] = ((-1.0, ""), -1.0)
        """The last answer and its input, and the time of the last one to any other input."""
        self._checked_until = 0.0

    def paused_s(self) -> float:
        """Seconds until a pause or an open circuit ends."""
        return max(0.0, max(self._paused_until, self._open_until) - self._clock())

    def note(self, permit: str, hold_s: float) -> None:
        """A call is under way, which Redis admitted, until it is settled or this time is over."""
        with self._lock:
            self._permits[permit] = self._clock() + hold_s

    def admit(self, permit: str, tokens: int, hold_s: float) -> Admission:
        """Whether a call of about ``tokens`` tokens may start; it counts for at most ``hold_s`` seconds."""
        with self._lock:
            now = self._clock()
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
            self._permits[permit] = now + hold_s
            return Admission(Verdict.GRANTED)

    def settle(self, end: CallEnd) -> Fault:
        """A call ended: a 429 pauses the model, failures in a row open its circuit, as in the script. What it says
        about its input."""
        with self._lock:
            now = self._clock()
            self._permits.pop(end.permit, None)
            if end.input == CHECK:
                self._checked_until = now
            match end.outcome:
                case CallOutcome.ANSWERED:
                    self._refusals = self._failures = 0
                    (last_at, last), other_at = self._answers
                    self._answers = ((now, end.input), other_at if end.input == last else last_at)
                    self._inputs.pop(end.input, None)
                case CallOutcome.REJECTED:
                    self._refusals = self._failures = 0
                    return self._fault(end.input, end.checks, now)
                case CallOutcome.RATE_LIMITED if end.retry_after is not None:
                    self._paused_until = max(self._paused_until, now + end.retry_after)
                case CallOutcome.RATE_LIMITED if now >= self._paused_until:
                    self._paused_until = now + min(LONGEST_PAUSE_S, 2.0 ** min(self._refusals, 16))
                    self._refusals += 1
                case CallOutcome.UNAVAILABLE | CallOutcome.TIMED_OUT | CallOutcome.AUTH if now >= self._open_until:
                    return self._unavailable(end, now)
            return Fault()

    def _unavailable(self, end: CallEnd, now: float) -> Fault:
        refused, before = end.outcome is CallOutcome.AUTH, self._inputs.get(end.input)
        fault = self._fault(end.input, end.checks and not refused, now)
        if end.input in self._inputs and self._inputs[end.input][1]:
            return fault
        most = self._limits.circuit_failures
        new = before is None or before[0] < self._answers[0][0]
        failures = self._failures + (new or self._failures >= most)
        if refused or end.input == CHECK:
            failures = max(failures, most)
        if end.checks and not refused:
            self._failures = failures if failures < most else self._failures
            return fault
        self._failures = failures
        if failures >= most:
            # Each one past the limit opens the circuit for twice as long.
            span = self._limits.circuit_open_s * 2.0 ** min(failures - most, 16)
            self._open_until = now + min(self._limits.circuit_longest_s, span)
            self._reason = Reason.AUTH if refused else Reason.OUTAGE
        return fault

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
