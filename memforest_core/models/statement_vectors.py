"""Vectors of statements and of their routing, which is made of two vectors: no sentence is embedded twice."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from memforest_core.domain.facts import Statement
from memforest_core.domain.forks import renewed_in_child
from memforest_core.models.calls import Embedded, Embedder, Vectors

LABEL_WEIGHT = 0.4
"""Of a label's vector in routing, next to 1 of the sentence's. With it cosines have the scale of one text of origin,
label and sentence, and the thresholds of scenes hold (docs/adr/0023-scenes.md)."""
MAX_LABELS = 1_024
"""Labels whose vectors a process remembers: 1.5 MB of the built-in model's. The offline rules have 11."""

Parts = Mapping[str, tuple[str, str]]
"""Routing texts, with the sentence and the label that each is made of."""


def parts_of(statements: Iterable[Statement]) -> dict[str, tuple[str, str]]:
    """The parts of the statements' routing texts; one without a label is its sentence, and has none."""
    return {each.routing_text: (each.text, each.routing_label) for each in statements if each.routing_label}


def embedded_for(texts: Iterable[str], parts: Parts) -> list[str]:
    """What has to be embedded for vectors of these texts: sentences and labels, each once."""
    return list(dict.fromkeys(each for text in texts for each in parts.get(text, (text,))))


def routing_vector(sentence: Vectors, label: Vectors) -> Vectors:
    """The unit vector that routing compares, of the unit vectors of a sentence and of its label."""
    total = sentence + np.float32(LABEL_WEIGHT) * label
    length = np.linalg.norm(total)
    return total / length if length else sentence


@renewed_in_child
class StatementEmbedder:
    """Embeds sentences, and labels once: those of a memory are few. Thread-safe."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._lock = threading.Lock()
        self._labels: dict[bytes, Vectors] = {}
        """By hash: words that were deleted stay in no process."""

    def embed(self, texts: Sequence[str], parts: Parts) -> Embedded:
        """Vectors of these texts, at least one, of which some may be routing texts. Raises as the embedder does."""
        sentences = {parts.get(text, (text,))[0] for text in texts}
        labels = {parts[text][1] for text in texts if text in parts} - sentences
        vectors = self._known(labels)
        missing = [each for each in embedded_for(texts, parts) if each not in vectors]
        embedded = self._embedder.embed(missing)
        vectors.update(zip(missing, embedded.vectors, strict=True))
        self._remember({label: vectors[label] for label in labels.intersection(missing)})
        rows = ([vectors[each] for each in parts.get(text, (text,))] for text in texts)
        made = [row[0] if len(row) == 1 else routing_vector(*row) for row in rows]
        return Embedded(np.stack(made), embedded.record)

    def _known(self, labels: Collection[str]) -> dict[str, Vectors]:
        with self._lock:
            return {label: self._labels[key] for label in labels if (key := _hash(label)) in self._labels}

    def _remember(self, labels: Mapping[str, Vectors]) -> None:
        with self._lock:
            for label, vector in labels.items():
                # A row of its own: the others of its batch are let go.
                self._labels[_hash(label)] = vector.copy()
            while len(self._labels) > MAX_LABELS:
                del self._labels[next(iter(self._labels))]


def _hash(label: str) -> bytes:
    return hashlib.sha256(label.encode()).digest()
