"""Any embedding model that litellm can call, as the Embedder port."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from memforest_core.domain.forks import renewed_in_child
from memforest_core.errors import MemForestError, ModelRejected
from memforest_core.models.accounting import Price, record_of
from memforest_core.models.calls import CallRecord, Embedded, Step, Vectors
from memforest_core.models.embedders.batching import in_batches
from memforest_core.models.litellm_failures import Target, failure
from memforest_core.models.litellm_requests import LitellmRequests

_SETTINGS = "MEMFOREST_EMBEDDING"
_PROBE = "dimension"


@renewed_in_child
class LitellmEmbedder:
    """Thread-safe. ``timeout_s`` is the hard deadline of one request of up to ``batch_size`` texts;
    ``input_usd_per_mtok`` overrides litellm's price."""

    def __init__(
        self,
        model: str,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        timeout_s: float = 30.0,
        batch_size: int = 64,
        input_usd_per_mtok: float | None = None,
    ) -> None:
        self._target = Target(model, api_base, timeout_s, _SETTINGS)
        self._requests = LitellmRequests(self._target, api_key, "embedding")
        self._batch_size = batch_size
        self._price = Price(prompt=input_usd_per_mtok)
        self._probe_lock = threading.Lock()
        self._dimension: int | None = None

    @property
    def model(self) -> str:
        """litellm's name of the model."""
        return self._target.model

    @property
    def dimension(self) -> int:
        """Length of a vector, from the first answer; requests that of one word if there was none yet.

        Raises as ``embed`` does.
        """
        if self._dimension is None:
            with self._probe_lock:
                if self._dimension is None:
                    return int(self._request([_PROBE]).vectors.shape[1])
        return self._dimension

    def embed(self, texts: Sequence[str]) -> Embedded:
        """Unit vectors, shape (n, dimension). Raises ModelUnavailable, ModelRateLimited,
        ModelAuthFailed, ContextTooLong, or ModelRejected (also for an answer that does not fit)."""
        if not texts:
            record = CallRecord(Step.EMBED, self.model, 0, 0, 0, 0.0, 0.0, outcome="ok")
            return Embedded(np.empty((0, self.dimension), dtype=np.float32), record)
        return in_batches(texts, self._batch_size, self._request)

    def embed_query(self, texts: Sequence[str]) -> Embedded:
        """The same as ``embed``."""
        return self.embed(texts)

    def _request(self, texts: Sequence[str]) -> Embedded:
        # Many servers know no base64, which the OpenAI client requests by itself.
        done, latency_ms = self._requests.run("aembedding", len(texts), input=list(texts), encoding_format="float")
        ended = done.value if done.error is None else failure(done.error, self._target)
        vectors = ended if isinstance(ended, MemForestError) else self._vectors(ended, len(texts))
        if isinstance(vectors, MemForestError):
            vectors.call = record_of(Step.EMBED, self.model, vectors, latency_ms, self._price)
            raise vectors
        return Embedded(vectors, record_of(Step.EMBED, self.model, ended, latency_ms, self._price))

    def _vectors(self, response: Any, count: int) -> Vectors | ModelRejected:
        """The rows in the order of the texts, by the index that each carries."""
        try:
            items = [item if isinstance(item, dict) else item.model_dump() for item in response.data]
            given = {item.get("index", place): item["embedding"] for place, item in enumerate(items)}
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
