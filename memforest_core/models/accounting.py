"""The record of a call through litellm: its tokens, its dollars, and how it ended."""

from __future__ import annotations

from typing import Any

from memforest_core.errors import MemForestError
from memforest_core.models.calls import CallRecord, Step


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
