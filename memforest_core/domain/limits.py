"""What calls to one model may do now: token buckets, a factor that 429s lower, and a circuit, as arithmetic.

Everything about one model is a ``ModelState``; who holds it (Redis for all workers, memory for one) passes the
time in seconds of one clock and the number of calls under way, and keeps what comes back. The scripts in
``models/limits/scripts.py`` compute the same, number for number.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from urllib.parse import urlsplit

from memforest_core.errors import MemForestError, ModelAuthFailed, ModelRateLimited, ModelUnavailable

BURST = 1 / 20
"""Share of a minute's limit that may go out at once (3 s of it); the steady rate is lower by as much, so that no
60 seconds ever see more than the limit."""
CUT = 0.5
"""A 429 multiplies the factor by this."""
LOWEST_FACTOR = 1 / 16
RECOVERY_PER_S = 0.01
"""A tenth of the limit every 10 seconds without a 429."""
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
"""After 429s that do not say how long to wait."""
LEAST_MEASURED = 4
"""A 429 with fewer calls under way than this says nothing about how many are too many, so none is learned below it."""
TRIAL_LOOK_S = 1.0
"""Who finds a trial under way looks again after this long; so does who asked first and then had no call to make."""
BYTES_PER_TOKEN = 4
"""Of UTF-8, over the common tokenizers."""


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """The limits of one model, None where there is none; ``share`` makes those of one process."""

    requests_per_minute: float | None
    tokens_per_minute: float | None
    concurrent_calls: int | None
    circuit_failures: int
    circuit_open_s: float
    circuit_longest_s: float

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


@dataclass(frozen=True, slots=True)
class ModelState:
    """One model as last seen; times are seconds of the holder's clock, and a new state is a calm one."""

    requests: float | None = None
    """Requests that may go out at once, None: as many as a full bucket holds."""
    tokens: float | None = None
    """Below zero after a call that was larger than what was left."""
    filled_at: float = 0.0
    factor: float = 1.0
    """Share of the limits in use, as of the last 429."""
    cut_at: float = -1.0
    cuts: int = 0
    """429s in a row."""
    measured: int = 0
    """Calls that were under way at the first of them."""
    paused_until: float = 0.0
    failures: int = 0
    """Outages in a row while the circuit is closed."""
    openings: int = 0
    """How often in a row the circuit opened; 0: it is closed."""
    opened_at: float = 0.0
    open_until: float = 0.0
    reason: Reason = Reason.NONE
    trial: str = ""
    """The permit that tries whether the model is back, until ``trial_until``."""
    trial_until: float = 0.0
    asked_until: float = 0.0
    """Somebody was sent to try, and has this long to begin."""


class Verdict(StrEnum):
    """What becomes of a wish to call."""

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
    """A verdict, when it may change (seconds; 0 where nobody knows), and why the circuit is open."""

    verdict: Verdict
    wait_s: float = 0.0
    reason: Reason = Reason.NONE


class CallOutcome(StrEnum):
    """What a call's end says about the model."""

    ANSWERED = "answered"
    """Whatever it answered, also that it refuses the request."""
    RATE_LIMITED = "rate_limited"
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


@dataclass(frozen=True, slots=True)
class Look:
    """Seconds that a model is paused; ``to_try`` if that is 0 for the one who asked alone."""

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
        return CallOutcome.UNAVAILABLE
    return CallOutcome.AUTH if isinstance(error, ModelAuthFailed) else CallOutcome.ANSWERED


def estimated_tokens(texts: Iterable[str], output: int = 0) -> int:
    """Tokens that a call with these texts will cost, ``output`` tokens of answer included."""
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
    return size // BYTES_PER_TOKEN + 1 + output


def factor_now(state: ModelState, now: float) -> float:
    """The share of the limits in use: it recovers from the last 429, or from the end of the pause it set."""
    since = max(state.cut_at, state.paused_until)
    return min(1.0, state.factor + RECOVERY_PER_S * max(0.0, now - since))


def ceiling(state: ModelState, limits: ModelLimits, now: float) -> float:
    """Calls that may be under way at once; without a rate to lower, 429s lower the number that was measured."""
    highest = math.inf if limits.concurrent_calls is None else float(limits.concurrent_calls)
    factor = factor_now(state, now)
    if limits.requests_per_minute is not None or factor >= 1.0:
        return highest
    return min(highest, max(float(LEAST_MEASURED), math.floor(state.measured * factor)))


def refilled(state: ModelState, limits: ModelLimits, now: float) -> ModelState:
    """The buckets as they are at ``now``; a clock that was set back fills nothing."""
    elapsed = max(0.0, now - state.filled_at)
    factor = factor_now(state, now)
    requests, tokens = limits.requests_per_minute, limits.tokens_per_minute
    return replace(
        state,
        requests=None if requests is None else _level(state.requests, requests, factor, elapsed, 1.0),
        tokens=None if tokens is None else _level(state.tokens, tokens, factor, elapsed, 0.0),
        filled_at=now,
    )


def _capacity(per_minute: float, factor: float, least: float) -> float:
    return least + per_minute * BURST * factor


def _rate(per_minute: float, factor: float) -> float:
    return per_minute * (1.0 - BURST) * factor / 60.0


def _level(level: float | None, per_minute: float, factor: float, elapsed: float, least: float) -> float:
    capacity = _capacity(per_minute, factor, least)
    if level is None:
        return capacity
    return min(capacity, level + elapsed * _rate(per_minute, factor))


def admit(
    state: ModelState,
    limits: ModelLimits,
    *,
    permit: str,
    tokens: int,
    hold_s: float,
    under_way: int,
    now: float,
) -> tuple[ModelState, Admission]:
    """Whether one more call may start, and the state after that.

    A call costs one request and ``tokens``. A request is there or not; tokens may be overdrawn by the call that
    takes the last, so that a large call does not starve behind small ones: over any 60 seconds the limit and one
    call. ``hold_s`` bounds how long this call may be the trial of a half-open circuit.
    """
    state = refilled(state, limits, now)
    if now < state.paused_until:
        return state, Admission(Verdict.PAUSED, state.paused_until - now)
    if state.openings and now < state.open_until:
        return state, Admission(Verdict.OPEN, state.open_until - now, state.reason)
    if state.openings and now < state.trial_until:
        return state, Admission(Verdict.OPEN, min(TRIAL_LOOK_S, state.trial_until - now), state.reason)
    if under_way >= ceiling(state, limits, now):
        return state, Admission(Verdict.BUSY)
    wait = max(_missing(state.requests, limits.requests_per_minute, state, now), _missing_tokens(state, limits, now))
    if wait > 0.0:
        return state, Admission(Verdict.SPENT, wait)
    granted = replace(
        state,
        requests=None if state.requests is None else state.requests - 1.0,
        tokens=None if state.tokens is None else state.tokens - tokens,
    )
    if state.openings:
        granted = replace(granted, trial=permit, trial_until=now + hold_s)
    return granted, Admission(Verdict.GRANTED)


def _missing(level: float | None, per_minute: float | None, state: ModelState, now: float) -> float:
    if level is None or per_minute is None or level >= 1.0:
        return 0.0
    return (1.0 - level) / _rate(per_minute, factor_now(state, now))


def _missing_tokens(state: ModelState, limits: ModelLimits, now: float) -> float:
    level, per_minute = state.tokens, limits.tokens_per_minute
    if level is None or per_minute is None or level > 0.0:
        return 0.0
    # A fraction of a token beyond zero: at zero itself there is still nothing to take.
    return (0.001 - level) / _rate(per_minute, factor_now(state, now))


def settle(state: ModelState, limits: ModelLimits, end: CallEnd, *, under_way: int, now: float) -> ModelState:
    """The state after a call ended; ``under_way`` counts it still."""
    state = _paid(refilled(state, limits, now), limits, end, now)
    match end.outcome:
        case CallOutcome.UNMADE:
            return replace(state, trial="", trial_until=0.0) if _is_trial(state, end) else state
        case CallOutcome.ANSWERED:
            state = _reached(state, end)
            return replace(state, cuts=0) if end.started > state.cut_at else state
        case CallOutcome.RATE_LIMITED:
            return _limited(_reached(state, end), end, under_way, now)
        case CallOutcome.UNAVAILABLE:
            return _failed(state, limits, end, Reason.OUTAGE, now)
        case CallOutcome.AUTH:
            return _failed(state, limits, end, Reason.AUTH, now)


def _paid(state: ModelState, limits: ModelLimits, end: CallEnd, now: float) -> ModelState:
    """What was reserved and not used is given back, what was used beyond it is owed."""
    factor = factor_now(state, now)
    requests, tokens = state.requests, state.tokens
    back = 0 if end.used is None else end.reserved - end.used
    if end.outcome is CallOutcome.UNMADE:
        back = end.reserved
        if requests is not None and limits.requests_per_minute is not None and end.reserved:
            requests = min(_capacity(limits.requests_per_minute, factor, 1.0), requests + 1.0)
    if tokens is not None and limits.tokens_per_minute is not None:
        tokens = min(_capacity(limits.tokens_per_minute, factor, 0.0), tokens + back)
    return replace(state, requests=requests, tokens=tokens)


def _is_trial(state: ModelState, end: CallEnd) -> bool:
    return state.trial != "" and state.trial == end.permit


def _reached(state: ModelState, end: CallEnd) -> ModelState:
    """The model answers: the circuit closes, unless the call began before it opened."""
    if state.openings and end.started < state.opened_at:
        return state
    return replace(
        state, failures=0, openings=0, open_until=0.0, reason=Reason.NONE, trial="", trial_until=0.0, asked_until=0.0
    )


def _limited(state: ModelState, end: CallEnd, under_way: int, now: float) -> ModelState:
    """Everybody waits; the factor falls once for all the calls that were under way together."""
    fresh = end.started > state.cut_at
    pause = end.retry_after
    if fresh:
        before = factor_now(state, now)
        measured = max(under_way, LEAST_MEASURED) if before >= 1.0 else state.measured
        state = replace(
            state, factor=max(LOWEST_FACTOR, before * CUT), cut_at=now, cuts=state.cuts + 1, measured=measured
        )
        if pause is None:
            pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(state.cuts - 1, 16))
    return state if pause is None else replace(state, paused_until=max(state.paused_until, now + pause))


def _failed(state: ModelState, limits: ModelLimits, end: CallEnd, reason: Reason, now: float) -> ModelState:
    """One more failure: it may open the circuit; in an open one only the trial's counts."""
    if state.openings and not _is_trial(state, end):
        return state
    failures = state.failures + 1
    if not state.openings and reason is Reason.OUTAGE and failures < limits.circuit_failures:
        return replace(state, failures=failures)
    span = min(limits.circuit_longest_s, limits.circuit_open_s * 2.0 ** min(state.openings, 16))
    return replace(
        state,
        failures=0,
        openings=state.openings + 1,
        opened_at=now,
        open_until=now + max(span, end.retry_after or 0.0),
        reason=reason,
        trial="",
        trial_until=0.0,
        asked_until=0.0,
    )


def look(state: ModelState, now: float) -> tuple[ModelState, Look]:
    """How long the model is paused. When a trial is due, one who asks is sent to make it and the others wait."""
    pause = state.paused_until - now
    if state.openings:
        pause = max(pause, state.open_until - now, min(TRIAL_LOOK_S, max(state.trial_until, state.asked_until) - now))
    if pause > 0.0:
        return state, Look(pause)
    if not state.openings:
        return state, Look(0.0)
    return replace(state, asked_until=now + TRIAL_LOOK_S), Look(0.0, to_try=True)
