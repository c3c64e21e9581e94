"""Limits shared by all workers, from settings, and the models within them."""

from __future__ import annotations

import structlog

from memforest_core.models.calls import CHAT_STEPS, ChatModel, Embedder, Reranker, Step
from memforest_core.models.limits.call_limits import CallLimits
from memforest_core.models.limits.limited_models import LimitedChat, LimitedEmbedder, LimitedReranker
from memforest_core.models.limits.model_limits import ModelLimits, limit_key
from memforest_core.models.limits.redis_ledger import client_address, open_redis
from memforest_core.models.opening import BUILT_IN_EMBEDDINGS, step_settings
from memforest_core.settings import OFFLINE, EmbeddingSettings, LlmSettings, RerankSettings, Settings

log = structlog.get_logger(__name__)


def open_limits(settings: Settings) -> CallLimits:
    """The limits in the broker's Redis; connects on first use.

    A ``sentinel://`` broker does not say what its master is called: each process then uses its part of the
    limits (one part of ``deployment.worker_processes``), as it does while Redis is unavailable.
    """
    address = client_address(settings.broker.url.get_secret_value())
    if address is None:
        log.warning("limits_not_shared", reason="the broker is given by its sentinels")
    client = None if address is None else open_redis(address)
    return CallLimits(client, ModelLimits(**settings.limits.model_dump()), settings.deployment.worker_processes)


def limit_chat(chat: ChatModel, limits: CallLimits, settings: LlmSettings) -> LimitedChat:
    """A chat model within the limits in every step that is not offline."""
    steps = {step: step_settings(settings, step) for step in CHAT_STEPS}
    return LimitedChat(chat, limits, {step: each for step, each in steps.items() if each.model != OFFLINE})


def limit_embedder(embedder: Embedder, limits: CallLimits, settings: EmbeddingSettings) -> Embedder:
    """An embedding model within the limits; the built-in one has none."""
    key = embedding_key(settings)
    if key is None:
        return embedder
    return LimitedEmbedder(embedder, limits, key, batch=settings.batch, timeout_s=settings.timeout_s)


def limit_reranker(reranker: Reranker | None, limits: CallLimits, settings: RerankSettings) -> Reranker | None:
    """A provider's rerank model within the limits; one in this process has none."""
    if reranker is None or settings.model is None:
        return reranker
    return LimitedReranker(reranker, limits, limit_key(settings.model, settings.api_base), timeout_s=settings.timeout_s)


def chat_key(settings: LlmSettings, step: Step) -> str | None:
    """The key for ``CallLimits.paused`` before work of a step; None for offline steps."""
    own = step_settings(settings, step)
    return None if own.model == OFFLINE else limit_key(own.model, own.api_base)


def embedding_key(settings: EmbeddingSettings) -> str | None:
    """The same for embedding; None for a built-in model."""
    return None if settings.model in BUILT_IN_EMBEDDINGS else limit_key(settings.model, settings.api_base)
