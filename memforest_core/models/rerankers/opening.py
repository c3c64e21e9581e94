"""The cross-encoder that the settings name, or none; model libraries are imported when they are needed."""

from __future__ import annotations

from memforest_core.errors import InvalidSettings
from memforest_core.models.reranker import Reranker
from memforest_core.settings import RerankSettings


def open_reranker(settings: RerankSettings) -> Reranker | None:
    """A provider's rerank model, a local one, or None when neither is named. Raises InvalidSettings."""
    if settings.model is not None and settings.path is not None:
        raise InvalidSettings("Set MEMFOREST_RECALL__RERANK__MODEL or MEMFOREST_RECALL__RERANK__PATH, not both.")
    if settings.path is not None:
        from memforest_core.models.rerankers.onnx_cross_encoder import OnnxCrossEncoder

        return OnnxCrossEncoder(settings.path, timeout_s=settings.timeout_s)
    if settings.model is None:
        return None
    from memforest_core.models.rerankers.litellm_rerank import LitellmReranker

    key = settings.api_key
    return LitellmReranker(
        settings.model,
        api_base=settings.api_base,
        api_key=key.get_secret_value() if key else None,
        timeout_s=settings.timeout_s,
    )
