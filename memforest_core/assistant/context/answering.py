"""Answers from what was recalled, and from the context around it where that is wanted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Unpack

from memforest_core.assistant.context.service import ContextService
from memforest_core.domain.ids import TenantId
from memforest_core.errors import InvalidInput
from memforest_core.recall.answer import MAX_TOKENS, Answer, AnswerService
from memforest_core.recall.request import RecallOptions
from memforest_core.recall.service import RecallService


@dataclass(frozen=True, slots=True)
class ContextualAnswers:
    """Recalls, adds the context, and answers. Thread-safe."""

    recall: RecallService
    context: ContextService
    open_answering: Callable[[], AnswerService]
    """Raises InvalidSettings without a chat model."""

    def answer(
        self,
        tenant: TenantId,
        owner: str,
        question: str,
        k: int | None = None,
        mode: str | None = None,
        *,
        context: bool = False,
        **options: Unpack[RecallOptions],
    ) -> Answer:
        """What a chat model answers from the evidence, citing it, or that it is not in memory; arguments as in recall.

        With ``context`` it reads the profile, the days and the window of the session (``session_id`` of the options,
        else the one that runs or got a turn last) too, and can cite them; not together with ``as_of``.

        One call to the model of ``llm.answer``; without any evidence none. Raises as recall does, InvalidSettings
        without a chat model, and ModelAuthFailed or ModelRejected when no call can succeed. A model that is unavailable
        is no error: the evidence comes back, and ``degraded`` says so.
        """
        answering = self.open_answering()
        as_of, asked_at = options.get("as_of"), options.get("asked_at")
        if context and as_of is not None:
            raise InvalidInput("A context is about now: leave out as_of, or context.", code="invalid_context")
        found = self.recall.recall(tenant, owner, question, k, mode, **options)
        budget = options.get("max_tokens") or MAX_TOKENS
        if context:
            found = self.context.around(tenant, owner, found, options.get("session_id"), budget)
        return answering.answer(tenant, owner, question, found, as_of if asked_at is None else asked_at, budget)
