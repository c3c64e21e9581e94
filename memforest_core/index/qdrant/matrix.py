"""Vectors of few points side by side: a question is compared with all of them in one product, exactly."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from itertools import compress, repeat
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from memforest_core.index.vector_index import DenseVector

GROWN = 2
"""From so many times the points of the smallest graph on a matrix is worth replacing by one."""


class Matrix:
    """Vectors of points, of length 1, by the ids of their rows. Thread-safe."""

    def __init__(self, dimension: int, graph_from: int) -> None:
        """``graph_from``: points from which on a graph is better."""
        self._vectors = np.empty((64, dimension), np.float32)
        self._rows: list[UUID] = []
        self._places: dict[UUID, int] = {}
        self._most = GROWN * graph_from
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def worn(self) -> bool:
        """Whether a graph is better by now."""
        return len(self._rows) > self._most

    def add(self, vectors: Mapping[UUID, DenseVector]) -> None:
        """Add or replace vectors."""
        with self._lock:
            new = [row for row in vectors if row not in self._places]
            self._places.update(zip(new, range(len(self._rows), len(self._rows) + len(new)), strict=True))
            self._rows.extend(new)
            while len(self._rows) > len(self._vectors):
                self._vectors = np.concatenate([self._vectors, np.empty_like(self._vectors)])
            for row, vector in vectors.items():
                self._vectors[self._places[row]] = vector

    def drop(self, rows: Collection[UUID]) -> None:
        """Take these out, as far as they are there: the last one takes the place of each."""
        with self._lock:
            for row in rows:
                place = self._places.pop(row, None)
                if place is None:
                    continue
                last = self._rows.pop()
                if last != row:
                    self._rows[place] = last
                    self._places[last] = place
                    self._vectors[place] = self._vectors[len(self._rows)]

    def of(self, unit: NDArray[np.float32], rows: Collection[UUID]) -> dict[UUID, float]:
        """The cosines with a vector of length one of those of these rows that are there."""
        with self._lock:
            places = np.fromiter(map(self._places.get, rows, repeat(-1)), np.intp, len(rows))
            there = places >= 0
            if not there.all():
                rows, places = list(compress(rows, there)), places[there]
            cosines = self._vectors[places] @ unit
        return dict(zip(rows, cosines.tolist(), strict=True))

    def near(self, unit: NDArray[np.float32], n: int) -> list[tuple[UUID, float]]:
        """The ``n`` rows nearest to a vector of length one with their cosines, in no order."""
        with self._lock:
            cosines = self._vectors[: len(self._rows)] @ unit
            at = np.arange(len(cosines))
            if len(cosines) > n:
                at = np.argpartition(cosines, len(cosines) - n)[len(cosines) - n :]
            return [
                (self._rows[place], cosine) for place, cosine in zip(at.tolist(), cosines[at].tolist(), strict=True)
            ]
