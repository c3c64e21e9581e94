"""An embedding model whose requests keep to the limits that all workers share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from memforest_core.errors import MemForestError, ModelUnavailable
from memforest_core.models.calls import CallRecord, Embedded, Embedder, Step
from memforest_core.models.limits.call_limits import CallLimits
from memforest_core.models.limits.failed_calls import FAILED_CALLS
from memforest_core.models.limits.limited_chat import HOLD_GRACE_S, WAIT_S, tokens_of, tokens_of_failed
from memforest_core.models.limits.model_limits import estimated_tokens


class LimitedEmbedder:
    """Asks for a permit before each request of up to ``batch`` texts and says how it ended. Thread-safe.

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
        concurrency: int = 8,
        wait_s: float = WAIT_S,
    ) -> None:
        """``key``: the name under which the model is limited; the rest as ``embedder`` was opened with."""
        self._embedder = embedder
        self._limits = limits
        self.limited_as = key
        self._batch = batch
        self._timeout_s = timeout_s
        self._wait_s = wait_s
        self._slots = threading.BoundedSemaphore(concurrency)

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
        return self._in_batches(texts, self._embedder.embed)

    def embed_query(self, texts: Sequence[str]) -> Embedded:
        """As ``embed``."""
        return self._in_batches(texts, self._embedder.embed_query)

    def _in_batches(self, texts: Sequence[str], embed: Callable[[Sequence[str]], Embedded]) -> Embedded:
        if not texts:
            return embed(texts)
        parts = [
            self._permitted(texts[start : start + self._batch], embed) for start in range(0, len(texts), self._batch)
        ]
        if len(parts) == 1:
            return parts[0]
        return Embedded(np.concatenate([part.vectors for part in parts]), _total([part.record for part in parts]))

    def _permitted(self, texts: Sequence[str], embed: Callable[[Sequence[str]], Embedded]) -> Embedded:
        if not self._slots.acquire(timeout=self._timeout_s):
            raise ModelUnavailable(f"All embedding requests to {self.model} stayed busy for {self._timeout_s:g} s.")
        try:
            hold_s = self._timeout_s + HOLD_GRACE_S
            with self._limits.acquire(self.limited_as, estimated_tokens(texts), self._wait_s, hold_s=hold_s) as permit:
                try:
                    embedded = embed(texts)
                except MemForestError as error:
                    permit.done(error, tokens_of_failed(error))
                    FAILED_CALLS.tell(Step.EMBED.value, self.model, error)
                    raise
                permit.done(None, tokens_of(embedded.record))
                return embedded
        finally:
            self._slots.release()


def _total(records: Sequence[CallRecord]) -> CallRecord:
    return replace(
        records[0],
        prompt_tokens=sum(record.prompt_tokens for record in records),
        cached_tokens=sum(record.cached_tokens for record in records),
        cost_usd=sum(record.cost_usd for record in records),
        latency_ms=sum(record.latency_ms for record in records),
    )
