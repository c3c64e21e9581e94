"""Answers over the chat models and the connection pool of a process."""

from __future__ import annotations

from typing import Protocol

from memforest_core.errors import InvalidSettings
from memforest_core.models.calls import ChatModel
from memforest_core.recall.answering.service import AnswerService
from memforest_core.recall.rows.answering import AnswerCalls
from memforest_core.settings import OFFLINE, Settings
from memforest_core.store.engine import Engine
from memforest_core.work.telemetry import Telemetry


class AnsweringServices(Protocol):
    """What of a process's services answering needs."""

    @property
    def settings(self) -> Settings:
        """The configuration."""
        ...

    @property
    def engine(self) -> Engine:
        """The connection pool."""
        ...

    @property
    def chat(self) -> ChatModel:
        """The chat models, by step."""
        ...

    @property
    def telemetry(self) -> Telemetry:
        """Where calls are counted."""
        ...


def open_answering(services: AnsweringServices) -> AnswerService:
    """Wire answering; what is open stays the caller's to close. Raises InvalidSettings without a chat model."""
    llm = services.settings.llm
    if (llm.answer.model or llm.model) == OFFLINE:
        raise InvalidSettings(
            "Set MEMFOREST_LLM__MODEL (or MEMFOREST_LLM__ANSWER__MODEL) to a chat model: answers are written by one; "
            "recall gives the evidence without."
        )
    return AnswerService(services.chat, AnswerCalls(services.engine), services.telemetry)
