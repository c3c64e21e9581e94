"""A chat model whose calls keep to the limits that all workers share."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping

from memforest_core.errors import MemForestError, ModelRateLimited, ModelRejected, ModelUnavailable
from memforest_core.models.calls import CallRecord, ChatModel, ChatReply, ChatRequest, Step
from memforest_core.models.limits.call_limits import CallLimits
from memforest_core.models.limits.failed_calls import FAILED_CALLS
from memforest_core.models.limits.model_limits import estimated_tokens, limit_key
from memforest_core.models.step_settings import StepSettings

WAIT_S = 30.0
"""Work that found no permit for so long is given back; far below a lease, which it holds meanwhile."""
QUERY_WAIT_S = {Step.BROWSE: 2.0, Step.PLAN: 2.0, Step.ANSWER: 10.0}
"""Somebody waits for these: after that long recall goes on without them, and an answer is given up."""
HOLD_GRACE_S = 5.0
"""A call that is cut off at its deadline ends a little later; the permit of a killed worker, this much later."""
OUTPUT_GUESS = 512
"""Tokens of an answer until it is there: most extractions and every summary stay below."""


class LimitedChat:
    """Asks for a permit before each call and says how it ended. Thread-safe."""

    def __init__(
        self, chat: ChatModel, limits: CallLimits, steps: Mapping[Step, StepSettings], *, wait_s: float = WAIT_S
    ) -> None:
        """``steps``: what ``chat`` was opened with; ``wait_s``: how long a call waits for its permit."""
        self._chat = chat
        self._limits = limits
        self._steps = dict(steps)
        self._wait_s = wait_s
        # The model has slots too; waited for there, a permit would be held by a call that does not begin.
        self._slots = {step: threading.BoundedSemaphore(each.concurrency) for step, each in steps.items()}

    def model_name(self, step: Step) -> str:
        """The configured model of a step."""
        return self._chat.model_name(step)

    def limited_as(self, step: Step) -> str:
        """The name under which a step's model is limited, for ``CallLimits.paused``."""
        return limit_key(self._steps[step].model, self._steps[step].api_base)

    def complete(self, request: ChatRequest) -> ChatReply:
        """One call, as the port says; ModelRateLimited and ModelPaused also come from the limits."""
        settings = self._steps.get(request.step)
        if settings is None:
            return self._chat.complete(request)
        if not self._slots[request.step].acquire(timeout=settings.timeout_s):
            raise ModelUnavailable(
                f"All {settings.concurrency} slots of step {request.step} stayed busy for {settings.timeout_s:g} s "
                "(see MEMFOREST_LLM__CONCURRENCY)."
            )
        try:
            return self._permitted(request, settings)
        finally:
            self._slots[request.step].release()

    def _permitted(self, request: ChatRequest, settings: StepSettings) -> ChatReply:
        key, tokens = self.limited_as(request.step), _estimate(request, settings)
        wait_s = min(self._wait_s, QUERY_WAIT_S.get(request.step, self._wait_s))
        with self._limits.acquire(key, tokens, wait_s, hold_s=settings.timeout_s + HOLD_GRACE_S) as permit:
            try:
                reply = self._chat.complete(request)
            except MemForestError as error:
                permit.done(error, tokens_of_failed(error))
                FAILED_CALLS.tell(request.step.value, settings.model, error)
                raise
            permit.done(None, tokens_of(reply.record))
            return reply


def _estimate(request: ChatRequest, settings: StepSettings) -> int:
    texts = [message.content for message in request.messages]
    if request.schema is not None:
        texts.append(json.dumps(request.schema))
    return estimated_tokens(texts, min(request.max_tokens or settings.max_tokens, OUTPUT_GUESS))


def tokens_of(record: CallRecord) -> int | None:
    """What a call used, None where the provider did not say."""
    return record.prompt_tokens + record.completion_tokens or None


def tokens_of_failed(error: MemForestError) -> int | None:
    """What a failed call used: nothing where the provider turned it away, else nobody knows."""
    return 0 if isinstance(error, ModelRateLimited | ModelRejected) else None
