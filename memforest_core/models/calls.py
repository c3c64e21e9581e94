"""Chat, embedding and rerank models, as their callers see them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from memforest_core.domain.ids import ForestId
from memforest_core.errors import MemForestError
from memforest_core.models.token_vectors import TokenVectors

Vectors = NDArray[np.float32]
"""Row-wise unit vectors, shape (n, dimension)."""


class OwnText(NamedTuple):
    """A text of one forest. Its vector is that forest's alone: what another owner says, or brings, never touches it."""

    forest_id: ForestId
    text: str


class Step(StrEnum):
    """What a model call is for; model, timeout, concurrency and price are set per step."""

    EXTRACT = "extract"
    SUMMARIZE = "summarize"
    BROWSE = "browse"
    PLAN = "plan"
    ANSWER = "answer"
    PROFILE = "profile"
    EMBED = "embed"
    RERANK = "rerank"


CHAT_STEPS = tuple(step for step in Step if step not in {Step.EMBED, Step.RERANK})
"""The steps of calls to a chat model."""


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message; ``role`` is system, user or assistant."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A chat call. ``schema`` is a JSON schema that the answer should follow, or None for plain text."""

    step: Step
    messages: tuple[Message, ...]
    schema: Mapping[str, object] | None = None
    schema_name: str = "answer"
    max_tokens: int | None = None
    temperature: float | None = None
    """The step's setting unless given."""
    input: str | None = None
    """What names the input over its tries, where its text changes from one to the next."""


@dataclass(frozen=True, slots=True)
class CallRecord:
    """What one call cost: the row of accounting. ``outcome`` is "ok" or an error code."""

    step: Step
    model: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    cost_usd: float
    latency_ms: float
    outcome: str


def own_call(step: Step, model: str, tokens: int, began: float, outcome: str = "ok") -> CallRecord:
    """The record of a call in this process, which costs nothing and began at this moment of ``time.perf_counter``."""
    return CallRecord(step, model, tokens, 0, 0, 0.0, (time.perf_counter() - began) * 1000.0, outcome)


@dataclass(frozen=True, slots=True)
class ChatReply:
    """The answer's raw text (unvalidated, untrusted) and what the call cost."""

    text: str
    record: CallRecord


def failed_call(error: MemForestError) -> list[CallRecord]:
    """The record of the call that an error ended, if it reached a provider."""
    return [error.call] if isinstance(error.call, CallRecord) else []


class ChatModel(Protocol):
    """A chat model; one call is one request, without hidden retries."""

    def model_name(self, step: Step) -> str:
        """The configured model of a step, as recorded and as part of cache keys."""

    def complete(self, request: ChatRequest) -> ChatReply:
        """One call, with a hard deadline.

        Raises ModelRateLimited, ModelUnavailable (transport), ModelAuthFailed, ContextTooLong,
        ContentRefused, ModelRejected (permanent). Never raises on the answer's content.
        """


@dataclass(frozen=True, slots=True)
class Embedded:
    """Vectors in the order of the texts, shape (n, dimension), float32, unit length; ``tokens`` are each text's token
    vectors, of a model that gives them (``token_vectors.MODELS``)."""

    vectors: Vectors
    record: CallRecord
    tokens: Sequence[TokenVectors] | None = None


class Embedder(Protocol):
    """A sentence embedding model."""

    @property
    def model(self) -> str:
        """Stable name, part of cache keys and of the collection's name."""

    @property
    def dimension(self) -> int:
        """Length of a vector, found from the model itself."""

    def embed(self, texts: Sequence[str]) -> Embedded:
        """Vectors of stored texts. Raises ModelUnavailable, ModelRateLimited, ModelRejected."""

    def embed_query(self, texts: Sequence[str]) -> Embedded:
        """Vectors of questions; the same as ``embed`` for symmetric models."""


@dataclass(frozen=True, slots=True)
class Reranked:
    """Scores in the order of the texts, and what the call cost."""

    scores: list[float]
    record: CallRecord


class Reranker(Protocol):
    """A cross-encoder: reads each text together with the question."""

    @property
    def model(self) -> str:
        """Its name, as recorded."""

    def rerank(self, question: str, texts: Sequence[str]) -> Reranked:
        """Scores of texts, at least one: higher for a text that says more about the question.

        They are finite, and compare within one call only. Raises ModelUnavailable (also when it
        takes too long), ModelRateLimited, ModelRejected, ModelAuthFailed.
        """
