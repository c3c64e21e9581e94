"""In-memory inverted index of one forest: BM25 scores of all its points in one pass over the terms of a question."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress, repeat
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from memforest_core.index.vector_index import Point, PointKind, SparseVector

KINDS = tuple(PointKind)
_CODES = {kind: code for code, kind in enumerate(KINDS)}
MERGED_SIZE = 2
"""A segment is merged with the one before it while that has at most so many times its postings: so there are few."""
CACHED_SCORES = 8
"""Term vectors whose scores are cached, at 8 to 32 bytes a point: a recall needs the same scores twice."""

COMMON, COMMON_FROM = 1 / 16, 1_000
"""A term is common in more than this part of the points and in more than so many: it says little of a point, and takes
most of the time if it is added to all of them."""
COMMON_MOST = 0.5
"""What common terms may give a point together, by what the term that gives most may: the best points have more."""


@dataclass(frozen=True, slots=True)
class _Segment:
    """Postings by term: those of ``terms[n]`` are from ``starts[n]`` to ``starts[n + 1]``."""

    terms: NDArray[np.uint32]
    starts: NDArray[np.int64]
    positions: NDArray[np.int32]
    """Of each term in ascending order."""
    weights: NDArray[np.float32]
    most: NDArray[np.float32]
    """The greatest weight of each term."""

    def slices(self, terms: NDArray[np.uint32]) -> list[tuple[int, slice] | None]:
        """Which of its terms each of these is, and where its postings are."""
        at = np.searchsorted(self.terms, terms)
        known = self.terms[np.minimum(at, len(self.terms) - 1)] == terms
        numbers = at * known
        ends = zip(self.starts[numbers].tolist(), self.starts[numbers + 1].tolist(), strict=True)
        each = zip(numbers.tolist(), ends, known.tolist(), strict=True)
        return [(number, slice(*pair)) if there else None for number, pair, there in each]


@dataclass(frozen=True, slots=True, eq=False)
class _Term:
    """One term of a question in the postings of a forest: ``factor`` times its weight it adds to a point's score."""

    factor: np.float32
    found: Sequence[tuple[_Segment, int, slice]]
    """The segments that have it, as which of their terms, and where its postings are."""

    @property
    def most(self) -> float:
        """What it adds to a score at most."""
        return max((float(self.factor * segment.most[number]) for segment, number, _ in self.found), default=0.0)

    def contributions(self) -> Iterator[tuple[NDArray[np.int32], NDArray[np.float32]]]:
        """The positions of its points, and what it adds to the score of each."""
        for segment, _, where in self.found:
            yield segment.positions[where], self.factor * segment.weights[where]

    def add_to(self, scores: NDArray[np.float64], at: NDArray[np.intp]) -> None:
        """Add to the scores of the points at these positions."""
        for segment, _, where in self.found:
            positions = segment.positions[where]
            near = np.minimum(np.searchsorted(positions, at), len(positions) - 1)
            scores += np.where(positions[near] == at, self.factor * segment.weights[where][near], np.float32(0.0))


@dataclass(frozen=True, slots=True)
class _Points:
    """The points of a forest by their positions, as they were at one time."""

    alive: NDArray[np.bool_]
    living: int
    """How many are alive."""
    kinds: NDArray[np.uint8]
    trees: NDArray[np.int16]
    rows: Sequence[UUID]
    positions: Mapping[UUID, int]
    tree_codes: Mapping[str, int]

    def of(self, at: NDArray[np.intp], kind: PointKind, roots_of: Sequence[str] | None) -> NDArray[np.intp]:
        """Those at these positions that are of a kind, and roots of these families where they are named."""
        at = at[self.kinds[at] == _CODES[kind]]
        if roots_of is not None:
            codes = [self.tree_codes[name] for name in roots_of if name in self.tree_codes]
            at = at[np.isin(self.trees[at], codes) if roots_of else self.trees[at] >= 0]
        return at


class Scores:
    """The scores of a forest's points by one vector of terms.

    Common terms are not added to all points: which points are the best is mostly settled by the rare terms, as a point
    without any of them has no more than what the common ones can give it (the rule of MaxScore, which search engines
    use). Where that does not settle it, all points are scored.
    """

    def __init__(self, points: _Points, rare: Sequence[_Term], common: Sequence[_Term]) -> None:
        self._points, self._rare, self._common = points, rare, common
        self._by_rare = _summed(points, rare)
        self._with_rare = np.flatnonzero(self._by_rare > 0.0)

    @cached_property
    def _by_all(self) -> NDArray[np.float64]:
        return _summed(self._points, [*self._rare, *self._common]) if self._common else self._by_rare

    @cached_property
    def _with_any(self) -> NDArray[np.intp]:
        return np.flatnonzero(self._by_all > 0.0) if self._common else self._with_rare

    def best(self, kind: PointKind, n: int, roots_of: Sequence[str] | None = None) -> list[tuple[UUID, float]]:
        """The best ``n`` of a kind with any of the terms, in no order; ``roots_of``: roots alone, of these
        families of trees (of all when it is empty)."""
        found = self._settled(kind, n, roots_of) if self._common else None
        if found is None:
            at = self._points.of(self._with_any, kind, roots_of)
            found = _most(at, self._by_all[at], n)
        at, scores = found
        return [
            (self._points.rows[position], score) for position, score in zip(at.tolist(), scores.tolist(), strict=True)
        ]

    def of(self, kind: PointKind, rows: list[UUID]) -> tuple[dict[UUID, float], list[UUID]]:
        """The scores of those of these points that are of this kind and have any of the terms; and unknown
        rows."""
        # A position behind the last one is that of a point which came since.
        most = len(self._by_rare)
        at = np.fromiter(map(self._points.positions.get, rows, repeat(most)), np.intp, len(rows))
        unknown: list[UUID] = []
        if (new := at >= most).any():
            unknown, rows, at = list(compress(rows, new)), list(compress(rows, ~new)), at[~new]
        scores = self._scores(at)
        meant = (self._points.kinds[at] == _CODES[kind]) & (scores > 0.0)
        return dict(zip(compress(rows, meant), scores[meant].tolist(), strict=True)), unknown

    def _settled(
        self, kind: PointKind, n: int, roots_of: Sequence[str] | None
    ) -> tuple[NDArray[np.intp], NDArray[np.float64]] | None:
        """The positions and scores of the best ``n``, if they are ahead of all points without a rare term."""
        at = self._points.of(self._with_rare, kind, roots_of)
        if len(at) < n:
            return None
        beyond = sum(term.most for term in self._common) * _ROUNDED
        by_rare = self._by_rare[at]
        # Common terms can't lift a point that is further behind than that.
        at = at[by_rare >= np.partition(by_rare, len(at) - n)[len(at) - n] - beyond]
        at, scores = _most(at, self._scores(at), n)
        return (at, scores) if scores.min() > beyond else None

    def _scores(self, at: NDArray[np.intp]) -> NDArray[np.float64]:
        """The scores of the points at these positions."""
        scores = self._by_rare[at]
        for term in self._common:
            term.add_to(scores, at)
        return scores


_ROUNDED = 1.0 + 1e-6
"""Sums in another order differ by less."""


def _most(at: NDArray[np.intp], scores: NDArray[np.float64], n: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """The ``n`` of these positions with the greatest scores, in no order."""
    if len(at) <= n:
        return at, scores
    most = np.argpartition(scores, len(at) - n)[len(at) - n :]
    return at[most], scores[most]


def _summed(points: _Points, terms: Iterable[_Term]) -> NDArray[np.float64]:
    """What these terms add to the score of each point; nothing to those that are dead."""
    parts = [each for term in terms for each in term.contributions()]
    if not parts:
        return np.zeros(len(points.alive))
    positions, added = (np.concatenate(each) for each in zip(*parts, strict=True))
    scores = np.bincount(positions, added, len(points.alive)).astype(np.float64, copy=False)
    if points.living < len(points.alive):
        scores[~points.alive] = 0.0
    return scores


class InvertedIndex:
    """Terms of points by the ids of their rows. Thread-safe for many readers and one writer.

    Parts are never changed. A row that was repositiond or dropped is dead at its old position; new ones come behind.
    """

    def __init__(self) -> None:
        self._rows: list[UUID] = []
        self._positions: dict[UUID, int] = {}
        self._alive: NDArray[np.bool_] = np.zeros(0, bool)
        self._kinds: NDArray[np.uint8] = np.zeros(0, np.uint8)
        self._trees: NDArray[np.int16] = np.zeros(0, np.int16)
        """Of roots their family's code, of others -1."""
        self._tree_codes: dict[str, int] = {}
        self._segments: tuple[_Segment, ...] = ()
        self._cached: dict[SparseVector, Scores] = {}
        """The last scores, until something is added or dropped."""
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._positions)

    @property
    def needs_rebuild(self) -> bool:
        """Whether most of what was ever added was repositiond or dropped."""
        return len(self._rows) > 2 * len(self._positions)

    def add(self, points: Iterable[Point]) -> None:
        """Add or replace points. One without terms has no score by words and is left out, as the engine does."""
        every = {point.id: point for point in points}
        worded = {row: point for row, point in every.items() if point.sparse.indices}
        self.drop([row for row in every if row not in worded])
        if not worded:
            return
        first = len(self._rows)
        segments = _merged((*self._segments, _segment(first, [point.sparse for point in worded.values()])))
        families = [point.tree_kind or "" for point in worded.values()]
        for family in families:
            self._tree_codes.setdefault(family, len(self._tree_codes))
        kinds = [_CODES[point.kind] for point in worded.values()]
        roots = (point.is_root for point in worded.values())
        trees = [self._tree_codes[family] if root else -1 for family, root in zip(families, roots, strict=True)]
        with self._lock:
            alive = np.concatenate([self._alive, np.ones(len(worded), bool)])
            alive[[self._positions[row] for row in worded if row in self._positions]] = False
            self._alive = alive
            self._cached.clear()
            self._kinds = np.concatenate([self._kinds, np.array(kinds, np.uint8)])
            self._trees = np.concatenate([self._trees, np.array(trees, np.int16)])
            self._segments = segments
            self._rows.extend(worded)
            self._positions.update(zip(worded, range(first, first + len(worded)), strict=True))

    def drop(self, rows: Collection[UUID]) -> None:
        """Remove rows; unknown ones are ignored."""
        with self._lock:
            positions = [self._positions.pop(row) for row in rows if row in self._positions]
            if positions:
                self._alive = self._alive.copy()
                self._alive[positions] = False
                self._cached.clear()

    def scores(self, vector: SparseVector) -> Scores:
        """The scores of all points: the sum over terms of both weights and the term's rarity in this forest."""
        with self._lock:
            known = self._cached.get(vector)
            if known is not None:
                return known
            segments, count = self._segments, len(self._positions)
            points = _Points(
                self._alive, count, self._kinds, self._trees, self._rows, self._positions, self._tree_codes
            )
        numbers = np.array(vector.indices, np.uint32)
        found = [segment.slices(numbers) for segment in segments]
        terms: list[tuple[int, _Term]] = []
        for at, weight in enumerate(vector.values):
            here = [
                (segment, *one) for segment, own in zip(segments, found, strict=True) if (one := own[at]) is not None
            ]
            if not here:
                continue
            if count == len(points.alive):
                frequency = sum(where.stop - where.start for _, _, where in here)
            else:
                frequency = sum(
                    int(np.count_nonzero(points.alive[segment.positions[where]])) for segment, _, where in here
                )
            terms.append((frequency, _Term(np.float32(weight * rarity(frequency, count)), here)))
        made = Scores(points, *_divided(terms, count))
        with self._lock:
            if points.alive is self._alive:
                self._cached[vector] = made
                if len(self._cached) > CACHED_SCORES:
                    del self._cached[next(iter(self._cached))]
        return made


def _divided(terms: Sequence[tuple[int, _Term]], count: int) -> tuple[list[_Term], list[_Term]]:
    """The terms of a question, each with how many of ``count`` points hold it: the rare and the common ones."""
    left = COMMON_MOST * max((term.most for _, term in terms), default=0.0)
    rare: list[_Term] = []
    common: list[_Term] = []
    for frequency, term in sorted(terms, key=lambda each: -each[0]):
        left -= term.most
        (common if left >= 0.0 and frequency > max(COMMON * count, COMMON_FROM) else rare).append(term)
    return rare, common


def rarity(frequency: int, count: int) -> float:
    """The inverse document frequency of a term that ``frequency`` of ``count`` points hold, as Qdrant counts it."""
    return float(np.log((count - frequency + 0.5) / (frequency + 0.5) + 1.0))


def _segment(first: int, vectors: Sequence[SparseVector]) -> _Segment:
    """The postings of points with these vectors, whose positions begin at ``first``."""
    lengths = [len(vector.indices) for vector in vectors]
    terms = np.fromiter((index for vector in vectors for index in vector.indices), np.uint32, sum(lengths))
    weights = np.fromiter((value for vector in vectors for value in vector.values), np.float32, sum(lengths))
    return _by_term(terms, np.repeat(np.arange(first, first + len(vectors), dtype=np.int32), lengths), weights)


def _merged(segments: tuple[_Segment, ...]) -> tuple[_Segment, ...]:
    """The segments, those at the end made one as long as they are of like size."""
    merged, last = list(segments[:-1]), segments[-1]
    while merged and len(merged[-1].positions) <= MERGED_SIZE * len(last.positions):
        before = merged.pop()
        both = [np.repeat(segment.terms, np.diff(segment.starts)) for segment in (before, last)]
        last = _by_term(
            np.concatenate(both),
            np.concatenate([before.positions, last.positions]),
            np.concatenate([before.weights, last.weights]),
        )
    return (*merged, last)


def _by_term(terms: NDArray[np.uint32], positions: NDArray[np.int32], weights: NDArray[np.float32]) -> _Segment:
    order = np.argsort(terms, kind="stable")
    ordered = terms[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    by_term = weights[order]
    most = np.maximum.reduceat(by_term, starts)
    return _Segment(ordered[starts], np.append(starts, len(ordered)), positions[order], by_term, most)
