"""Models from settings; model libraries are imported when they are needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import structlog

from memforest_core.errors import InvalidSettings
from memforest_core.models.accounting import UNPRICED, Price, StepSettings
from memforest_core.models.call_loop import CONCURRENCY
from memforest_core.models.calls import CHAT_STEPS, Embedder, Reranker, Step
from memforest_core.models.embedders import e5, minilm
from memforest_core.models.limits.model_limits import ModelLimits, limit_key
from memforest_core.settings import OFFLINE, EmbeddingSettings, LlmSettings, RerankSettings, Settings

if TYPE_CHECKING:
    from memforest_core.models.limits.call_limits import CallLimits
    from memforest_core.models.litellm_chat import LitellmChat

log = structlog.get_logger(__name__)

BUILT_IN_EMBEDDINGS: Mapping[str, Callable[[], Embedder]] = {
    minilm.MODEL: minilm.MiniLmEmbedder,
    e5.MODEL: e5.E5Embedder,
}
"""Models that come in wheels and run in this process: no network, no key, no limits. Each is an extra of its own."""


def step_settings(settings: LlmSettings, step: Step) -> StepSettings:
    """The settings of a step: its own where set, else the common ones."""
    own = getattr(settings, step.value).model_dump(exclude_none=True)
    common = settings.model_dump(include=set(StepSettings.__dataclass_fields__))
    merged = common | own | {"parameters": settings.parameters | own.get("parameters", {})}
    key, given = merged.pop("api_key", None), settings.prices.get(merged["model"])
    price = UNPRICED if given is None else Price(given.input, given.output, given.cached_input)
    return StepSettings(api_key=key.get_secret_value() if key else None, price=price, **merged)


def open_chat(settings: LlmSettings, limits: CallLimits | None = None) -> LitellmChat:
    """Chat models through litellm, within the limits."""
    from memforest_core.models.litellm_chat import LitellmChat

    return LitellmChat({step: step_settings(settings, step) for step in CHAT_STEPS}, limits)


def open_embedder(settings: EmbeddingSettings, limits: CallLimits | None = None) -> Embedder:
    """One of the built-in embedding models, or any that litellm knows, within the limits."""
    built_in = BUILT_IN_EMBEDDINGS.get(settings.model)
    if built_in is not None:
        return built_in()
    from memforest_core.models.litellm_requests import LitellmEmbedder

    own = _requests_to(settings.model, settings, Price(settings.input_usd_per_mtok))
    return LitellmEmbedder(own, settings.batch, limits)


def _requests_to(model: str, settings: EmbeddingSettings | RerankSettings, price: Price = UNPRICED) -> StepSettings:
    key = settings.api_key.get_secret_value() if settings.api_key else None
    return StepSettings(model, settings.api_base, key, settings.timeout_s, CONCURRENCY, price=price)


def open_reranker(settings: RerankSettings, limits: CallLimits | None = None) -> Reranker | None:
    """A provider's rerank model within the limits, a local one, or None without either. Raises InvalidSettings."""
    if settings.model is not None and settings.path is not None:
        raise InvalidSettings("Set MEMFOREST_RECALL__RERANK__MODEL or MEMFOREST_RECALL__RERANK__PATH, not both.")
    if settings.path is not None:
        from memforest_core.models.onnx_cross_encoder import OnnxCrossEncoder

        return OnnxCrossEncoder(settings.path, timeout_s=settings.timeout_s)
    if settings.model is None:
        return None
    from memforest_core.models.litellm_requests import LitellmReranker

    return LitellmReranker(_requests_to(settings.model, settings), limits)


def open_limits(settings: Settings) -> CallLimits:
    """The limits in the broker's Redis; connects on first use.

    A ``sentinel://`` broker does not say what its master is called: each process then uses its part of the
    limits (one part of ``deployment.worker_processes``), as it does while Redis is unavailable.
    """
    from memforest_core.models.limits.call_limits import CallLimits, client_address, open_redis

    address = client_address(settings.broker.url.get_secret_value())
    if address is None:
        log.warning("limits_not_shared", reason="the broker is given by its sentinels")
    client = None if address is None else open_redis(address)
    return CallLimits(client, ModelLimits(**settings.limits.model_dump()), settings.deployment.worker_processes)


def chat_key(settings: LlmSettings, step: Step) -> str | None:
    """The key for ``CallLimits.paused`` before work of a step; None for offline steps."""
    own = step_settings(settings, step)
    return None if own.model == OFFLINE else limit_key(own.model, own.api_base)
