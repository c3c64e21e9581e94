"""Hits in one order: what scores the same is ordered by id, wherever it lies in the index."""

from __future__ import annotations

from collections.abc import Iterable

from memforest_core.index.vector_index import Hit, IndexQuery

TIES = 16
"""Hits looked at beyond a limit: of those that score the same at the cut, the ids decide which are kept."""


def asked_limit(query: IndexQuery) -> int:
    """How many hits to ask the engine for."""
    return query.limit if query.filter.ids is not None else query.limit + TIES


def ranked(hits: Iterable[Hit], query: IndexQuery) -> list[Hit]:
    """The query's hits, best first, then by id; two indexes with the same points give the same."""
    return sorted(hits, key=lambda hit: (-hit.score, hit.id))[: query.limit]
