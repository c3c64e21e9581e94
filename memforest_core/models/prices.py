"""What a model's tokens cost before anybody has used it: prices from the settings, else litellm's list."""

from __future__ import annotations

from collections.abc import Mapping

from memforest_core.models.calls import Step
from memforest_core.models.litellm_runtime import litellm_module

Price = tuple[float | None, float | None]
"""Dollars per million prompt and completion tokens; (None, None) where the settings say nothing."""


class ListPrices:
    """Prices by step."""

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
