"""Vectors of a forest's points in memory: a matrix of few, compared exactly, or a graph (HNSW) of many."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Collection, Mapping
from contextlib import suppress
from itertools import compress, repeat
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from memforest_core.index.vector_index import DenseVector

GROWN = 2
"""From so many times the points of the smallest graph on, a matrix is replaced by one."""
LINKS = 16
"""Of a vector on each level; the library's own default."""
COMPARED_IN_WRITE, COMPARED_IN_SEARCH = 64, 256
"""Vectors that are compared. Measured with 100,000 vectors of 384 numbers: 0.42 ms to add one, 0.9 ms to search, and
99.6 % of the nearest 60 found (in eight bits 0.26 ms, 0.7 ms and 98.3 %)."""
HALF_FROM = 64
"""Numbers of a vector from which on a graph stores them in half precision: a cosine of 384 numbers differs by some
1e-5, one of 8 would by 1e-4."""


class Matrix:
    """Vectors of length one by the ids of their rows, all compared with a question in one product. Thread-safe."""

    def __init__(self, dimension: int, most: float) -> None:
        """``most``: rows above which it needs to be rebuilt as a graph."""
        self._vectors = np.empty((64, dimension), np.float32)
        self._rows: list[UUID] = []
        self._positions: dict[UUID, int] = {}
        self._most = most
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def needs_rebuild(self) -> bool:
        """Whether searches are worse than those of a new one."""
        return len(self._rows) > self._most

    def add(self, vectors: Mapping[UUID, DenseVector]) -> None:
        """Add or replace vectors."""
        with self._lock:
            new = [row for row in vectors if row not in self._positions]
            self._positions.update(zip(new, range(len(self._rows), len(self._rows) + len(new)), strict=True))
            self._rows.extend(new)
            while len(self._rows) > len(self._vectors):
                self._vectors = np.concatenate([self._vectors, np.empty_like(self._vectors)])
            for row, vector in vectors.items():
                self._vectors[self._positions[row]] = vector

    def drop(self, rows: Collection[UUID]) -> None:
        """Remove rows; unknown ones are ignored."""
        with self._lock:
            for row in rows:
                position = self._positions.pop(row, None)
                if position is None:
                    continue
                last = self._rows.pop()
                if last != row:
                    self._rows[position] = last
                    self._positions[last] = position
                    self._vectors[position] = self._vectors[len(self._rows)]

    def of(self, unit: NDArray[np.float32], rows: Collection[UUID]) -> dict[UUID, float]:
        """The cosines with a vector of length one of those of these rows that are there."""
        with self._lock:
            at = np.fromiter(map(self._positions.get, rows, repeat(-1)), np.intp, len(rows))
            known = at >= 0
            if not known.all():
                rows, at = list(compress(rows, known)), at[known]
            cosines = self._vectors[at] @ unit
        return dict(zip(rows, cosines.tolist(), strict=True))

    def near(self, unit: NDArray[np.float32], n: int) -> list[tuple[UUID, float]]:
        """The ``n`` rows nearest to a vector of length one with their cosines, in no order."""
        with self._lock:
            cosines = self._vectors[: len(self._rows)] @ unit
            at = np.arange(len(cosines))
            if len(cosines) > n:
                at = np.argpartition(cosines, len(cosines) - n)[len(cosines) - n :]
            return [(self._rows[one], cosine) for one, cosine in zip(at.tolist(), cosines[at].tolist(), strict=True)]


class Graph:
    """The same, of which a question is compared with few. ``near`` finds most of the nearest. Thread-safe."""

    def __init__(self, dimension: int) -> None:
        # Some 100 ms and 10 MB, for those who have a large forest. Loading onnxruntime 1.31 after usearch 2.26 is a
        # segmentation fault: a process that embeds its first text later needs it loaded before.
        with suppress(ImportError):
            importlib.import_module("onnxruntime")
        from usearch.index import Index

        self._graph = Index(
            ndim=dimension,
            metric="cos",
            dtype="f16" if dimension >= HALF_FROM else "f32",
            connectivity=LINKS,
            expansion_add=COMPARED_IN_WRITE,
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
        # The links of a vector that was replaced or dropped stay those of its predecessor.
        return self._next > 2 * len(self._keys)

    def add(self, vectors: Mapping[UUID, DenseVector]) -> None:
        if not vectors:
            return
        with self._lock:
            self._remove(vectors)
            keys = range(self._next, self._next + len(vectors))
            self._next += len(vectors)
            self._graph.add(np.array(keys, np.uint64), np.stack(list(vectors.values())), threads=1)
            self._rows.update(zip(keys, vectors, strict=True))
            self._keys.update(zip(vectors, keys, strict=True))

    def drop(self, rows: Collection[UUID]) -> None:
        with self._lock:
            self._remove(rows)

    def near(self, unit: NDArray[np.float32], n: int) -> list[tuple[UUID, float]]:
        with self._lock:
            if not self._keys:
                return []
            found = self._graph.search(unit, n, threads=1)
            cosines = (1.0 - found.distances).tolist()
            return [(self._rows[key], cosine) for key, cosine in zip(found.keys.tolist(), cosines, strict=True)]

    def of(self, unit: NDArray[np.float32], rows: Collection[UUID]) -> dict[UUID, float]:
        with self._lock:
            keys = {row: self._keys[row] for row in rows if row in self._keys}
            if not keys:
                return {}
            vectors = np.asarray(self._graph.get(np.array(list(keys.values()), np.uint64), dtype="f32"))
        return dict(zip(keys, (vectors @ unit).tolist(), strict=True))

    def _remove(self, rows: Collection[UUID]) -> None:
        keys = [self._keys.pop(row) for row in rows if row in self._keys]
        if keys:
            self._graph.remove(np.array(keys, np.uint64), threads=1)
            for key in keys:
                del self._rows[key]
