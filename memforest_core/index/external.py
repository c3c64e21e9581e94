"""External collections as recall sees them: only read, and untrusted. No engine is imported here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from memforest_core.errors import InvalidSettings
from memforest_core.index.vector_index import DenseVector


@dataclass(frozen=True, slots=True)
class SourceHit:
    """A point that was found: its id, its cosine, and those of its fields that are mapped. Untrusted as it is."""

    id: str
    score: float
    payload: Mapping[str, object]


class SourceMismatch(InvalidSettings):
    """A source that can't be read as it is configured, such as one with vectors that don't compare with those of the
    embedding model; the message says why."""

    code = "source_mismatch"


class External(Protocol):
    """One external collection. Thread-safe."""

    def search(self, vector: DenseVector, tenant: str, owners: Sequence[str], limit: int) -> list[SourceHit]:
        """The nearest points that this tenant and these owners may see, the nearest first.

        Raises SourceMismatch, IndexUnavailable, InvalidSettings, InvariantViolated.
        """

    def close(self) -> None:
        """Release the connection."""
