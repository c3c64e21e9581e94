"""Limits that all workers share through Redis, and each one's own share of them while Redis is away."""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self, TypeVar
from uuid import uuid4

import structlog
from redis import Redis
from redis.exceptions import RedisError

from memforest_core.domain.limits import Admission, CallEnd, CallOutcome, ModelLimits, Reason, Verdict, outcome_of
from memforest_core.errors import MemForestError, ModelRateLimited, RetryableError
from memforest_core.models.limits.budget import ModelPaused
from memforest_core.models.limits.ledgers import Ledger, MemoryLedger, RedisLedger

log = structlog.get_logger(__name__)

T = TypeVar("T")

REST_S = 3.0
"""Redis that failed is left alone this long; then one caller tries it, at the price of one timeout."""
MOST_LEFT = 1_000
"""Permits that calls of one process may leave behind in an outage; the rest expire."""
LOOK_S = 0.25
"""An answer of ``paused`` holds this long in the process."""
SHORTEST_NAP_S = 0.02
LONGEST_NAP_S = 0.25
"""Between two tries to start a call while as many as allowed are under way."""

_WHY = {
    Reason.NONE: "is paused",
    Reason.OUTAGE: "failed too often in a row",
    Reason.AUTH: "refused the key (change MEMFOREST_LLM__API_KEY or MEMFOREST_EMBEDDING__API_KEY)",
}


_TROUBLE = (CallOutcome.RATE_LIMITED, CallOutcome.UNAVAILABLE, CallOutcome.AUTH)


def _retry_after(error: MemForestError | None) -> float | None:
    return error.retry_after if isinstance(error, RetryableError) else None


class Presence:
    """Whether Redis is there, as far as this process knows; one log line per outage. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._away = False
        self._resting_until = 0.0

    def may_try(self) -> bool:
        """Whether to ask Redis; during an outage True for one caller each ``REST_S``."""
        with self._lock:
            if not self._away:
                return True
            now = time.monotonic()
            if now < self._resting_until:
                return False
            self._resting_until = now + REST_S
            return True

    def failed(self, error: RedisError) -> None:
        """Redis could not be used."""
        with self._lock:
            first, self._away = not self._away, True
            self._resting_until = time.monotonic() + REST_S
        if first:
            log.warning("shared_limits_away", error=type(error).__name__, until_then="own share of the limits")

    def worked(self) -> None:
        """Redis answered."""
        if self._away:
            with self._lock:
                again, self._away = self._away, False
            if again:
                log.info("shared_limits_back")


class CallPermit:
    """A Permit; what its call did is noted in both ledgers, so that each knows enough when the other is away."""

    def __init__(
        self, limits: RedisLimits, model: str, name: str, *, tokens: int, shared_at: float | None, own_at: float
    ) -> None:
        self._limits = limits
        self._model = model
        self._name = name
        self._tokens = tokens
        self._shared_at = shared_at
        self._own_at = own_at
        self._open = True

    def done(self, error: MemForestError | None, tokens_used: int | None = None) -> None:
        self._end(outcome_of(error), tokens_used, _retry_after(error))

    def _end(self, outcome: CallOutcome, used: int | None, retry_after: float | None) -> None:
        if not self._open:
            return
        self._open = False
        shared = self._shared_at is not None
        own = CallEnd(outcome, self._name, self._own_at, 0 if shared else self._tokens, used, retry_after)
        self._limits.own.settle(self._model, own)
        if self._shared_at is not None:
            shared_end = CallEnd(outcome, self._name, self._shared_at, self._tokens, used, retry_after)
            self._limits.settle_shared(self._model, shared_end)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end(CallOutcome.UNMADE, None, None)


class RedisLimits:
    """The CallLimits port. Without ``client`` each process keeps to its share for good."""

    def __init__(self, client: Redis | None, limits: ModelLimits, processes: int) -> None:
        """``processes``: how many share the limits; each uses one part of so many while Redis is away."""
        self._client = client
        self._shared: Ledger | None = None if client is None else RedisLedger(client, limits)
        self._presence = Presence()
        self.own = MemoryLedger(limits.share(processes), time.monotonic)
        self._left: deque[tuple[str, str]] = deque(maxlen=MOST_LEFT)
        self._looks: dict[str, tuple[float, float]] = {}
        self._closing = threading.Event()
        self._rng = random.Random()  # noqa: S311 - jitter

    def acquire(self, model: str, tokens: int, wait_s: float, *, hold_s: float) -> CallPermit:
        deadline = time.monotonic() + wait_s
        name, tokens, nap = uuid4().hex, max(1, tokens), SHORTEST_NAP_S
        while True:
            admission, permit = self._try(model, name, tokens, hold_s)
            if permit is not None:
                return permit
            left = deadline - time.monotonic()
            if admission.verdict is Verdict.OPEN:
                raise ModelPaused(
                    f"The model {model} {_WHY[admission.reason]}; it is tried again in {admission.wait_s:.1f} s.",
                    retry_after=admission.wait_s,
                )
            if left <= 0 or admission.wait_s > left or self._closing.is_set():
                raise ModelRateLimited(
                    f"The calls allowed to {model} are used up ({admission.verdict}; see MEMFOREST_LIMITS).",
                    retry_after=max(admission.wait_s, LONGEST_NAP_S),
                )
            self._closing.wait(min(left, max(admission.wait_s, nap) * self._rng.uniform(1.0, 1.5)))
            nap = min(LONGEST_NAP_S, nap * 1.5)

    def _try(self, model: str, name: str, tokens: int, hold_s: float) -> tuple[Admission, CallPermit | None]:
        shared = self._ask(lambda ledger: ledger.admit(model, name, tokens, hold_s), permit=(model, name))
        if shared is None:
            admission, own_at = self.own.admit(model, name, tokens, hold_s)
            shared_at = None
        else:
            admission, shared_at = shared
            own_at = 0.0
        if admission.verdict is not Verdict.GRANTED:
            return admission, None
        if shared_at is not None:
            own_at = self.own.note(model, name, hold_s)
        return admission, CallPermit(self, model, name, tokens=tokens, shared_at=shared_at, own_at=own_at)

    def paused(self, model: str) -> float:
        now = time.monotonic()
        until, holds = self._looks.get(model, (0.0, 0.0))
        if now >= holds:
            shared = self._ask(lambda ledger: ledger.look(model))
            seen = self.own.look(model) if shared is None else shared
            until, now = now + seen.paused_s, time.monotonic()
            # Who is sent to try goes alone: the process's other threads wait as other processes do.
            self._looks[model] = (until if not seen.to_try else now + LOOK_S, now + LOOK_S)
        return max(0.0, until - now)

    def report(self, model: str, error: MemForestError | None) -> None:
        end = CallEnd(outcome_of(error), retry_after=_retry_after(error))
        self.own.settle(model, end)
        self.settle_shared(model, end)

    def settle_shared(self, model: str, end: CallEnd) -> None:
        """Note the end of a call for all workers, if Redis is there; a permit that is not ended expires."""
        told = self._ask(lambda ledger: ledger.settle(model, end))
        if told is None and end.permit:
            self._left.append((model, end.permit))
        if end.outcome in _TROUBLE:
            self._looks.pop(model, None)

    def _ask(self, question: Callable[[Ledger], T], *, permit: tuple[str, str] | None = None) -> T | None:
        """Redis's answer, None while it is away; a question that it does not answer may leave ``permit`` behind."""
        if self._shared is None or not self._presence.may_try():
            return None
        try:
            self._give_back(self._shared)
            answer = question(self._shared)
        except RedisError as error:
            self._presence.failed(error)
            if permit is not None:
                self._left.append(permit)
            return None
        self._presence.worked()
        return answer

    def _give_back(self, ledger: Ledger) -> None:
        """After an outage: end the permits that calls left behind, which would block others until they expire."""
        with suppress(IndexError):  # another thread had the last one
            while True:
                model, name = self._left.popleft()
                try:
                    ledger.settle(model, CallEnd(CallOutcome.UNMADE, name))
                except RedisError:
                    self._left.append((model, name))
                    raise

    def close(self) -> None:
        self._closing.set()
        if self._client is not None:
            self._client.close()
