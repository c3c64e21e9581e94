"""Requests to models through litellm with hard deadlines; its embedding and rerank models."""

from __future__ import annotations

import math
import os
import threading
import time
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from memforest_core.domain.forks import renewed_in_child
from memforest_core.errors import MemForestError, ModelRejected
from memforest_core.models.accounting import StepSettings, record_of
from memforest_core.models.call_loop import Finished, call_loop
from memforest_core.models.calls import CallRecord, Embedded, Reranked, Step, Vectors
from memforest_core.models.embedders.batching import in_batches
from memforest_core.models.limits.call_limits import CallLimits
from memforest_core.models.limits.limited_models import CHECK_TEXT, WAIT_S, LimitedCalls
from memforest_core.models.limits.model_limits import BATCH, estimated_tokens, input_name
from memforest_core.models.litellm_failures import Target, failure, missing_key, refuses
from memforest_core.models.litellm_runtime import (
    BASE_BYTES,
    ROW_BYTES,
    key_argument,
    limited,
    litellm_module,
    misses_key,
)
from memforest_core.models.openai_vectors import ONLY_LITELLM, PREFIX, OpenAIVectors

Answer = TypeVar("Answer")


class LitellmRequests(LimitedCalls):
    """Requests of a step through litellm, each with a hard deadline of ``settings.timeout_s``. Thread-safe."""

    def __init__(
        self, step: Step, settings: StepSettings, prefix: str, limits: CallLimits | None = None, wait_s: float = WAIT_S
    ) -> None:
        """``prefix``: of the settings to change, for messages."""
        super().__init__(step, settings, limits, wait_s)
        self.target = Target(settings.model, settings.api_base, settings.timeout_s, prefix)
        self._has_key = False
        self._instead: dict[str, object] = {}
        alone = step is Step.EMBED and settings.api_base is not None and settings.model.startswith(PREFIX)
        self._alone = OpenAIVectors(settings) if alone and not ONLY_LITELLM & os.environ.keys() else None

    def require_key(self) -> None:
        """Raise ModelAuthFailed when the model needs a key and none is set."""
        if not self._has_key and misses_key(self.target.model, self._settings.api_key, self.target.api_base):
            raise missing_key(self.target)
        self._has_key = True

    def answered(
        self, send: Callable[[float], Any], read: Callable[[Any], Answer | MemForestError]
    ) -> tuple[Answer, CallRecord]:
        """What ``read`` makes of the response to ``send``, which gets a deadline of ``time.perf_counter``; and the
        call's record, which is in ``error.call`` when either of them returns an error: that is raised.

        Raises ModelAuthFailed as ``require_key``.
        """
        if self._alone is None:
            litellm_module()  # its import takes seconds, which are no part of a call
        self.require_key()
        started = time.perf_counter()
        ended = send(started + self.target.timeout_s)
        latency_ms = (time.perf_counter() - started) * 1000.0
        answer = ended if isinstance(ended, MemForestError) else read(ended)
        if isinstance(answer, MemForestError):
            answer.call = record_of(self._step, self.target.model, answer, latency_ms, self._settings.price)
            raise answer
        return answer, record_of(self._step, self.target.model, ended, latency_ms, self._settings.price)

    def rows(
        self, function: str, rows: int, read: Callable[[Any], Answer | MemForestError], **arguments: object
    ) -> tuple[Answer, CallRecord]:
        """As ``answered``, of a call whose answer has one vector or score for each of so many ``rows``."""

        def send(deadline: float) -> Any:
            done = self.call(function, BASE_BYTES + ROW_BYTES * rows, deadline, **arguments | self._instead)
            coded = arguments.get("encoding_format") == "base64" and not self._instead
            if coded and refuses(done.error, ("encoding_format", "base64")):
                self._instead = {"encoding_format": "float"}
                return send(deadline)
            return done.value if done.error is None else failure(done.error, self.target)

        return self.answered(send, read)

    def call(self, function: str, most_bytes: int, deadline: float, **arguments: object) -> Finished[Any]:
        """How a call of this coroutine function of litellm ended; its answer has at most so many decoded bytes."""
        common = {
            "model": self.target.model,
            "api_base": self.target.api_base,
            "api_key": key_argument(self._settings.api_key, self.target.api_base),
            # Part of litellm's key for its connection pools: always the same number, or every call
            # opens a pool of its own. The deadline proper is the loop's.
            "timeout": self.target.timeout_s,
            # litellm's default of 2 would block a slot for the whole Retry-After, twice.
            "max_retries": 0,
            # Some models take no temperature; the schema is never dropped, the ladder sees to it.
            "drop_params": True,
        }
        given = {name: value for name, value in (arguments | common).items() if value is not None}
        called: Callable[..., Any] = self._alone.request if self._alone else getattr(litellm_module(), function)
        return call_loop().run(partial(limited, partial(called, **given), most_bytes), deadline - time.perf_counter())


_RERANK_SETTINGS = "MEMFOREST_RECALL__RERANK"


class LitellmReranker:
    """Thread-safe. ``timeout_s`` of the settings bounds one request, which has all texts of a question."""

    def __init__(self, settings: StepSettings, limits: CallLimits | None = None) -> None:
        self._requests = LitellmRequests(Step.RERANK, settings, _RERANK_SETTINGS, limits)
        self._target = self._requests.target

    @property
    def model(self) -> str:
        """litellm's name of the model."""
        return self._target.model

    def rerank(self, question: str, texts: Sequence[str]) -> Reranked:
        """Relevance scores in the order of the texts, within the limits. Raises ModelUnavailable, ModelRateLimited,
        ModelAuthFailed, ContextTooLong, or ModelRejected (also for an answer that does not fit)."""
        # The model reads the question with each text.
        tokens = estimated_tokens([*texts, *[question] * len(texts)])
        return self._requests.called(input_name([question, *texts]), tokens, lambda: self._scored(question, texts))

    def _scored(self, question: str, texts: Sequence[str]) -> Reranked:
        # Some providers give only the best few unless the request says how many.
        count = len(texts)

        def read(response: Any) -> tuple[list[float], int] | MemForestError:
            scores = _scores(response, count, self._target)
            return scores if isinstance(scores, ModelRejected) else (scores, _tokens(response))

        given = {"query": question, "documents": list(texts), "top_n": count, "return_documents": False}
        (scores, tokens), record = self._requests.rows("arerank", count, read, **given)
        return Reranked(scores, replace(record, prompt_tokens=tokens))


def _tokens(response: Any) -> int:
    """What the provider counted, 0 where it says nothing (many count searches)."""
    meta = response.meta if isinstance(response.meta, dict) else {}
    counted = meta.get("tokens")
    number = counted.get("input_tokens") if isinstance(counted, dict) else 0
    return number if isinstance(number, int) else 0


def _scores(response: Any, count: int, target: Target) -> list[float] | ModelRejected:
    """The scores by the index that each carries, or what is wrong with the answer."""
    results: Sequence[Mapping[str, Any]] = response.results or []
    try:
        scores: dict[object, object] = {result.get("index"): result.get("relevance_score") for result in results}
    except (AttributeError, TypeError):
        return ModelRejected(f"{target} answered with what are no scores.")
    if len(results) != count or scores.keys() != set(range(count)):
        return ModelRejected(f"{target} answered with {len(results)} scores for {count} texts.")
    ordered = [scores[place] for place in range(count)]
    numbers = [float(score) for score in ordered if isinstance(score, int | float) and math.isfinite(score)]
    if len(numbers) != count:
        return ModelRejected(f"{target} answered with a score that is no number.")
    return numbers


_SETTINGS = "MEMFOREST_EMBEDDING"
_PROBE = "dimension"


@renewed_in_child
class LitellmEmbedder:
    """Thread-safe. ``timeout_s`` of the settings bounds one request of up to ``batch_size`` texts."""

    def __init__(
        self, settings: StepSettings, batch_size: int = 64, limits: CallLimits | None = None, *, wait_s: float = WAIT_S
    ) -> None:
        """``wait_s``: how long a request waits for its permit of the limits."""
        self._requests = LitellmRequests(Step.EMBED, settings, _SETTINGS, limits, wait_s)
        self._target = self._requests.target
        self._batch_size = batch_size
        self._probe_lock = threading.Lock()
        self._dimension: int | None = None

    @property
    def model(self) -> str:
        """litellm's name of the model."""
        return self._target.model

    @property
    def dimension(self) -> int:
        """Length of a vector, from the first answer; requests that of one word, without a permit, if there was none
        yet. Raises as ``embed`` does."""
        if self._dimension is None:
            with self._probe_lock:
                if self._dimension is None:
                    return int(self._request([_PROBE]).vectors.shape[1])
        return self._dimension

    def embed(self, texts: Sequence[str]) -> Embedded:
        """Unit vectors, shape (n, dimension), in requests within the limits. Raises ModelUnavailable, ModelRateLimited,
        ModelAuthFailed, ContextTooLong, or ModelRejected (also for an answer that does not fit)."""
        return self._embedded(texts, lambda: self._request([CHECK_TEXT]))

    def embed_query(self, texts: Sequence[str]) -> Embedded:
        """The same as ``embed``; whether the model answers at all is not checked."""
        return self._embedded(texts, None)

    def _embedded(self, texts: Sequence[str], check: Callable[[], Embedded] | None) -> Embedded:
        def bisected(batch: Sequence[str]) -> Embedded:
            """One request; after a failure that is the batch's, halves are tried until the texts are known."""
            named = (BATCH if len(batch) < len(texts) or len(batch) > 1 else "") + input_name(batch)
            try:
                return self._requests.called(named, estimated_tokens(batch), lambda: self._request(batch), check)
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

        if not texts:
            record = CallRecord(Step.EMBED, self.model, 0, 0, 0, 0.0, 0.0, outcome="ok")
            return Embedded(np.empty((0, self.dimension), dtype=np.float32), record)
        return in_batches(texts, self._batch_size, bisected)

    def _request(self, texts: Sequence[str]) -> Embedded:
        # Bytes are read faster than lists. A server without base64 sends lists nevertheless, or refuses it once; for
        # other providers the same word means bits (Titan) or bytes (Perplexity).
        coded = "base64" if self.model.startswith(PREFIX) else "float"
        given = {"input": list(texts), "encoding_format": coded}
        return Embedded(*self._requests.rows("aembedding", len(texts), partial(self._vectors, len(texts)), **given))

    def _vectors(self, count: int, response: Any) -> Vectors | MemForestError:
        """The rows in the order of the texts, by the index that each carries."""
        try:
            items = [item if isinstance(item, dict) else item.model_dump() for item in response.data]
            given = {item.get("index", place): item["embedding"] for place, item in enumerate(items)}
            coded = {place: b64decode(row, validate=True) for place, row in given.items() if isinstance(row, str)}
            given |= {place: np.frombuffer(row, "<f4") for place, row in coded.items()}
            rows = {place: np.asarray(row, dtype=np.float32) for place, row in given.items()}
            lengths = {len(row) for row in rows.values()}
        except (AttributeError, KeyError, TypeError, ValueError):
            return ModelRejected(f"{self._target} answered with what are no vectors.")
        if rows.keys() != set(range(count)):
            return ModelRejected(f"{self._target} answered with {len(items)} vectors for {count} texts.")
        expected = self._dimension or max(lengths)
        if lengths != {expected}:
            return ModelRejected(
                f"{self._target} answered with vectors of {sorted(lengths)} numbers where {expected} were expected."
            )
        raw = np.stack([rows[place] for place in range(count)])
        norms = np.linalg.norm(raw, axis=1, keepdims=True)
        if not np.isfinite(raw).all() or not (norms > 0).all():
            return ModelRejected(f"{self._target} answered with a vector that has no direction.")
        self._dimension = expected
        unit: Vectors = raw / norms
        return unit
