"""Calls of models within the slots of a process and the limits that all workers share."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

import structlog

from memforest_core.domain.forks import renewed_in_child
from memforest_core.errors import (
    TIMED_OUT,
    ContentRefused,
    ContextTooLong,
    MemForestError,
    ModelAuthFailed,
    ModelRateLimited,
    ModelRejected,
    RetryableError,
)
from memforest_core.models.accounting import StepSettings
from memforest_core.models.call_loop import slot_of
from memforest_core.models.calls import CHAT_STEPS, CallRecord, ChatReply, ChatRequest, Embedded, Reranked, Step
from memforest_core.models.limits.call_limits import CallLimits
from memforest_core.models.limits.model_limits import CHECK, estimated_tokens, limit_key

log = structlog.get_logger(__name__)

Answer = TypeVar("Answer", ChatReply, Embedded, Reranked)

WAIT_S = 30.0
"""Work that found no permit for so long is given back; far below a lease, which it holds meanwhile."""
QUERY_WAIT_S = {Step.BROWSE: 2.0, Step.PLAN: 2.0, Step.RERANK: 2.0, Step.ANSWER: 10.0, Step.PROFILE: 10.0}
"""Somebody waits for these: after that long recall goes on without them, and an answer or a profile is given up."""
HOLD_GRACE_S = 5.0
"""A call that is cut off at its deadline ends a little later; the permit of a killed worker, this much later."""
REPEAT_S = 60.0
"""A failed call of a kind that was logged is counted, and logged again only after this long."""
CHECK_TEXT = "Answer with the word ready."
"""The text that a model is sent, or an embedding model is given, to see whether it answers at all."""
CHECK_MAX_TOKENS = 64
_OWN_FAULTS = (ModelRateLimited, ModelAuthFailed, ContextTooLong, ContentRefused)
"""Failures whose class says already whose they are."""
OUTPUT_GUESS = 512
"""Tokens of an answer until it is there: most extractions and every summary stay below."""


@renewed_in_child
@dataclass(frozen=True, slots=True, weakref_slot=True)
class FailedCalls:
    """Logs why calls fail: by step, model and code, with the sentence for people. Thread-safe."""

    clock: Callable[[], float] = time.monotonic
    _logged: dict[tuple[str, str, str], tuple[float, int]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def tell(self, step: str, model: str, error: MemForestError) -> None:
        """A call of ``step`` failed; ``error`` names settings and servers, never what was sent."""
        kind, now = (step, model, error.code), self.clock()
        with self._lock:
            last, unsaid = self._logged.get(kind, (float("-inf"), 0))
            if now - last < REPEAT_S:
                self._logged[kind] = (last, unsaid + 1)
                return
            self._logged[kind] = (now, 0)
        log.warning(
            "model_call_failed", step=step, model=model, code=error.code, reason=error.message, since_last=unsaid
        )


FAILED_CALLS = FailedCalls()
"""Of this process."""


@renewed_in_child
class LimitedCalls:
    """Calls of one step to one model: each waits for a slot and gets a permit, and says how it ended. Thread-safe.

    Without ``limits`` there are only slots."""

    def __init__(
        self, step: Step, settings: StepSettings, limits: CallLimits | None = None, wait_s: float = WAIT_S
    ) -> None:
        """``wait_s``: how long a call waits for its permit."""
        self._step, self._settings, self._limits = step, settings, limits
        self._wait_s = min(wait_s, QUERY_WAIT_S.get(step, wait_s))
        self._slots = threading.BoundedSemaphore(settings.concurrency)

    def called(
        self, named: str, tokens: int, call: Callable[[], Answer], check: Callable[[], Answer] | None = None
    ) -> Answer:
        """One call of about ``tokens`` tokens with the input of this name. After a failure that may be the input's,
        ``check`` is called to see whether the model answers; None: nothing is checked.

        Raises as the call does; ModelRateLimited and ModelPaused also come from the limits, and ModelUnavailable when
        no slot became free."""
        hint = " (see MEMFOREST_LLM__CONCURRENCY)" if self._step in CHAT_STEPS else ""
        what = f"All {self._settings.concurrency} slots of step {self._step}"
        with slot_of(self._slots, self._settings.timeout_s, what, hint):
            return call() if self._limits is None else self._permitted(self._limits, named, tokens, call, check)

    def _permitted(
        self,
        limits: CallLimits,
        named: str,
        tokens: int,
        call: Callable[[], Answer],
        check: Callable[[], Answer] | None,
    ) -> Answer:
        settings, urgent = self._settings, self._step in QUERY_WAIT_S
        key, hold_s = limit_key(settings.model, settings.api_base), settings.timeout_s + HOLD_GRACE_S
        with limits.acquire(key, tokens, self._wait_s, hold_s=hold_s, named=named, urgent=urgent) as permit:
            try:
                answer = call()
            except MemForestError as error:
                if isinstance(error, RetryableError) and error.retry_after is not None:
                    error.retry_after = min(error.retry_after, limits.retry_after_longest_s)
                # A short check says nothing about a slow model.
                checks = check is not None and error.code != TIMED_OUT and not isinstance(error, _OWN_FAULTS)
                # A call that the provider refused used nothing; of other failed calls nobody knows.
                used = 0 if isinstance(error, ModelRateLimited | ModelRejected) else None
                fault = permit.done(error, used, checks=checks)
                FAILED_CALLS.tell(self._step.value, model=settings.model, error=error)
                error.of_input = fault.alone or (
                    fault.check and check is not None and self._checked(limits, check, error)
                )
                raise
            permit.done(None, tokens_of(answer.record))
            return answer

    def _checked(self, limits: CallLimits, check: Callable[[], Answer], error: MemForestError) -> bool:
        """Whether the model answers a text that nobody sent; what that costs is added to the failed call's record."""
        try:
            answer = self._permitted(limits, CHECK, estimated_tokens([CHECK_TEXT]), check, None)
        except MemForestError:
            return False
        if isinstance(error.call, CallRecord):
            paid = answer.record
            error.call = replace(
                error.call,
                prompt_tokens=error.call.prompt_tokens + paid.prompt_tokens,
                completion_tokens=error.call.completion_tokens + paid.completion_tokens,
                cost_usd=error.call.cost_usd + paid.cost_usd,
            )
        return True


def chat_tokens(request: ChatRequest, most: int) -> int:
    """About how many tokens a request and its answer of at most ``most`` tokens have."""
    texts = [message.content for message in request.messages]
    if request.schema is not None:
        texts.append(json.dumps(request.schema))
    return estimated_tokens(texts, min(request.max_tokens or most, OUTPUT_GUESS))


def tokens_of(record: CallRecord) -> int | None:
    """What a call used, None where the provider did not say."""
    return record.prompt_tokens + record.completion_tokens or None
