"""Plain search over a few thousand texts in memory, as others do it: BM25, cosine, and what fuses the two."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from memforest_core.domain.text import terms

K1 = 1.2
B = 0.75
"""BM25's usual constants (Robertson and Zaragoza, 2009)."""
RRF_K = 60
"""Reciprocal rank fusion's usual constant (Cormack, Clarke and Büttcher, 2009)."""

Order = list[int]
"""Positions of texts, best first."""
Scores = NDArray[np.float64]
"""A score for each text, shape (n,)."""


class Bm25:
    """BM25 with IDF over the texts themselves; terms are stemmed and without stop words, as in the project's index."""

    def __init__(self, texts: Sequence[str]) -> None:
        counted = [Counter(terms(text)) for text in texts]
        lengths = np.array([sum(counts.values()) for counts in counted], dtype=np.float64)
        norms = K1 * (1 - B + B * lengths / max(1.0, float(lengths.mean()) if len(lengths) else 1.0))
        held: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for position, counts in enumerate(counted):
            for term, count in counts.items():
                held[term].append((position, count))
        self._size = len(texts)
        self._postings: dict[str, tuple[NDArray[np.int64], NDArray[np.float64]]] = {}
        for term, pairs in held.items():
            positions = np.array([position for position, _ in pairs], dtype=np.int64)
            counts_of = np.array([count for _, count in pairs], dtype=np.float64)
            idf = math.log(1 + (self._size - len(pairs) + 0.5) / (len(pairs) + 0.5))
            self._postings[term] = positions, idf * counts_of * (K1 + 1) / (counts_of + norms[positions])

    def scores(self, question: str) -> Scores:
        """Each text's score: 0 without a term in common."""
        scores = np.zeros(self._size)
        for term in sorted(set(terms(question))):
            if term in self._postings:
                positions, weights = self._postings[term]
                scores[positions] += weights
        return scores

    def search(self, question: str, limit: int) -> Order:
        """The best texts that share a term with the question."""
        return best(self.scores(question), limit, above=0.0)


def best(scores: Scores, limit: int, *, above: float = -math.inf) -> Order:
    """Positions of the highest scores; equal ones in the order of the texts."""
    order = np.argsort(-scores, kind="stable")[:limit]
    return [int(position) for position in order if scores[position] > above]


def cosine(vectors: NDArray[np.float32], question: NDArray[np.float32], limit: int) -> Order:
    """The texts nearest to the question: unit vectors of shape (n, d) and (d,)."""
    return best(similarities(vectors, question), limit)


def similarities(vectors: NDArray[np.float32], question: NDArray[np.float32]) -> Scores:
    """Each text's cosine to the question."""
    return (vectors @ question).astype(np.float64) if len(vectors) else np.zeros(0)


def fused(orders: Sequence[Order], limit: int) -> Order:
    """Reciprocal rank fusion: each order gives 1 / (60 + rank), ranks from 1."""
    scores: dict[int, float] = defaultdict(float)
    for order in orders:
        for rank, position in enumerate(order, 1):
            scores[position] += 1 / (RRF_K + rank)
    return sorted(scores, key=lambda position: (-scores[position], position))[:limit]


def by_best(scores: Scores) -> Scores:
    """Scores over the best of them; as they are when none is above 0."""
    top = scores.max(initial=0.0)
    return scores / top if top else scores


def spread(scores: Scores) -> Scores:
    """Scores moved and scaled so that the lowest is 0 and the highest 1; zeros when all are alike."""
    if not len(scores):
        return scores
    low, high = scores.min(), scores.max()
    return (scores - low) / (high - low) if high > low else np.zeros(len(scores))


def standard(scores: Scores) -> Scores:
    """z-scores: how many standard deviations each lies above the mean; zeros when all are alike."""
    deviation = scores.std() if len(scores) else 0.0
    return (scores - scores.mean()) / deviation if deviation else np.zeros(len(scores))


def concurrent(scores: Scores, groups: Sequence[str]) -> Scores:
    """For each text the mean score of the ones before and after it in its group; 0 for one that is alone."""
    same = np.array([one == other for one, other in pairwise(groups)], dtype=bool)
    totals, counts = np.zeros(len(scores)), np.zeros(len(scores))
    totals[1:] += np.where(same, scores[:-1], 0.0)
    counts[1:] += same
    totals[:-1] += np.where(same, scores[1:], 0.0)
    counts[:-1] += same
    return totals / np.maximum(counts, 1.0)
