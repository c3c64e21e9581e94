"""Terms as the indices and weights of sparse vectors."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

_K1 = 1.2
_B = 0.75
"""Usual BM25 constants (Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009)."""


@lru_cache(maxsize=131_072)
def term_index(term: str) -> int:
    """A stable uint32 for a term; two terms share one about once in four billion pairs."""
    return int.from_bytes(hashlib.blake2b(term.encode(), digest_size=4).digest(), "big")


def document_weights(terms: Sequence[str], average_length: float = 40.0) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Sparse BM25 vector of a text's terms, sorted by index, without IDF, which the index applies.

    A term that occurs tf times weighs tf (k1 + 1) / (tf + k1 (1 - b + b length / average_length)) (Robertson and
    Zaragoza, 2009). Terms that share an index add their weights. ``average_length`` is in terms and above 0.
    """
    norm = _K1 * (1 - _B + _B * len(terms) / average_length)
    weights: dict[int, float] = {}
    for term, count in sorted(Counter(terms).items()):
        index = term_index(term)
        weights[index] = weights.get(index, 0.0) + count * (_K1 + 1) / (count + norm)
    ordered = sorted(weights.items())
    return tuple(index for index, _ in ordered), tuple(weight for _, weight in ordered)


def query_weights(terms: Iterable[str]) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Sparse query: weight 1 for each distinct term, sorted by index; IDF is the index's."""
    indices = tuple(sorted({term_index(term) for term in terms}))
    return indices, (1.0,) * len(indices)
