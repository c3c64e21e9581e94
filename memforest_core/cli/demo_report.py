"""What one run of the demo measured."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memforest_core.demo import DemoQuestion
    from memforest_core.domain.evidence import RecallResult
    from memforest_core.observe.records import ModelCalls, Totals


@dataclass(frozen=True, slots=True)
class Answer:
    """A question, what came back, and whether that holds what is expected."""

    question: DemoQuestion
    holds: bool
    result: RecallResult


@dataclass(frozen=True, slots=True)
class DemoReport:
    """A whole run. Seconds are wall time; ``reached_s`` counts from the first accepted session."""

    model: str
    data: Path
    answers: tuple[Answer, ...]
    totals: Totals
    startup_s: float
    accept_s: float
    reached_s: dict[str, float]
    """When every cell was searchable as text, extracted and placed, and every tree refreshed."""
    recall_p50_ms: dict[str, float]
    model_calls: tuple[ModelCalls, ...]
    total_s: float

    @property
    def ok(self) -> bool:
        """Whether every expectation holds."""
        return all(answer.holds for answer in self.answers)
