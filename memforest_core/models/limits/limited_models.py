"""Chat, embedding and rerank models whose calls keep to the limits that all workers share."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
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
from memforest_core.models.call_loop import CONCURRENCY, slot_of
from memforest_core.models.calls import (
    CHAT_STEPS,
    CallRecord,
    ChatModel,
    ChatReply,
    ChatRequest,
    Embedded,
    Embedder,
    Message,
    Reranked,
    Reranker,
    Step,
)
from memforest_core.models.embedders.batching import in_batches
from memforest_core.models.limits.call_limits import CallLimits, client_address, open_redis
from memforest_core.models.limits.model_limits import BATCH, CHECK, ModelLimits, estimated_tokens, input_name, limit_key
from memforest_core.models.model_opening import BUILT_IN_EMBEDDINGS, step_settings
from memforest_core.settings import OFFLINE, EmbeddingSettings, LlmSettings, RerankSettings, Settings

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


class LimitedCalls:
    """Waits for a slot of its step and gets a permit before each call, and says how it ended."""

    def __init__(self, limits: CallLimits, steps: Mapping[Step, StepSettings], wait_s: float) -> None:
        """``steps``: what the model was opened with; ``wait_s``: how long a call waits for its permit."""
        self._limits = limits
        self._steps = dict(steps)
        self._wait_s = wait_s
        self._slots = {step: threading.BoundedSemaphore(each.concurrency) for step, each in steps.items()}

    def _called(
        self, step: Step, named: str, tokens: int, call: Callable[[], Answer], check: Callable[[], Answer] | None = None
    ) -> Answer:
        """One call of about ``tokens`` tokens with the input of this name. After a failure that may be the input's,
        ``check`` is called to see whether the model answers; None: nothing is checked."""
        settings = self._steps[step]
        hint = "" if step in (Step.EMBED, Step.RERANK) else " (see MEMFOREST_LLM__CONCURRENCY)"
        what = f"All {settings.concurrency} slots of step {step}"
        with slot_of(self._slots[step], settings.timeout_s, what, hint):
            return self._permitted(step, settings, named, tokens, call, check)

    def _permitted(
        self,
        step: Step,
        settings: StepSettings,
        named: str,
        tokens: int,
        call: Callable[[], Answer],
        check: Callable[[], Answer] | None,
    ) -> Answer:
        key = limit_key(settings.model, settings.api_base)
        wait_s, hold_s = min(self._wait_s, QUERY_WAIT_S.get(step, self._wait_s)), settings.timeout_s + HOLD_GRACE_S
        urgent = step in QUERY_WAIT_S
        with self._limits.acquire(key, tokens, wait_s, hold_s=hold_s, named=named, urgent=urgent) as permit:
            try:
                answer = call()
            except MemForestError as error:
                if isinstance(error, RetryableError) and error.retry_after is not None:
                    error.retry_after = min(error.retry_after, self._limits.retry_after_longest_s)
                # A short check says nothing about a slow model.
                checks = check is not None and error.code != TIMED_OUT and not isinstance(error, _OWN_FAULTS)
                # A call that the provider refused used nothing; of other failed calls nobody knows.
                used = 0 if isinstance(error, ModelRateLimited | ModelRejected) else None
                fault = permit.done(error, used, checks=checks)
                FAILED_CALLS.tell(step.value, model=settings.model, error=error)
                error.of_input = fault.alone or (
                    fault.check and check is not None and self._checked(step, settings, check, error)
                )
                raise
            permit.done(None, tokens_of(answer.record))
            return answer

    def _checked(self, step: Step, settings: StepSettings, check: Callable[[], Answer], error: MemForestError) -> bool:
        """Whether the model answers a text that nobody sent; what that costs is added to the failed call's record."""
        try:
            answer = self._permitted(step, settings, CHECK, estimated_tokens([CHECK_TEXT]), check, None)
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


@renewed_in_child
class LimitedChat(LimitedCalls):
    """A chat model within the limits. Thread-safe."""

    def __init__(
        self, chat: ChatModel, limits: CallLimits, steps: Mapping[Step, StepSettings], *, wait_s: float = WAIT_S
    ) -> None:
        super().__init__(limits, steps, wait_s)
        self._chat = chat

    def model_name(self, step: Step) -> str:
        """The configured model of a step."""
        return self._chat.model_name(step)

    def complete(self, request: ChatRequest) -> ChatReply:
        """One call, as the port says; ModelRateLimited and ModelPaused also come from the limits."""
        step = request.step
        settings = self._steps.get(step)
        if settings is None:
            return self._chat.complete(request)
        named = request.input or input_name(message.content for message in request.messages)
        ask = ChatRequest(step, (Message("user", CHECK_TEXT),), max_tokens=CHECK_MAX_TOKENS)
        check = None if step in QUERY_WAIT_S else lambda: self._chat.complete(ask)
        return self._called(step, named, _estimate(request, settings), lambda: self._chat.complete(request), check)


@renewed_in_child
class LimitedEmbedder(LimitedCalls):
    """An embedding model within the limits, in requests of up to ``batch`` texts; the one that finds the dimension out
    is made without a permit. Thread-safe."""

    def __init__(
        self, embedder: Embedder, limits: CallLimits, settings: StepSettings, batch: int, *, wait_s: float = WAIT_S
    ) -> None:
        super().__init__(limits, {Step.EMBED: settings}, wait_s)
        self._embedder = embedder
        self._batch = batch

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
        return self._requested(texts, self._embedder.embed, lambda: self._embedder.embed([CHECK_TEXT]))

    def embed_query(self, texts: Sequence[str]) -> Embedded:
        """As ``embed``."""
        return self._requested(texts, self._embedder.embed_query)

    def _requested(
        self,
        texts: Sequence[str],
        embed: Callable[[Sequence[str]], Embedded],
        check: Callable[[], Embedded] | None = None,
    ) -> Embedded:
        def bisected(batch: Sequence[str]) -> Embedded:
            """One request; after a failure that is the batch's, halves are tried until the texts are known."""
            named = (BATCH if len(batch) < len(texts) or len(batch) > 1 else "") + input_name(batch)
            try:
                return self._called(Step.EMBED, named, estimated_tokens(batch), lambda: embed(batch), check)
            except MemForestError as error:
                if not error.of_input:
                    raise
                middle = len(batch) // 2
                for half in (batch[:middle], batch[middle:]) if middle else ():
                    try:
                        bisected(half)
                    except MemForestError as part:
                        if not part.of_input:
                            raise
                        error.inputs |= part.inputs
                error.inputs |= frozenset() if middle else {input_name(batch)}
                raise

        return in_batches(texts, self._batch, bisected) if texts else embed(texts)


@renewed_in_child
class LimitedReranker(LimitedCalls):
    """A provider's rerank model within the limits. Thread-safe."""

    def __init__(self, reranker: Reranker, limits: CallLimits, settings: StepSettings) -> None:
        super().__init__(limits, {Step.RERANK: settings}, WAIT_S)
        self._reranker = reranker

    @property
    def model(self) -> str:
        """Name of the model."""
        return self._reranker.model

    def rerank(self, question: str, texts: Sequence[str]) -> Reranked:
        """As the port says; ModelRateLimited and ModelPaused also come from the limits."""
        # The model reads the question with each text.
        tokens = estimated_tokens([*texts, *[question] * len(texts)])
        named = input_name([question, *texts])
        return self._called(Step.RERANK, named, tokens, lambda: self._reranker.rerank(question, texts))


def _estimate(request: ChatRequest, settings: StepSettings) -> int:
    texts = [message.content for message in request.messages]
    if request.schema is not None:
        texts.append(json.dumps(request.schema))
    return estimated_tokens(texts, min(request.max_tokens or settings.max_tokens, OUTPUT_GUESS))


def tokens_of(record: CallRecord) -> int | None:
    """What a call used, None where the provider did not say."""
    return record.prompt_tokens + record.completion_tokens or None


def open_limits(settings: Settings) -> CallLimits:
    """The limits in the broker's Redis; connects on first use.

    A ``sentinel://`` broker does not say what its master is called: each process then uses its part of the
    limits (one part of ``deployment.worker_processes``), as it does while Redis is unavailable.
    """
    address = client_address(settings.broker.url.get_secret_value())
    if address is None:
        log.warning("limits_not_shared", reason="the broker is given by its sentinels")
    client = None if address is None else open_redis(address)
    return CallLimits(client, ModelLimits(**settings.limits.model_dump()), settings.deployment.worker_processes)


def limit_chat(chat: ChatModel, limits: CallLimits, settings: LlmSettings) -> LimitedChat:
    """A chat model within the limits in every step that is not offline."""
    steps = {step: step_settings(settings, step) for step in CHAT_STEPS}
    return LimitedChat(chat, limits, {step: each for step, each in steps.items() if each.model != OFFLINE})


def limit_embedder(embedder: Embedder, limits: CallLimits, settings: EmbeddingSettings) -> Embedder:
    """An embedding model within the limits; the built-in one has none."""
    if embedding_key(settings) is None:
        return embedder
    return LimitedEmbedder(embedder, limits, _of(settings), settings.batch)


def limit_reranker(reranker: Reranker | None, limits: CallLimits, settings: RerankSettings) -> Reranker | None:
    """A provider's rerank model within the limits; one in this process has none."""
    if reranker is None or settings.model is None:
        return reranker
    return LimitedReranker(reranker, limits, _of(settings))


def _of(settings: EmbeddingSettings | RerankSettings) -> StepSettings:
    return StepSettings(settings.model or "", settings.api_base, timeout_s=settings.timeout_s, concurrency=CONCURRENCY)


def chat_key(settings: LlmSettings, step: Step) -> str | None:
    """The key for ``CallLimits.paused`` before work of a step; None for offline steps."""
    own = step_settings(settings, step)
    return None if own.model == OFFLINE else limit_key(own.model, own.api_base)


def embedding_key(settings: EmbeddingSettings) -> str | None:
    """The same for embedding; None for a built-in model."""
    return None if settings.model in BUILT_IN_EMBEDDINGS else limit_key(settings.model, settings.api_base)
