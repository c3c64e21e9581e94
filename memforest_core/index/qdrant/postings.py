"""An inverted index of one forest's points in memory: BM25 scores of all of them at once, by sums over few rows."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from memforest_core.index.vector_index import PointKind, SparseVector

KINDS = tuple(PointKind)
_CODES = {kind: code for code, kind in enumerate(KINDS)}
LIKE_SIZE = 2
"""A part is merged with the one before it while that has no more than so many times its postings: so there are few."""

KEPT_SCORES = 8
"""Vectors of terms whose scores are kept, at 8 to 16 bytes a point: a recall asks twice for the same."""


class Worded(NamedTuple):
    """A point by its words: what it is, and its terms with their weights, as in ``SparseVector``."""

    kind: PointKind
    terms: SparseVector
    root: bool = False
    tree_kind: str = ""


@dataclass(frozen=True, slots=True)
class _Part:
    """Postings by term: those of ``terms[n]`` are from ``starts[n]`` to ``starts[n + 1]``."""

    terms: NDArray[np.uint32]
    starts: NDArray[np.int64]
    places: NDArray[np.int32]
    weights: NDArray[np.float32]

    def slices(self, terms: NDArray[np.uint32]) -> list[slice | None]:
        """Where the postings of each of these terms are."""
        at = np.searchsorted(self.terms, terms)
        known = self.terms[np.minimum(at, len(self.terms) - 1)] == terms
        ends = zip(self.starts[at * known].tolist(), self.starts[at * known + 1].tolist(), strict=True)
        return [slice(*pair) if there else None for pair, there in zip(ends, known.tolist(), strict=True)]


@dataclass(frozen=True, slots=True)
class Scored:
    """The scores of all points of a forest by one vector of terms, and what tells these points apart."""

    scores: NDArray[np.float64]
    _held: NDArray[np.intp]
    """The places of the points that hold any of the terms."""
    _kinds: NDArray[np.uint8]
    _trees: NDArray[np.int16]
    _rows: Sequence[UUID]
    _places: Mapping[UUID, int]
    _tree_codes: Mapping[str, int]

    def best(self, kind: PointKind, n: int, roots_of: Sequence[str] | None = None) -> list[tuple[UUID, float]]:
        """The best ``n`` of a kind that hold any of the terms, in no order; ``roots_of``: roots alone, of these
        families of trees (of all when it is empty)."""
        at = self._held[self._kinds[self._held] == _CODES[kind]]
        if roots_of is not None:
            codes = [self._tree_codes[name] for name in roots_of if name in self._tree_codes]
            at = at[np.isin(self._trees[at], codes) if roots_of else self._trees[at] >= 0]
        scores = self.scores[at]
        if len(at) > n:
            most = np.argpartition(scores, len(at) - n)[len(at) - n :]
            at, scores = at[most], scores[most]
        return [(self._rows[place], score) for place, score in zip(at.tolist(), scores.tolist(), strict=True)]

    def of(self, kind: PointKind, rows: Sequence[UUID]) -> tuple[list[tuple[UUID, float]], list[UUID]]:
        """Those of these points that are of this kind and hold any of the terms, with their scores; and those that are
        not known here."""
        most = len(self.scores)
        known, places, unknown = [], [], []
        for row, place in zip(rows, map(self._places.get, rows), strict=True):
            if place is None or place >= most:
                unknown.append(row)
            else:
                known.append(row)
                places.append(place)
        at = np.array(places, np.intp)
        told = zip(known, self.scores[at].tolist(), (self._kinds[at] == _CODES[kind]).tolist(), strict=True)
        return [(row, score) for row, score, same in told if same and score > 0.0], unknown


class Postings:
    """The words of points by the ids of their rows. Thread-safe for many readers and one writer.

    Parts are never changed. A row that was replaced or dropped is dead at its old place; new ones come behind.
    """

    def __init__(self) -> None:
        self._rows: list[UUID] = []
        self._places: dict[UUID, int] = {}
        self._alive: NDArray[np.bool_] = np.zeros(0, bool)
        self._kinds: NDArray[np.uint8] = np.zeros(0, np.uint8)
        self._trees: NDArray[np.int16] = np.zeros(0, np.int16)
        """Of roots their family's code, of others -1."""
        self._tree_codes: dict[str, int] = {}
        self._parts: tuple[_Part, ...] = ()
        self._scored: dict[SparseVector, Scored] = {}
        """The last scores, until something is added or dropped."""
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._places)

    @property
    def worn(self) -> bool:
        """Whether most of what was ever added was replaced or dropped."""
        return len(self._rows) > 2 * len(self._places)

    def add(self, points: Mapping[UUID, Worded]) -> None:
        """Add or replace points. One without terms has no score by words and is left out, as the engine does."""
        worded = {row: point for row, point in points.items() if point.terms.indices}
        self.drop([row for row in points if row not in worded])
        if not worded:
            return
        first = len(self._rows)
        parts = _merged((*self._parts, _part(first, [point.terms for point in worded.values()])))
        for point in worded.values():
            self._tree_codes.setdefault(point.tree_kind, len(self._tree_codes))
        kinds = [_CODES[point.kind] for point in worded.values()]
        trees = [self._tree_codes[point.tree_kind] if point.root else -1 for point in worded.values()]
        with self._lock:
            alive = np.concatenate([self._alive, np.ones(len(worded), bool)])
            alive[[self._places[row] for row in worded if row in self._places]] = False
            self._alive = alive
            self._scored.clear()
            self._kinds = np.concatenate([self._kinds, np.array(kinds, np.uint8)])
            self._trees = np.concatenate([self._trees, np.array(trees, np.int16)])
            self._parts = parts
            self._rows.extend(worded)
            self._places.update(zip(worded, range(first, first + len(worded)), strict=True))

    def drop(self, rows: Collection[UUID]) -> None:
        """Take these out, as far as they are there."""
        with self._lock:
            places = [self._places.pop(row) for row in rows if row in self._places]
            if places:
                self._alive = self._alive.copy()
                self._alive[places] = False
                self._scored.clear()

    def scored(self, vector: SparseVector) -> Scored:
        """The scores of all points: the sum over terms of both weights and the term's rarity in this forest."""
        with self._lock:
            known = self._scored.get(vector)
            if known is not None:
                return known
            parts, alive, kinds, trees, count = self._parts, self._alive, self._kinds, self._trees, len(self._places)
        terms = np.array(vector.indices, np.uint32)
        found = [part.slices(terms) for part in parts]
        held: list[NDArray[np.int32]] = []
        shares: list[NDArray[np.float32]] = []
        for number, weight in enumerate(vector.values):
            slices = [(part, one) for part, own in zip(parts, found, strict=True) if (one := own[number]) is not None]
            places = [part.places[one] for part, one in slices]
            if count == len(alive):
                holding = sum(map(len, places))
            else:
                holding = sum(int(np.count_nonzero(alive[own])) for own in places)
            factor = np.float32(weight * rarity(holding, count))
            held += places
            shares += [factor * part.weights[one] for part, one in slices]
        scores: NDArray[np.float64] = np.zeros(len(alive))
        if held:
            scores = np.bincount(np.concatenate(held), np.concatenate(shares), len(alive)).astype(
                np.float64, copy=False
            )
            scores[~alive] = 0.0
        made = Scored(scores, np.flatnonzero(scores > 0.0), kinds, trees, self._rows, self._places, self._tree_codes)
        with self._lock:
            if alive is self._alive:
                self._scored[vector] = made
                if len(self._scored) > KEPT_SCORES:
                    del self._scored[next(iter(self._scored))]
        return made


def rarity(holding: int, count: int) -> float:
    """The inverse document frequency of a term that ``holding`` of ``count`` points hold, as Qdrant counts it."""
    return float(np.log((count - holding + 0.5) / (holding + 0.5) + 1.0))


def _part(first: int, vectors: Sequence[SparseVector]) -> _Part:
    """The postings of points with these vectors, whose places begin at ``first``."""
    lengths = [len(vector.indices) for vector in vectors]
    terms = np.fromiter((index for vector in vectors for index in vector.indices), np.uint32, sum(lengths))
    weights = np.fromiter((value for vector in vectors for value in vector.values), np.float32, sum(lengths))
    return _by_term(terms, np.repeat(np.arange(first, first + len(vectors), dtype=np.int32), lengths), weights)


def _merged(parts: tuple[_Part, ...]) -> tuple[_Part, ...]:
    """The parts, those at the end made one as long as they are of like size."""
    kept, last = list(parts[:-1]), parts[-1]
    while kept and len(kept[-1].places) <= LIKE_SIZE * len(last.places):
        before = kept.pop()
        both = [np.repeat(part.terms, np.diff(part.starts)) for part in (before, last)]
        last = _by_term(
            np.concatenate(both),
            np.concatenate([before.places, last.places]),
            np.concatenate([before.weights, last.weights]),
        )
    return (*kept, last)


def _by_term(terms: NDArray[np.uint32], places: NDArray[np.int32], weights: NDArray[np.float32]) -> _Part:
    order = np.argsort(terms, kind="stable")
    ordered = terms[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    return _Part(ordered[starts], np.append(starts, len(ordered)), places[order], weights[order])
