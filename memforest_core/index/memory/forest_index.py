"""In-memory index of one forest: vectors by group of points, compared exactly or through a graph (HNSW), and words."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from memforest_core.domain.ids import TreeKind
from memforest_core.index.memory.inverted_index import Group, InvertedIndex, group_of
from memforest_core.index.qdrant.point_encoding import engine_limit, only_named, unbounded
from memforest_core.index.vector_index import DenseVector, Hits, IndexFilter, IndexQuery, Point, PointKind, SparseVector

GRAPH_FROM = 5_000
"""Vectors from which on a question is compared with those that a graph leads to. Measured (384 numbers): 0.15 ms for
all of 5,000 and as long through the graph, which stays near 1 ms with 100,000."""
LINKS = 16
"""Of a vector on each level of the graph; the library's own default."""
COMPARED_IN_WRITE, COMPARED_IN_SEARCH = 64, 256
"""Vectors that are compared. Measured with 100,000 vectors of 384 numbers: 0.42 ms to add one, 0.9 ms to search, and
99.6 % of the nearest 60 found (in eight bits 0.26 ms, 0.7 ms and 98.3 %)."""


class Vectors:
    """Vectors of length one, in half precision as the engine stores them, by the ids of their rows. Thread-safe."""

    def __init__(self, dimension: int, *, searched: bool = True) -> None:
        """``searched``: whether ``near`` is called, and links between the vectors are worth their making."""
        # Some 100 ms and 10 MB. Loading onnxruntime 1.31 after usearch 2.26 is a segmentation fault: a process that
        # embeds its first text later needs it loaded before.
        with suppress(ImportError):
            importlib.import_module("onnxruntime")
        from usearch.index import Index

        links, compared = (LINKS, COMPARED_IN_WRITE) if searched else (2, 1)
        self._index = Index(
            ndim=dimension,
            metric="ip",
            dtype="f16",
            connectivity=links,
            expansion_add=compared,
            expansion_search=COMPARED_IN_SEARCH,
        )
        self._rows: dict[int, UUID] = {}
        self._keys: dict[UUID, int] = {}
        self._next = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def needs_rebuild(self) -> bool:
        """Whether most was replaced or dropped: the links of such a vector stay those of its predecessor."""
        return self._next > 2 * len(self._keys)

    def add(self, vectors: Mapping[UUID, DenseVector]) -> None:
        """Add or replace vectors."""
        if not vectors:
            return
        self.drop(vectors)
        with self._lock:
            keys = range(self._next, self._next + len(vectors))
            self._next += len(vectors)
            self._index.add(np.array(keys, np.uint64), np.stack(list(vectors.values())), threads=1)
            self._rows.update(zip(keys, vectors, strict=True))
            self._keys.update(zip(vectors, keys, strict=True))

    def drop(self, rows: Iterable[UUID]) -> None:
        """Remove rows; unknown ones are ignored."""
        with self._lock:
            keys = [self._keys.pop(row) for row in rows if row in self._keys]
            if keys:
                self._index.remove(np.array(keys, np.uint64), threads=1)
                for key in keys:
                    del self._rows[key]

    def near(self, unit: NDArray[np.float32], n: int) -> list[tuple[UUID, float]]:
        """The ``n`` rows nearest to a vector of length one with their cosines, the nearest first; of many nearly
        always these."""
        with self._lock:
            if not self._keys:
                return []
            found = self._index.search(unit, n, threads=1, exact=len(self._keys) < GRAPH_FROM)
            cosines = (1.0 - found.distances).tolist()
            return [(self._rows[key], cosine) for key, cosine in zip(found.keys.tolist(), cosines, strict=True)]

    def of(self, unit: NDArray[np.float32], rows: Collection[UUID]) -> dict[UUID, float]:
        """The cosines with a vector of length one of those of these rows that are there."""
        with self._lock:
            keys = {row: key for row, key in zip(rows, map(self._keys.get, rows), strict=True) if key is not None}
            if not keys:
                return {}
            vectors: Any = self._index.get(np.array(list(keys.values()), np.uint64), dtype="f32")
        return dict(zip(keys, (np.concatenate(vectors).reshape(len(keys), -1) @ unit).tolist(), strict=True))


class ForestIndex:
    """Thread-safe for many readers and one writer."""

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        self._words = InvertedIndex()
        self._vectors: dict[Group, Vectors] = {}

    def __len__(self) -> int:
        return sum(map(len, self._vectors.values()))

    @property
    def needs_rebuild(self) -> bool:
        """Whether searches are worse than those of a new one."""
        return self._words.needs_rebuild or any(each.needs_rebuild for each in self._vectors.values())

    def add(self, points: Collection[Point]) -> None:
        """Add or replace points."""
        self._words.add(points)
        of: dict[Group, dict[UUID, DenseVector]] = {}
        for point in points:
            of.setdefault(group_of(point), {})[point.id] = point.dense
        for group in of.keys() - self._vectors.keys():
            # Nodes that are no roots are only named.
            self._vectors[group] = Vectors(self._dimension, searched=group != (PointKind.NODE, None))
        for group, vectors in self._vectors.items():
            inside = of.get(group, {})
            vectors.drop(point.id for point in points if point.id not in inside)
            vectors.add(inside)

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
            # Ids are hashed in Python: of a thousand only where something changed.
            named = list(wanted.ids or ())
            scores, rest = self._scores_of(
                query, unit, [row for row in named if row not in changed] if changed else named
            )
            rest += [row for row in named if row in changed] if changed else []
            return Hits.of_kind(kind, list(scores), list(scores.values())), rest
        n = engine_limit(query) + len(changed)
        if isinstance(query.vector, SparseVector):
            found = self._words.scores(query.vector).best(kind, n, wanted.tree_kinds if wanted.roots_only else None)
        else:
            near = (self._vectors.get(group) for group in _searched(kind, wanted))
            found = [one for vectors in near if vectors is not None for one in vectors.near(unit, n)]
        return best(kind, (one for one in found if one[0] not in changed), query), list(changed)

    def _scores_of(
        self, query: IndexQuery, unit: NDArray[np.float32], rows: list[UUID]
    ) -> tuple[dict[UUID, float], list[UUID]]:
        """The scores of those of these rows that are here, and the others."""
        [kind] = query.filter.kinds
        if isinstance(query.vector, SparseVector):
            return self._words.scores(query.vector).of(kind, rows)
        cosines: dict[UUID, float] = {}
        for (own, _), vectors in list(self._vectors.items()):
            if own is kind and len(cosines) < len(rows):
                cosines |= vectors.of(unit, rows)
        return cosines, [row for row in rows if row not in cosines] if len(cosines) < len(rows) else []


def can_answer(query: IndexQuery) -> bool:
    """Whether a query names points of one kind, or bounds by nothing but the kind and which trees' roots."""
    wanted = query.filter
    if only_named(query):
        return True
    # Of nodes roots alone are searched.
    if len(wanted.kinds) != 1 or (PointKind.NODE in wanted.kinds and not wanted.roots_only):
        return False
    families = wanted.tree_kinds if wanted.roots_only else ()
    return wanted.ids is None and wanted.tree_kinds == families and unbounded(wanted)


def best(kind: PointKind, scored: Iterable[tuple[UUID, float]], query: IndexQuery) -> Hits:
    """The best hits of a query for points of one kind, as many as it wants, those of equal score by their ids."""
    if query.min_score is not None:
        scored = (one for one in scored if one[1] >= query.min_score)
    # Numbers compare in C, ids in Python.
    first = sorted(scored, key=lambda one: (-one[1], one[0].int))[: query.limit]
    return Hits.of_kind(kind, [row for row, _ in first], [score for _, score in first])


def _searched(kind: PointKind, wanted: IndexFilter) -> Sequence[Group]:
    if not wanted.roots_only:
        return ((kind, None),)
    return [(kind, family) for family in wanted.tree_kinds or [each.value for each in TreeKind]]
