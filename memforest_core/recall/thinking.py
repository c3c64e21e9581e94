"""What a chat model does for one recall: it completes the question, plans and ranks; all calls are recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from memforest_core.errors import InvalidInput, MemForestError
from memforest_core.models.calls import CallRecord, ChatModel, ChatReply, ChatRequest, Step, failed_call
from memforest_core.models.prompts import BUILT_IN, Prompts
from memforest_core.recall.planning import Plan, PlanTree, planned
from memforest_core.recall.ranking import LlmRanker
from memforest_core.recall.records import SaidTurn
from memforest_core.recall.rewriting import Rewritten, standalone
from memforest_core.settings import RecallSettings


@dataclass(slots=True)
class CountedChat:
    """A chat model whose calls are kept, those that failed too. Thread-safe."""

    chat: ChatModel
    calls: list[CallRecord] = field(default_factory=list)

    def model_name(self, step: Step) -> str:
        return self.chat.model_name(step)

    def complete(self, request: ChatRequest) -> ChatReply:
        try:
            reply = self.chat.complete(request)
        except MemForestError as error:
            self.calls.extend(failed_call(error))
            raise
        self.calls.append(reply.record)
        return reply


@dataclass(slots=True)
class Thought:
    """The chat model of one recall, if one is configured, and what it was used for."""

    settings: RecallSettings
    asked_at: datetime
    open_chat: Callable[[], ChatModel] | None = None
    prompts: Prompts = BUILT_IN
    plans: list[Plan] = field(default_factory=list)
    degraded: list[str] = field(default_factory=list)
    _counted: CountedChat | None = None

    @property
    def possible(self) -> bool:
        """Whether a chat model is configured."""
        return self.open_chat is not None

    @property
    def calls(self) -> Sequence[CallRecord]:
        """What was asked so far."""
        return self._counted.calls if self._counted is not None else ()

    def completed(self, question: str, turns: Sequence[SaidTurn]) -> Rewritten:
        """The question made to stand alone, when it leans on the session's last turns and a model is there."""
        if not turns or not self.possible:
            return Rewritten(question)
        rewritten = standalone(self._chat(), question, turns, self.asked_at, self.prompts.rewrite)
        self.degraded += rewritten.degraded
        return rewritten

    def plan(self, question: str, trees: Sequence[PlanTree]) -> Mapping[UUID, str]:
        """What each tree is asked, by its root: one call."""
        plan = planned(self._chat(), question, trees, self.asked_at, self.prompts.plan)
        self.plans.append(plan)
        self.degraded += plan.degraded
        return plan.questions

    def ranker(self) -> LlmRanker:
        """Ranks children of tree nodes, one call each."""
        settings = self.settings
        return LlmRanker(self._chat(), settings.llm_calls, settings.llm_children, self.asked_at, self.prompts.browse)

    def _chat(self) -> CountedChat:
        if self.open_chat is None:
            raise no_chat_model()
        if self._counted is None:
            self._counted = CountedChat(self.open_chat())
        return self._counted


def no_chat_model() -> InvalidInput:
    """The error of a mode that needs a chat model when none is configured."""
    return InvalidInput(
        "Set MEMFOREST_LLM__MODEL to a chat model for the modes llm and planner, or choose mode embedding.",
        code="no_chat_model",
    )
