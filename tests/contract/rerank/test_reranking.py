"""Which cross-encoder the settings open."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from memforest_core.errors import InvalidSettings
from memforest_core.models.litellm_requests import LitellmReranker
from memforest_core.models.model_opening import open_reranker
from memforest_core.models.onnx_cross_encoder import OnnxCrossEncoder
from memforest_core.settings import RerankSettings
from tests.contract.rerank.shared_words import RerankServer, cross_encoder


def test_a_directory_opens_a_local_one(tmp_path: Path) -> None:
    model = open_reranker(RerankSettings(path=cross_encoder(tmp_path)))
    assert isinstance(model, OnnxCrossEncoder)
    assert model.rerank("bob", ["dog", "bob"]).scores == [0.0, 1.0]


def test_a_model_opens_a_providers() -> None:
    with RerankServer() as server:
        model = open_reranker(
            RerankSettings(model="cohere/test-rerank", api_base=server.url, api_key=SecretStr("key-2"), timeout_s=20.0)
        )
        assert isinstance(model, LitellmReranker)
        assert model.rerank("bob", ["dog", "bob"]).scores == [0.0, 1.0]
        assert server.keys == ["key-2"]


def test_both_are_one_too_many(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match="not both"):
        open_reranker(RerankSettings(model="cohere/rerank-v3.5", path=tmp_path))
