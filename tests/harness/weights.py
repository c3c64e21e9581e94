"""The weights of recall's signals as the settings have them."""

from __future__ import annotations

from memforest_core.domain.scoring import Weights
from memforest_core.settings import WEIGHTS

PLAIN: Weights = {**WEIGHTS, "lexical": 1.0, "dense": 1.0}
"""Words and vectors count alike, so that sums can be done in the head."""


def weights(**changed: float) -> Weights:
    """The default weights, words and vectors alike, with some of them changed."""
    return {**PLAIN, **changed}
