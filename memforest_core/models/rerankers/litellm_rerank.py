"""Any rerank model that litellm can call, as the Reranker port."""

from __future__ import annotations

import math
import threading
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from typing import Any

from memforest_core.errors import ModelRejected
from memforest_core.models.call_loop import call_loop
from memforest_core.models.litellm_failures import Target, failure, missing_key
from memforest_core.models.litellm_runtime import key_argument, lacks_key, litellm_module
from memforest_core.models.slots import slot_of

_SETTINGS = "MEMFOREST_RECALL__RERANK"
CONCURRENCY = 8
"""Requests at once of a process."""


class LitellmReranker:
    """Thread-safe. ``timeout_s`` is the hard deadline of one request, which holds all texts of a question."""

    def __init__(
        self,
        model: str,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        timeout_s: float = 5.0,
        concurrency: int = CONCURRENCY,
    ) -> None:
        self._target = Target(model, api_base, timeout_s, _SETTINGS)
        self._api_key = api_key
        self._slots = threading.BoundedSemaphore(concurrency)
        self._has_key = False

    def rerank(self, question: str, texts: Sequence[str]) -> list[float]:
        """Relevance scores in the order of the texts.

        Raises ModelUnavailable, ModelRateLimited, ModelAuthFailed, ContextTooLong, or ModelRejected (also for an
        answer that does not fit).
        """
        if not texts:
            return []
        target = self._target
        litellm_module()  # its import takes seconds, which are no part of a call
        if not self._has_key:
            if lacks_key(target.model, self._api_key, target.api_base):
                raise missing_key(target)
            self._has_key = True
        with slot_of(self._slots, target.timeout_s, f"All rerank requests to {target}"):
            done = call_loop().run(partial(self._start, question, list(texts)), target.timeout_s)
        if done.error is not None:
            raise failure(done.error, target)
        return _scores(done.value, len(texts), target)

    def _start(self, question: str, texts: list[str]) -> Coroutine[Any, Any, Any]:
        arguments: dict[str, Any] = {
            "model": self._target.model,
            "query": question,
            "documents": texts,
            # Some providers give only the best few unless told how many.
            "top_n": len(texts),
            "return_documents": False,
            "api_base": self._target.api_base,
            "api_key": key_argument(self._api_key, self._target.api_base),
            "timeout": self._target.timeout_s,
            "max_retries": 0,
            "drop_params": True,
        }
        given = {name: value for name, value in arguments.items() if value is not None}
        started: Coroutine[Any, Any, Any] = litellm_module().arerank(**given)
        return started


def _scores(response: Any, count: int, target: Target) -> list[float]:
    """The scores by the index that each carries. Raises ModelRejected."""
    results: Sequence[Mapping[str, Any]] = response.results or []
    scores: dict[object, object] = {result.get("index"): result.get("relevance_score") for result in results}
    if len(results) != count or scores.keys() != set(range(count)):
        raise ModelRejected(f"{target} answered with {len(results)} scores for {count} texts.")
    ordered = [scores[place] for place in range(count)]
    numbers = [float(score) for score in ordered if isinstance(score, int | float) and math.isfinite(score)]
    if len(numbers) != count:
        raise ModelRejected(f"{target} answered with a score that is no number.")
    return numbers
