"""What calls are made with and what they cost: settings of a step, records, and prices for an estimate before."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, Literal

from memforest_core.errors import MemForestError
from memforest_core.models.calls import CallRecord, Step


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per million tokens, as the settings have them; None where they say nothing."""

    prompt: float | None = None
    completion: float | None = None
    cached: float | None = None
    """Of prompt tokens that the provider's cache knew; None: as of the others."""

    @property
    def given(self) -> bool:
        """Whether the settings have a price."""
        return self.prompt is not None or self.completion is not None

    def cost_usd(self, prompt_tokens: int, completion_tokens: int, cached_tokens: int) -> float:
        """Dollars for so many tokens, of which the cached ones are prompt tokens; what has no price is free."""
        prompt = self.prompt or 0.0
        cached = prompt if self.cached is None else self.cached
        known = min(cached_tokens, prompt_tokens)
        fresh = prompt_tokens - known
        return (fresh * prompt + known * cached + completion_tokens * (self.completion or 0.0)) / 1e6


UNPRICED = Price()


_LISTED = ("input_cost_per_token", "output_cost_per_token", "cache_read_input_token_cost")
"""A price's parts in litellm's list, in dollars per token."""
_PACKAGE = "litellm"
_LIST = f"{_PACKAGE}/model_prices_and_context_window_backup.json"


@cache
def listed(model: str) -> Mapping[str, float]:
    """A model's entry in litellm's list, of which only that is read; empty where the list has none."""
    name = f"\n    {json.dumps(model)}: "
    text = Path(str(distribution(_PACKAGE).locate_file(_LIST))).read_text(encoding="utf-8")
    found = text.find(name)
    entry: Mapping[str, float] = {} if found < 0 else json.JSONDecoder().raw_decode(text, found + len(name))[0]
    return entry


class ListPrices:
    """Prices of models by step: from the settings, else from litellm's list."""

    def __init__(self, given: Mapping[Step, Price], free: frozenset[str]) -> None:
        """``free``: models that run in this process and cost nothing."""
        self._given = dict(given)
        self._free = free

    def cost_usd(
        self, step: Step, model: str, prompt_tokens: int, completion_tokens: int, cached_tokens: int = 0
    ) -> float | None:
        """Dollars for so many tokens of a step and model; None where nobody knows the price."""
        if model in self._free:
            return 0.0
        own = self._given.get(step, UNPRICED)
        if own.given:
            return own.cost_usd(prompt_tokens, completion_tokens, cached_tokens)
        known = listed(model) or listed(model.partition("/")[2])
        if "input_cost_per_token" not in known:
            return None
        per_token = (known.get(name) for name in _LISTED)
        listed_price = Price(*(None if price is None else price * 1e6 for price in per_token))
        return listed_price.cost_usd(prompt_tokens, completion_tokens, cached_tokens)


def record_of(step: Step, model: str, ended: Any, latency_ms: float, price: Price = UNPRICED) -> CallRecord:
    """The record of a call that ended with a litellm response (tokens by the provider's count, dollars by the price,
    else by litellm's list; 0 where unknown), or with an error of ours: no tokens and no dollars."""
    if isinstance(ended, MemForestError):
        return CallRecord(step, model, 0, 0, 0, 0.0, latency_ms, outcome=ended.code)
    usage = getattr(ended, "usage", None)
    prompt = getattr(usage, "prompt_tokens", None) or 0
    completion = getattr(usage, "completion_tokens", None) or 0
    cached = getattr(getattr(usage, "prompt_tokens_details", None), "cached_tokens", None) or 0
    if price.given:
        cost_usd = price.cost_usd(prompt, completion, cached)
    else:
        cost_usd = float(ended._hidden_params.get("response_cost") or 0.0)
    return CallRecord(step, model, prompt, completion, cached, cost_usd, latency_ms, outcome="ok")


SchemaMode = Literal["auto", "json_schema", "json_object", "prompt"]
"""How an answer's schema reaches the model. ``auto`` starts at json_schema and steps down when the
provider refuses it; the others are used as they are."""


@dataclass(frozen=True, slots=True)
class StepSettings:
    """A litellm model name and the limits of its calls. Without a price litellm's list is used; a model it does not
    know costs 0.0."""

    model: str
    api_base: str | None = None
    api_key: str | None = field(default=None, repr=False)
    timeout_s: float = 60.0
    """Hard deadline of one call; a call that finds no free slot for as long gives up too."""
    concurrency: int = 32
    """Calls under way at once, in this process."""
    max_tokens: int = 4096
    temperature: float = 0.0
    schema_mode: SchemaMode = "auto"
    price: Price = UNPRICED
    parameters: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Further arguments of litellm's call."""
