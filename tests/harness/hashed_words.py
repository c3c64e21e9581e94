"""An embedder without a model: the same words give the same vector in every process, in microseconds."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence

import numpy as np

from memforest_core.models.calls import CallRecord, Embedded, Step

DIMENSION = 64


class HashedWords:
    """Each word is a signed place of the vector; texts that share words are close."""

    def __init__(self, model: str = "hashed-words", dimension: int = DIMENSION) -> None:
        self.model = model
        self.dimension = dimension

    def embed(self, texts: Sequence[str]) -> Embedded:
        """One row of unit length for each text."""
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for word in re.findall(r"\w+", text.lower()):
                code = zlib.crc32(word.encode())
                row[code % self.dimension] += 1.0 if code & 0x10000 else -1.0
            length = float(np.linalg.norm(row))
            if length:
                row /= length
            else:
                row[0] = 1.0
        return Embedded(vectors, CallRecord(Step.EMBED, self.model, 0, 0, 0, 0.0, 0.0, "ok"))

    def embed_query(self, texts: Sequence[str]) -> Embedded:
        """As stored texts."""
        return self.embed(texts)
