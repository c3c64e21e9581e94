"""Tokens and dollars of a litellm response."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the provider counted them; 0 where it says nothing."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0

    @classmethod
    def of(cls, response: Any) -> Self:
        """The usage of a chat or embedding response."""
        usage = getattr(response, "usage", None)
        details = getattr(usage, "prompt_tokens_details", None)
        return cls(
            prompt=getattr(usage, "prompt_tokens", None) or 0,
            completion=getattr(usage, "completion_tokens", None) or 0,
            cached=getattr(details, "cached_tokens", None) or 0,
        )


def cost_usd(
    response: Any,
    usage: Usage,
    input_usd_per_mtok: float | None,
    output_usd_per_mtok: float | None,
) -> float:
    """Dollars by the given prices (per million tokens), else by litellm's list, else 0.0."""
    if input_usd_per_mtok is None and output_usd_per_mtok is None:
        return float(response._hidden_params.get("response_cost") or 0.0)
    return (usage.prompt * (input_usd_per_mtok or 0.0) + usage.completion * (output_usd_per_mtok or 0.0)) / 1e6
