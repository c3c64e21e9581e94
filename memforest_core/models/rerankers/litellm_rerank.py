"""Any rerank model that litellm can call, as the Reranker port."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from memforest_core.errors import ModelRejected
from memforest_core.models.litellm_failures import Target, failure
from memforest_core.models.litellm_requests import LitellmRequests

_SETTINGS = "MEMFOREST_RECALL__RERANK"


class LitellmReranker:
    """Thread-safe. ``timeout_s`` is the hard deadline of one request, which holds all texts of a question."""

    def __init__(
        self, model: str, *, api_base: str | None = None, api_key: str | None = None, timeout_s: float = 5.0
    ) -> None:
        self._target = Target(model, api_base, timeout_s, _SETTINGS)
        self._requests = LitellmRequests(self._target, api_key, "rerank")

    def rerank(self, question: str, texts: Sequence[str]) -> list[float]:
        """Relevance scores in the order of the texts.

        Raises ModelUnavailable, ModelRateLimited, ModelAuthFailed, ContextTooLong, or ModelRejected (also for an
        answer that does not fit).
        """
        if not texts:
            return []
        # Some providers give only the best few unless told how many.
        count = len(texts)
        done, _ = self._requests.run(
            "arerank", query=question, documents=list(texts), top_n=count, return_documents=False
        )
        if done.error is not None:
            raise failure(done.error, self._target)
        return _scores(done.value, count, self._target)


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
