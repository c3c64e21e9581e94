"""The weights of recall's signals as the settings have them."""

from __future__ import annotations

from dataclasses import replace

from memforest_core.domain.scoring import Weights
from memforest_core.recall.service import weights_of
from memforest_core.settings import RecallSettings


def weights(**changed: float) -> Weights:
    """The default weights, with some of them changed."""
    return replace(weights_of(RecallSettings()), **changed)
