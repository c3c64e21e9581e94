"""What calls cost: the record of one that was made, and prices of models for an estimate before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memforest_core.errors import MemForestError
from memforest_core.models.calls import CallRecord, Step
from memforest_core.models.litellm_runtime import litellm_module

Price = tuple[float | None, float | None]
"""Dollars per million prompt and completion tokens; (None, None) where the settings say nothing."""


class ListPrices:
    """Prices of models by step: from the settings, else from litellm's list."""

    def __init__(self, given: Mapping[Step, Price], free: frozenset[str]) -> None:
        """``free``: models that run in this process and cost nothing."""
        self._given = dict(given)
        self._free = free

    def cost_usd(self, step: Step, model: str, prompt_tokens: int, completion_tokens: int) -> float | None:
        if model in self._free:
            return 0.0
        prompt, completion = self._given.get(step, (None, None))
        if prompt is not None or completion is not None:
            return (prompt_tokens * (prompt or 0.0) + completion_tokens * (completion or 0.0)) / 1e6
        listed: Mapping[str, Mapping[str, float]] = litellm_module().model_cost
        known = listed.get(model) or listed.get(model.partition("/")[2])
        if not known or "input_cost_per_token" not in known:
            return None
        return prompt_tokens * known["input_cost_per_token"] + completion_tokens * known.get(
            "output_cost_per_token", 0.0
        )


def record_of(
    step: Step,
    model: str,
    ended: Any,
    latency_ms: float,
    input_usd_per_mtok: float | None,
    output_usd_per_mtok: float | None = None,
) -> CallRecord:
    """The record of a call that ended with a litellm response, or with an error of ours: no tokens and no dollars.

    Tokens are as the provider counted them, 0 where it says nothing. Dollars are by the given prices (per million
    tokens), else by litellm's list, else 0.0.
    """
    if isinstance(ended, MemForestError):
        return CallRecord(step, model, 0, 0, 0, 0.0, latency_ms, outcome=ended.code)
    usage = getattr(ended, "usage", None)
    prompt = getattr(usage, "prompt_tokens", None) or 0
    completion = getattr(usage, "completion_tokens", None) or 0
    cached = getattr(getattr(usage, "prompt_tokens_details", None), "cached_tokens", None) or 0
    if input_usd_per_mtok is None and output_usd_per_mtok is None:
        cost_usd = float(ended._hidden_params.get("response_cost") or 0.0)
    else:
        cost_usd = (prompt * (input_usd_per_mtok or 0.0) + completion * (output_usd_per_mtok or 0.0)) / 1e6
    return CallRecord(step, model, prompt, completion, cached, cost_usd, latency_ms, outcome="ok")
