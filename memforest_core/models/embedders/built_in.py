"""What the embedding models of this process have in common: loaded at the first use, distinct texts run once."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from memforest_core.domain.forks import renewed_in_child
from memforest_core.models.calls import CallRecord, Embedded, Step, Vectors
from memforest_core.models.token_vectors import TokenVectors

MAX_THREADS = 8
"""Without a number given: as many as cores, but a process is rarely alone on a large machine."""


class Read(NamedTuple):
    """What a model made of a text: a unit vector, of how many tokens, and their own vectors, if it gives them."""

    vector: Vectors
    size: int
    tokens: TokenVectors | None = None


class Engine(Protocol):
    """A loaded model of one process."""

    dimension: int

    def read(self, texts: Sequence[str], *, query: bool) -> list[Read]:
        """In the order of the texts; questions go before others that wait. Raises ModelRejected for text that is not
        Unicode."""


@renewed_in_child
class BuiltInEmbedder:
    """The Embedder port over an engine. Thread-safe; loads at the first use, again in a forked child.

    A text's vector is the same to the last bit whatever it is embedded together with.
    """

    def __init__(self, model: str, load: Callable[[], Engine]) -> None:
        """``load`` raises InvalidSettings if the model's wheels are missing."""
        self.model = model
        self._load = load
        self._lock = threading.Lock()
        self._loaded: Engine | None = None

    @property
    def dimension(self) -> int:
        """As the model's file says."""
        return self._engine().dimension

    def embed(self, texts: Sequence[str]) -> Embedded:
        """Vectors of stored texts. Raises InvalidSettings, ModelRejected."""
        return self._embed(texts, query=False)

    def embed_query(self, texts: Sequence[str]) -> Embedded:
        """Vectors of questions, before others that wait."""
        return self._embed(texts, query=True)

    def _embed(self, texts: Sequence[str], *, query: bool) -> Embedded:
        engine = self._engine()
        started = time.perf_counter()
        distinct = list(dict.fromkeys(texts))
        found = dict(zip(distinct, engine.read(distinct, query=query), strict=True))
        record = CallRecord(
            step=Step.EMBED,
            model=self.model,
            prompt_tokens=sum(read.size for read in found.values()),
            completion_tokens=0,
            cached_tokens=0,
            cost_usd=0.0,
            latency_ms=(time.perf_counter() - started) * 1000.0,
            outcome="ok",
        )
        reads = [found[text] for text in texts]
        vectors = np.stack([read.vector for read in reads]) if reads else np.empty((0, engine.dimension), np.float32)
        tokens = [read.tokens for read in reads if read.tokens is not None]
        return Embedded(vectors, record, tokens if reads and len(tokens) == len(reads) else None)

    def _engine(self) -> Engine:
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded


def cores() -> int:
    """Threads for a model unless a number is given."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(MAX_THREADS, available)
