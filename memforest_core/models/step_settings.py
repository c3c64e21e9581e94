"""What one step's calls to a chat model are made with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from memforest_core.models.accounting import UNPRICED, Price

SchemaMode = Literal["auto", "json_schema", "json_object", "prompt"]
"""How an answer's schema reaches the model. ``auto`` starts at json_schema and steps down when the
provider refuses it; the others are used as they are."""


@dataclass(frozen=True, slots=True)
class StepSettings:
    """A litellm model name and the limits of its calls.

    Without a given price litellm's price list is used, and a model it does not know costs 0.0.
    """

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
