"""What the embedding models of this process have in common: loaded at the first use, distinct texts run once."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from memforest_core.models.calls import CallRecord, Embedded, Step, Vectors
from memforest_core.models.embedders.batching import Ids

MAX_THREADS = 8
"""Without a number given: as many as cores, but a process is rarely alone on a large machine."""


class Engine(Protocol):
    """A loaded model of one process."""

    dimension: int

    def encode(self, text: str, *, query: bool) -> Ids:
        """What the model reads of a text. Raises ModelRejected for text that is not Unicode."""

    def tokens(self, ids: Ids) -> int:
        """How many tokens that is."""

    def vectors(self, texts: Sequence[Ids], *, urgent: bool) -> Vectors:
        """Unit vectors in the order of the texts; urgent ones go before others that wait."""


class BuiltInEmbedder:
    """The Embedder port over an engine. Thread-safe; loads at the first use, again in a forked child.

    A text's vector is the same to the last bit whatever it is embedded together with.
    """

    def __init__(self, model: str, load: Callable[[], Engine]) -> None:
        """``load`` raises InvalidSettings if the model's wheels are missing."""
        self.model = model
        self._load = load
        self._lock = threading.Lock()
        self._loaded: tuple[int, Engine] | None = None

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
        encoded = [engine.encode(text, query=query) for text in distinct]
        vectors = engine.vectors(encoded, urgent=query)
        rows = {text: row for row, text in enumerate(distinct)}
        record = CallRecord(
            step=Step.EMBED,
            model=self.model,
            prompt_tokens=sum(map(engine.tokens, encoded)),
            completion_tokens=0,
            cached_tokens=0,
            cost_usd=0.0,
            latency_ms=(time.perf_counter() - started) * 1000.0,
            outcome="ok",
        )
        return Embedded(vectors[[rows[text] for text in texts]], record)

    def _engine(self) -> Engine:
        with self._lock:
            # A fork copies sessions and pools without their threads.
            if self._loaded is None or self._loaded[0] != os.getpid():
                self._loaded = os.getpid(), self._load()
            return self._loaded[1]


def cores() -> int:
    """Threads for a model unless a number is given."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(MAX_THREADS, available)
