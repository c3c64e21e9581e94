"""Cross-encoders, as recall sees them: a question and texts are read together, and each text gets a score."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Reranker(Protocol):
    """Reads each text together with the question."""

    def rerank(self, question: str, texts: Sequence[str]) -> list[float]:
        """Scores in the order of the texts, higher for a text that tells more about the question.

        They are finite, and compare within one call only. No texts make no call. Raises ModelUnavailable (also when it
        takes too long), ModelRateLimited, ModelRejected, ModelAuthFailed.
        """
        ...
