"""The project's own rows: the default configuration, and what each mode, signal and family of trees adds to it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from benchmarks.eval.baselines import DEPTH, Answered
from benchmarks.eval.dataset import Conversation, Question
from memforest_core.client.services.service import Services
from memforest_core.domain.evidence import RecallResult
from memforest_core.domain.ids import TenantId
from memforest_core.recall.service import RecallService
from memforest_core.settings import OFFLINE, WEIGHTS, LlmSettings, RecallSettings

MEMFOREST = "memforest"
DEFAULT_MODE = "embedding"
GROUPS = ("none", "modes", "signals", "all")


@dataclass(frozen=True, slots=True)
class Variant:
    """How one row differs from the default configuration."""

    name: str
    mode: str = DEFAULT_MODE
    recall: Mapping[str, object] | None = None
    """Settings of recall that are not the configured ones."""

    @property
    def timed(self) -> bool:
        """Whether its queries are timed: not those of a row that differs in a weight, a part or the trees only."""
        return self.recall is None


def variants(group: str, llm: LlmSettings) -> list[Variant]:
    """The default configuration, then those of a group; modes that ask a chat model only when one is configured."""
    chosen = [Variant(MEMFOREST)]
    if group in {"modes", "all"}:
        modes = ["flat"]
        if _has_model(llm, llm.browse.model):
            modes.append("llm")
            if _has_model(llm, llm.plan.model):
                modes.append("planner")
        chosen += [Variant(f"{MEMFOREST}:{mode}", mode=mode) for mode in modes]
    if group in {"signals", "all"}:
        chosen += [
            Variant(f"{MEMFOREST}:no-{name.replace('_', '-')}", recall={"weights": {name: 0.0}}) for name in WEIGHTS
        ]
    return chosen


def is_variant(row: str) -> bool:
    """Whether a row is the default configuration with something else in it."""
    return row.startswith(f"{MEMFOREST}:")


def _has_model(llm: LlmSettings, own: str | None) -> bool:
    return (own or llm.model) != OFFLINE


@dataclass(frozen=True, slots=True)
class Recalling:
    """One of the project's rows."""

    name: str
    mode: str
    service: RecallService
    tenant: TenantId
    timed: bool = True
    """Whether the query is repeated to measure its time."""

    def ask(self, conversation: Conversation, question: Question) -> Answered:
        """The evidence within every budget, and its time; then the time of the configured number of items.

        The second recall finds what the first one left in caches; the first is the one whose evidence is measured.
        """
        if not self.timed:
            result = self.recall(conversation, question, DEPTH)
            return Answered(result.evidence, None, result.degraded, confidence=confidence(result))
        result, ms = self._timed(conversation, question, DEPTH)
        k_ms = self._timed(conversation, question, None)[1]
        return Answered(result.evidence, ms, result.degraded, k_ms, confidence(result))

    def _timed(self, conversation: Conversation, question: Question, k: int | None) -> tuple[RecallResult, float]:
        started = time.perf_counter()
        result = self.recall(conversation, question, k)
        return result, (time.perf_counter() - started) * 1_000.0

    def recall(self, conversation: Conversation, question: Question, k: int | None) -> RecallResult:
        """``k`` items, as of the question's timestamp, else as of the start of the last session."""
        asked_at = question.asked_at or conversation.sessions[-1].started_at
        return self.service.recall(self.tenant, conversation.id, question.text, k, self.mode, asked_at=asked_at)


def confidence(result: RecallResult) -> float:
    """The score of the first item; 0 without an item."""
    return result.evidence[0].score if result.evidence else 0.0


def recallings(services: Services, chosen: list[Variant], *, timed: bool = True) -> list[Recalling]:
    """Each variant with a recall service of its own over the same store, index and models."""
    tenant = TenantId(services.settings.tenant)
    made = []
    for one in chosen:
        own = RecallSettings.model_validate(services.settings.recall.model_dump() | dict(one.recall or {}))
        service = replace(services, settings=services.settings.model_copy(update={"recall": own})).recall
        made.append(Recalling(one.name, one.mode, service, tenant, timed and one.timed))
    return made
