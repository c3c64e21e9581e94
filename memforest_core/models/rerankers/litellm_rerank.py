"""Any rerank model that litellm can call, as the Reranker port."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from memforest_core.errors import ModelRejected
from memforest_core.models.accounting import record_of
from memforest_core.models.calls import Reranked, Step
from memforest_core.models.litellm_failures import Target, failure
from memforest_core.models.litellm_requests import LitellmRequests

_SETTINGS = "MEMFOREST_RECALL__RERANK"


class LitellmReranker:
    """Thread-safe. ``timeout_s`` is the hard deadline of one request, which has all texts of a question."""

    def __init__(
        self, model: str, *, api_base: str | None = None, api_key: str | None = None, timeout_s: float = 5.0
    ) -> None:
        self._target = Target(model, api_base, timeout_s, _SETTINGS)
        self._requests = LitellmRequests(self._target, api_key, "rerank")

    @property
    def model(self) -> str:
        """litellm's name of the model."""
        return self._target.model

    def rerank(self, question: str, texts: Sequence[str]) -> Reranked:
        """Relevance scores in the order of the texts.

        Raises ModelUnavailable, ModelRateLimited, ModelAuthFailed, ContextTooLong, or ModelRejected (also for an
        answer that does not fit).
        """
        # Some providers give only the best few unless the request says how many.
        count = len(texts)
        done, latency_ms = self._requests.run(
            "arerank", count, query=question, documents=list(texts), top_n=count, return_documents=False
        )
        if done.error is not None:
            error = failure(done.error, self._target)
            error.call = record_of(Step.RERANK, self.model, error, latency_ms)
            raise error
        scores = _scores(done.value, count, self._target)
        if isinstance(scores, ModelRejected):
            scores.call = record_of(Step.RERANK, self.model, scores, latency_ms)
            raise scores
        record = record_of(Step.RERANK, self.model, done.value, latency_ms)
        return Reranked(scores, replace(record, prompt_tokens=_tokens(done.value)))


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
