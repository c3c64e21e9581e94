"""What a rebuild would do and cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Plan:
    """The work and cost of a rebuild. Calls are counted; tokens and dollars are estimates."""

    sessions: int
    turns: int
    cells: int
    cells_to_extract: int
    extraction_calls: int
    """Windows whose answer was not paid for before; repairs come on top."""
    extractions_reused: int
    facts_to_place: int
    """Candidates that the reducer attaches to facts; with a new extraction, as many as there are now."""
    summaries: int
    summary_calls: int
    summaries_reused: int
    texts_to_embed: int
    embedding_calls: int
    """About: texts are sent in batches, whose sizes depend on how work comes in."""
    prompt_tokens: int
    cached_tokens: int | None
    """Of the prompt tokens: what the provider's cache will know if it knows as large a share as of the tenant's calls
    so far, by step and model. None where there were none of a step that will be called."""
    completion_tokens: int
    embedding_tokens: int
    cost_usd: float | None
    """None when the price of one of the models is unknown."""

    def numbers(self) -> dict[str, str | int]:
        """As a task's progress; dollars in millionths. What is unknown is -1."""
        shown: dict[str, str | int] = asdict(self)
        del shown["cost_usd"]
        return shown | {
            "cached_tokens": -1 if self.cached_tokens is None else self.cached_tokens,
            "cost_microusd": -1 if self.cost_usd is None else round(self.cost_usd * 1e6),
        }
