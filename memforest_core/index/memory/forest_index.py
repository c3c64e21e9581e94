"""In-memory index of one forest: its vectors by kind, and its words."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from memforest_core.domain.ids import TreeKind
from memforest_core.index.memory.inverted_index import InvertedIndex
from memforest_core.index.memory.near_vectors import GROWN, Graph, Matrix, NearVectors
from memforest_core.index.qdrant.point_encoding import engine_limit, only_named
from memforest_core.index.vector_index import Hits, IndexFilter, IndexQuery, Point, PointKind, SparseVector

GRAPH_FROM = 5_000
"""Points of a group. Measured: the engine takes 2 ms for the vectors nearest among so many and 30 ms among 100,000, a
product with all of them 0.5 and 18 ms, a graph 1 ms."""

Group = tuple[PointKind, str | None]
"""The points of a kind, or the roots of a family of trees among its nodes."""


class ForestIndex:
    """Thread-safe for many readers and one writer."""

    def __init__(self, dimension: int, counts: Mapping[PointKind, int]) -> None:
        """``counts``: the points of each kind that will be added first."""
        self._dimension = dimension
        self._counts = counts
        self._words = InvertedIndex()
        self._vectors: dict[Group, NearVectors] = {}

    def __len__(self) -> int:
        return sum(len(vectors) for (_, family), vectors in self._vectors.items() if family is None)

    @property
    def needs_rebuild(self) -> bool:
        """Whether searches are worse than those of a new one."""
        return self._words.needs_rebuild or any(each.needs_rebuild for each in self._vectors.values())

    def add(self, points: Collection[Point]) -> None:
        """Add or replace points."""
        self._words.add(points)
        of = {point.id: _groups(point) for point in points}
        for group in {*self._vectors, *(each for groups in of.values() for each in groups)}:
            if group not in self._vectors:
                self._vectors[group] = self._new(group)
            inside = {point.id: point.dense for point in points if group in of[point.id]}
            self._vectors[group].drop([row for row in of if row not in inside])
            self._vectors[group].add(inside)

    def drop(self, rows: Collection[UUID]) -> None:
        """Remove rows; unknown ones are ignored."""
        self._words.drop(rows)
        for vectors in self._vectors.values():
            vectors.drop(rows)

    def search(
        self, query: IndexQuery, unit: NDArray[np.float32], changed: Collection[UUID]
    ) -> tuple[Hits, list[UUID]]:
        """The hits of a query that ``can_answer``, and the rows that the engine has to score: those that changed, and
        named ones that are not here. ``unit``: the query's dense vector, of length one; empty for one of terms."""
        wanted = query.filter
        [kind] = wanted.kinds
        if only_named(query):
            rows = [row for row in wanted.ids or () if row not in changed] if changed else list(wanted.ids or ())
            scores, rest = self._scores_of(query, unit, rows)
            rest += [row for row in wanted.ids or () if row in changed] if changed else ()
            return Hits.of_kind(kind, list(scores), list(scores.values())), rest
        n = engine_limit(query) + len(changed)
        if isinstance(query.vector, SparseVector):
            found = self._words.scores(query.vector).best(kind, n, wanted.tree_kinds if wanted.roots_only else None)
        else:
            near = (self._vectors.get(group) for group in _searched(kind, wanted))
            found = [one for vectors in near if vectors is not None for one in vectors.near(unit, n)]
        if changed:
            found = [one for one in found if one[0] not in changed]
        return best(kind, found, query), list(changed)

    def _scores_of(
        self, query: IndexQuery, unit: NDArray[np.float32], rows: list[UUID]
    ) -> tuple[dict[UUID, float], list[UUID]]:
        """The scores of those of these rows that are here, and the others."""
        [kind] = query.filter.kinds
        if isinstance(query.vector, SparseVector):
            return self._words.scores(query.vector).of(kind, rows)
        vectors = self._vectors.get((kind, None))
        cosines = {} if vectors is None else vectors.of(unit, rows)
        return cosines, [row for row in rows if row not in cosines] if len(cosines) < len(rows) else []

    def _new(self, group: Group) -> NearVectors:
        kind, family = group
        if kind is PointKind.NODE and family is None:
            # Nodes are named by their ids; of them roots alone are searched.
            return Matrix(self._dimension, float("inf"))
        points = self._counts.get(kind, 0) if family is None else sum(self._counts.values())
        return Graph(self._dimension) if points >= GRAPH_FROM else Matrix(self._dimension, GROWN * GRAPH_FROM)


def can_answer(query: IndexQuery) -> bool:
    """Whether a query names points of one kind, or bounds by nothing but the kind and which trees' roots."""
    wanted = query.filter
    if only_named(query):
        return True
    if len(wanted.kinds) != 1:
        return False
    families = wanted.tree_kinds if wanted.roots_only else ()
    return wanted == IndexFilter(
        wanted.tenant, wanted.forest_id, wanted.kinds, roots_only=wanted.roots_only, tree_kinds=families
    )


def best(kind: PointKind, scored: Iterable[tuple[UUID, float]], query: IndexQuery) -> Hits:
    """The best hits of a query for points of one kind, as many as it wants, those of equal score by their ids."""
    if query.min_score is not None:
        scored = (one for one in scored if one[1] >= query.min_score)
    # Numbers compare in C, ids in Python.
    first = sorted(scored, key=lambda one: (-one[1], one[0].int))[: query.limit]
    return Hits.of_kind(kind, [row for row, _ in first], [score for _, score in first])


def _groups(point: Point) -> Sequence[Group]:
    own: Group = (point.kind, None)
    return (own, (point.kind, point.tree_kind)) if point.is_root and point.tree_kind is not None else (own,)


def _searched(kind: PointKind, wanted: IndexFilter) -> Sequence[Group]:
    if not wanted.roots_only:
        return ((kind, None),)
    return [(kind, family) for family in wanted.tree_kinds or [each.value for each in TreeKind]]
