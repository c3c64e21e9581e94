"""Token vectors of drawn texts: each word has a direction of its own, wherever it stands."""

from __future__ import annotations

import re
from functools import cache

import numpy as np

from memforest_core.models.token_vectors import PACKED, WIDTH, Packed, TokenVectors, pack

_AXES = np.eye(WIDTH, dtype=np.float32)
_WORD = re.compile(r"\w+|[^\w\s]")


def token_vectors(text: str) -> TokenVectors:
    """One token a word and a mark; the built-in model's are some 1.3 a word."""
    found = list(_WORD.finditer(text))
    packed = np.concatenate([np.empty((0, PACKED), np.uint8), *(_of_word(one[0].lower()) for one in found)])
    return TokenVectors(packed, [one.start() for one in found])


@cache
def _of_word(word: str) -> Packed:
    drawn = np.random.default_rng(list(word.encode())).standard_normal((1, WIDTH), dtype=np.float32)
    return pack(drawn, _AXES)
