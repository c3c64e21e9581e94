"""Chat, embedding and rerank models whose calls keep to the limits that all workers share."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import structlog

from memforest_core.errors import MemForestError, ModelRateLimited, ModelRejected
from memforest_core.forks import renewed_in_child
from memforest_core.models.calls import (
    CallRecord,
    ChatModel,
    ChatReply,
    ChatRequest,
    Embedded,
    Embedder,
    Reranked,
    Reranker,
    Step,
)
from memforest_core.models.embedders.batching import in_batches
from memforest_core.models.limits.call_limits import CallLimits
from memforest_core.models.limits.model_limits import estimated_tokens, limit_key
from memforest_core.models.slots import CONCURRENCY, slot_of
from memforest_core.models.step_settings import StepSettings

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
OUTPUT_GUESS = 512
"""Tokens of an answer until it is there: most extractions and every summary stay below."""


@renewed_in_child
@dataclass(frozen=True, slots=True, weakref_slot=True)
class FailedCalls:
    """Logs why calls fail: by step, model and code, with the sentence for people. Thread-safe."""

    clock: Callable[[], float] = time.monotonic
    _told: dict[tuple[str, str, str], tuple[float, int]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def tell(self, step: str, model: str, error: MemForestError) -> None:
        """A call of ``step`` failed; ``error`` names settings and servers, never what was sent."""
        kind, now = (step, model, error.code), self.clock()
        with self._lock:
            last, unsaid = self._told.get(kind, (float("-inf"), 0))
            if now - last < REPEAT_S:
                self._told[kind] = (last, unsaid + 1)
                return
            self._told[kind] = (now, 0)
        log.warning(
            "model_call_failed", step=step, model=model, code=error.code, reason=error.message, since_last=unsaid
        )


FAILED_CALLS = FailedCalls()
"""Of this process."""


class LimitedCalls:
    """Asks for a permit before each call and says how it ended."""

    def __init__(self, limits: CallLimits, wait_s: float) -> None:
        """``wait_s``: how long a call waits for its permit."""
        self._limits = limits
        self._wait_s = wait_s

    def _permitted(
        self, step: Step, model: str, key: str, tokens: int, timeout_s: float, call: Callable[[], Answer]
    ) -> Answer:
        """One call of about ``tokens`` tokens to a model that is limited under ``key``."""
        wait_s = min(self._wait_s, QUERY_WAIT_S.get(step, self._wait_s))
        with self._limits.acquire(key, tokens, wait_s, hold_s=timeout_s + HOLD_GRACE_S) as permit:
            try:
                answer = call()
            except MemForestError as error:
                # A call that the provider turned away used nothing; of other failed calls nobody knows.
                permit.done(error, 0 if isinstance(error, ModelRateLimited | ModelRejected) else None)
                FAILED_CALLS.tell(step.value, model, error)
                raise
            permit.done(None, tokens_of(answer.record))
            return answer


@renewed_in_child
class LimitedChat(LimitedCalls):
    """A chat model within the limits. Thread-safe."""

    def __init__(
        self, chat: ChatModel, limits: CallLimits, steps: Mapping[Step, StepSettings], *, wait_s: float = WAIT_S
    ) -> None:
        """``steps``: what ``chat`` was opened with."""
        super().__init__(limits, wait_s)
        self._chat = chat
        self._steps = dict(steps)
        # The model has slots too; waited for there, a permit would be held by a call that does not begin.
        self._slots = {step: threading.BoundedSemaphore(each.concurrency) for step, each in steps.items()}

    def model_name(self, step: Step) -> str:
        """The configured model of a step."""
        return self._chat.model_name(step)

    def complete(self, request: ChatRequest) -> ChatReply:
        """One call, as the port says; ModelRateLimited and ModelPaused also come from the limits."""
        step = request.step
        settings = self._steps.get(step)
        if settings is None:
            return self._chat.complete(request)
        what, hint = f"All {settings.concurrency} slots of step {step}", " (see MEMFOREST_LLM__CONCURRENCY)"
        key, tokens = limit_key(settings.model, settings.api_base), _estimate(request, settings)
        with slot_of(self._slots[step], settings.timeout_s, what, hint):
            return self._permitted(
                step, settings.model, key, tokens, settings.timeout_s, lambda: self._chat.complete(request)
            )


@renewed_in_child
class LimitedEmbedder(LimitedCalls):
    """An embedding model within the limits, in requests of up to ``batch`` texts. Thread-safe.

    The request that finds the dimension out is made without a permit, once.
    """

    def __init__(
        self,
        embedder: Embedder,
        limits: CallLimits,
        key: str,
        *,
        batch: int,
        timeout_s: float,
        wait_s: float = WAIT_S,
    ) -> None:
        """``key``: the name under which the model is limited; the rest as ``embedder`` was opened with."""
        super().__init__(limits, wait_s)
        self._embedder = embedder
        self._key = key
        self._batch = batch
        self._timeout_s = timeout_s
        self._slots = threading.BoundedSemaphore(CONCURRENCY)

    @property
    def model(self) -> str:
        """Name of the model."""
        return self._embedder.model

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self._embedder.dimension

    def embed(self, texts: Sequence[str]) -> Embedded:
        """As the port says; ModelRateLimited and ModelPaused also come from the limits."""
        return self._requested(texts, self._embedder.embed)

    def embed_query(self, texts: Sequence[str]) -> Embedded:
        """As ``embed``."""
        return self._requested(texts, self._embedder.embed_query)

    def _requested(self, texts: Sequence[str], embed: Callable[[Sequence[str]], Embedded]) -> Embedded:
        def request(batch: Sequence[str]) -> Embedded:
            tokens = estimated_tokens(batch)
            with slot_of(self._slots, self._timeout_s, f"All embedding requests to {self.model}"):
                return self._permitted(Step.EMBED, self.model, self._key, tokens, self._timeout_s, lambda: embed(batch))

        return in_batches(texts, self._batch, request) if texts else embed(texts)


@renewed_in_child
class LimitedReranker(LimitedCalls):
    """A provider's rerank model within the limits. Thread-safe."""

    def __init__(
        self, reranker: Reranker, limits: CallLimits, key: str, *, timeout_s: float, wait_s: float = WAIT_S
    ) -> None:
        """``key``: the name under which the model is limited; the rest as ``reranker`` was opened with."""
        super().__init__(limits, wait_s)
        self._reranker = reranker
        self._key = key
        self._timeout_s = timeout_s
        self._slots = threading.BoundedSemaphore(CONCURRENCY)

    @property
    def model(self) -> str:
        """Name of the model."""
        return self._reranker.model

    def rerank(self, question: str, texts: Sequence[str]) -> Reranked:
        """As the port says; ModelRateLimited and ModelPaused also come from the limits."""
        # The model reads the question with each text.
        tokens = estimated_tokens([*texts, *[question] * len(texts)])
        with slot_of(self._slots, self._timeout_s, f"All rerank requests to {self.model}"):
            return self._permitted(
                Step.RERANK,
                self.model,
                self._key,
                tokens,
                self._timeout_s,
                lambda: self._reranker.rerank(question, texts),
            )


def _estimate(request: ChatRequest, settings: StepSettings) -> int:
    texts = [message.content for message in request.messages]
    if request.schema is not None:
        texts.append(json.dumps(request.schema))
    return estimated_tokens(texts, min(request.max_tokens or settings.max_tokens, OUTPUT_GUESS))


def tokens_of(record: CallRecord) -> int | None:
    """What a call used, None where the provider did not say."""
    return record.prompt_tokens + record.completion_tokens or None
