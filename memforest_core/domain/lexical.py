"""Terms as the indices and weights of sparse vectors."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache


@lru_cache(maxsize=131_072)
def term_index(term: str) -> int:
    """A stable uint32 for a term; two terms share one about once in four billion pairs."""
    return int.from_bytes(hashlib.blake2b(term.encode(), digest_size=4).digest(), "big")


def query_weights(terms: Iterable[str]) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Sparse query: weight 1 for each distinct term, sorted by index; IDF is the index's."""
    indices = tuple(sorted({term_index(term) for term in terms}))
    return indices, (1.0,) * len(indices)
