"""What one step's calls to a chat model are made with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from memforest_core.models.accounting import Price

SchemaMode = Literal["auto", "json_schema", "json_object", "prompt"]
"""How an answer's schema reaches the model. ``auto`` starts at json_schema and steps down when the
provider refuses it; the others are used as they are."""


@dataclass(frozen=True, slots=True)
class StepSettings:
    """A litellm model name and the limits of its calls; prices are US dollars per million tokens.

    Without given prices litellm's price list is used, and a model it does not know costs 0.0. Prompt tokens that the
    provider's cache knew cost as the others unless they have a price of their own.
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
    input_usd_per_mtok: float | None = None
    cached_input_usd_per_mtok: float | None = None
    output_usd_per_mtok: float | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Further arguments of litellm's call."""

    @property
    def price(self) -> Price:
        """Of its tokens, as given."""
        return Price(self.input_usd_per_mtok, self.output_usd_per_mtok, self.cached_input_usd_per_mtok)
