"""The built-in model, as the benchmarks use it."""

from __future__ import annotations

import pytest

from memforest_core.models.calls import Embedder
from memforest_core.models.model_opening import open_embedder
from memforest_core.settings import EmbeddingSettings


@pytest.fixture(scope="session")
def embedder() -> Embedder:
    """The built-in model, loaded once for all tests."""
    return open_embedder(EmbeddingSettings())
