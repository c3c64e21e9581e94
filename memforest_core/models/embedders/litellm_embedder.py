"""Any embedding model that litellm can call, as the Embedder port."""

from __future__ import annotations

import threading
import time
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any

import numpy as np

from memforest_core.errors import MemForestError, ModelRejected
from memforest_core.models.accounting import Usage, cost_usd
from memforest_core.models.call_loop import call_loop
from memforest_core.models.calls import CallRecord, Embedded, Step, Vectors
from memforest_core.models.embedders.batching import in_batches
from memforest_core.models.litellm_failures import Target, failure, missing_key
from memforest_core.models.litellm_runtime import key_argument, lacks_key, litellm_module
from memforest_core.models.slots import slot_of

_SETTINGS = "MEMFOREST_EMBEDDING"
_PROBE = "dimension"


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
        concurrency: int = 8,
        input_usd_per_mtok: float | None = None,
    ) -> None:
        self._target = Target(model, api_base, timeout_s, _SETTINGS)
        self._api_key = api_key
        self._batch_size = batch_size
        self._price = input_usd_per_mtok
        self._slots = threading.BoundedSemaphore(concurrency)
        self._probe_lock = threading.Lock()
        self._dimension: int | None = None
        self._has_key = False

    @property
    def model(self) -> str:
        """litellm's name of the model."""
        return self._target.model

    @property
    def dimension(self) -> int:
        """Length of a vector, from the first answer; asks with one word if there was none yet.

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
        target = self._target
        litellm_module()  # its import takes seconds, which are no part of a call
        if not self._has_key:
            if lacks_key(target.model, self._api_key, target.api_base):
                raise missing_key(target)
            self._has_key = True
        with slot_of(self._slots, target.timeout_s, f"All embedding requests to {target}"):
            started = time.perf_counter()
            done = call_loop().run(partial(self._start, list(texts)), target.timeout_s)
            latency_ms = (time.perf_counter() - started) * 1000.0
        if done.error is not None:
            raise self._failed(failure(done.error, target), latency_ms)
        vectors = self._vectors(done.value, len(texts))
        if isinstance(vectors, MemForestError):
            raise self._failed(vectors, latency_ms)
        usage = Usage.of(done.value)
        record = CallRecord(
            step=Step.EMBED,
            model=target.model,
            prompt_tokens=usage.prompt,
            completion_tokens=0,
            cached_tokens=usage.cached,
            cost_usd=cost_usd(done.value, usage, self._price, None),
            latency_ms=latency_ms,
            outcome="ok",
        )
        return Embedded(vectors, record)

    def _failed(self, error: MemForestError, latency_ms: float) -> MemForestError:
        error.call = CallRecord(Step.EMBED, self.model, 0, 0, 0, 0.0, latency_ms, outcome=error.code)
        return error

    def _start(self, texts: list[str]) -> Coroutine[Any, Any, Any]:
        arguments: dict[str, Any] = {
            "model": self._target.model,
            "input": texts,
            "api_base": self._target.api_base,
            "api_key": key_argument(self._api_key, self._target.api_base),
            "timeout": self._target.timeout_s,
            "max_retries": 0,
            # Many servers know no base64, which is what the OpenAI client asks for by itself.
            "encoding_format": "float",
            "drop_params": True,
        }
        given = {name: value for name, value in arguments.items() if value is not None}
        started: Coroutine[Any, Any, Any] = litellm_module().aembedding(**given)
        return started

    def _vectors(self, response: Any, count: int) -> Vectors | ModelRejected:
        """The rows in the order of the texts, by the index that each carries."""
        items = [item if isinstance(item, dict) else item.model_dump() for item in response.data]
        rows = {item.get("index", place): item["embedding"] for place, item in enumerate(items)}
        if sorted(rows) != list(range(count)):
            return ModelRejected(f"{self._target} answered with {len(items)} vectors for {count} texts.")
        lengths = {len(row) for row in rows.values()}
        expected = self._dimension or max(lengths)
        if lengths != {expected}:
            return ModelRejected(
                f"{self._target} answered with vectors of {sorted(lengths)} numbers where {expected} were expected."
            )
        raw = np.asarray([rows[place] for place in range(count)], dtype=np.float32)
        norms = np.linalg.norm(raw, axis=1, keepdims=True)
        if not np.isfinite(raw).all() or not (norms > 0).all():
            return ModelRejected(f"{self._target} answered with a vector that has no direction.")
        self._dimension = expected
        unit: Vectors = raw / norms
        return unit
