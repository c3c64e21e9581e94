"""In-memory inverted index of one forest: BM25 scores of all its points in one pass over the terms of a question."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, repeat
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from memforest_core.index.vector_index import Point, PointKind, SparseVector

MERGED_SIZE = 2
"""A segment is merged with the one before it while that has at most so many times its postings: so there are few."""
CACHED_SCORES = 8
"""Term vectors whose scores are cached, at 8 bytes a point: a recall needs the same scores twice."""
DEAD = -1

Group = tuple[PointKind, str | None]
"""The points of a kind that are no roots, or the roots of a family of trees among its nodes."""


def group_of(point: Point) -> Group:
    """The one group that a point is in."""
    return point.kind, point.tree_kind if point.is_root else None


@dataclass(frozen=True, slots=True)
class _Segment:
    """Postings by term: those of ``terms[n]`` are from ``starts[n]`` to ``starts[n + 1]``, by ascending position."""

    terms: NDArray[np.uint32]
    starts: NDArray[np.int64]
    positions: NDArray[np.int32]
    weights: NDArray[np.float32]

    def postings(self, terms: NDArray[np.uint32]) -> list[slice | None]:
        """Where the postings of each of these terms are."""
        at = np.minimum(np.searchsorted(self.terms, terms), len(self.terms) - 1)
        known, starts, ends = (self.terms[at] == terms).tolist(), self.starts[at].tolist(), self.starts[at + 1].tolist()
        found = zip(known, starts, ends, strict=True)
        return [slice(start, end) if there else None for there, start, end in found]


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of a forest's points by one vector of terms, as the points were at one time."""

    by_position: NDArray[np.float64]
    groups: NDArray[np.int16]
    codes: Mapping[Group, int]
    rows: Sequence[UUID]
    positions: Mapping[UUID, int]

    def best(self, kind: PointKind, n: int, roots_of: Sequence[str] | None = None) -> list[tuple[UUID, float]]:
        """The best ``n`` of a kind with any of the terms, in no order; ``roots_of``: roots alone, of these families of
        trees (of all when it is empty)."""
        at = np.flatnonzero(self.by_position > 0.0)
        at = at[self._wanted(kind, roots_of)[self.groups[at]]]
        scores = self.by_position[at]
        if len(at) > n:
            most = np.argpartition(scores, len(at) - n)[len(at) - n :]
            at, scores = at[most], scores[most]
        return [(self.rows[position], score) for position, score in zip(at.tolist(), scores.tolist(), strict=True)]

    def of(self, kind: PointKind, rows: list[UUID]) -> tuple[dict[UUID, float], list[UUID]]:
        """The scores of those of these points that are of this kind and have any of the terms; and unknown rows."""
        # A position behind the last one is that of a point which came since.
        most = len(self.by_position)
        at = np.fromiter(map(self.positions.get, rows, repeat(most)), np.intp, len(rows))
        unknown: list[UUID] = []
        if (new := at >= most).any():
            unknown, rows, at = list(compress(rows, new)), list(compress(rows, ~new)), at[~new]
        scores = self.by_position[at]
        meant = self._wanted(kind, None)[self.groups[at]] & (scores > 0.0)
        return dict(zip(compress(rows, meant), scores[meant].tolist(), strict=True)), unknown

    def _wanted(self, kind: PointKind, roots_of: Sequence[str] | None) -> NDArray[np.bool_]:
        """Whether the group of each code is wanted; the last one is that of dead points."""
        wanted = np.zeros(len(self.codes) + 1, bool)
        for (own, family), code in self.codes.items():
            of_family = roots_of is None or (family is not None and (not roots_of or family in roots_of))
            wanted[code] = own is kind and of_family
        return wanted


class InvertedIndex:
    """Terms of points by the ids of their rows. Thread-safe for many readers and one writer.

    Arrays are never changed. A row that was replaced or dropped is dead at its old position; new ones come behind.
    """

    def __init__(self) -> None:
        self._rows: list[UUID] = []
        self._positions: dict[UUID, int] = {}
        self._groups: NDArray[np.int16] = np.zeros(0, np.int16)
        """The code of each point's group, ``DEAD`` of those that were replaced or dropped."""
        self._codes: dict[Group, int] = {}
        self._segments: tuple[_Segment, ...] = ()
        self._cached: dict[SparseVector, Scores] = {}
        """The last scores, until something is added or dropped."""
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._positions)

    @property
    def needs_rebuild(self) -> bool:
        """Whether most of what was ever added was replaced or dropped."""
        return len(self._rows) > 2 * len(self._positions)

    def add(self, points: Iterable[Point]) -> None:
        """Add or replace points. One without terms has no score by words and is left out, as the engine does."""
        every = {point.id: point for point in points}
        worded = {row: point for row, point in every.items() if point.sparse.indices}
        self.drop(every)
        if not worded:
            return
        first = len(self._rows)
        segments = _merged((*self._segments, _segment(first, [point.sparse for point in worded.values()])))
        with self._lock:
            codes = [self._codes.setdefault(group_of(point), len(self._codes)) for point in worded.values()]
            self._groups = np.concatenate([self._groups, np.array(codes, np.int16)])
            self._segments = segments
            self._rows.extend(worded)
            self._positions.update(zip(worded, range(first, first + len(worded)), strict=True))
            self._cached.clear()

    def drop(self, rows: Iterable[UUID]) -> None:
        """Remove rows; unknown ones are ignored."""
        with self._lock:
            positions = [self._positions.pop(row) for row in rows if row in self._positions]
            if positions:
                self._groups = self._groups.copy()
                self._groups[positions] = DEAD
                self._cached.clear()

    def scores(self, vector: SparseVector) -> Scores:
        """The scores of all points: the sum over terms of both weights and the term's rarity in this forest."""
        with self._lock:
            known = self._cached.get(vector)
            if known is not None:
                return known
            segments, groups, codes, count = self._segments, self._groups, dict(self._codes), len(self._positions)
        made = Scores(_summed(segments, groups, count, vector), groups, codes, self._rows, self._positions)
        with self._lock:
            if groups is self._groups:
                self._cached[vector] = made
                if len(self._cached) > CACHED_SCORES:
                    del self._cached[next(iter(self._cached))]
        return made


def _summed(
    segments: Collection[_Segment], groups: NDArray[np.int16], count: int, vector: SparseVector
) -> NDArray[np.float64]:
    """The score of each position, 0 of the dead; ``count`` of them are alive."""
    alive = groups != DEAD
    numbers = np.array(vector.indices, np.uint32)
    found = [(segment, segment.postings(numbers)) for segment in segments]
    positions: list[NDArray[np.int32]] = []
    added: list[NDArray[np.float32]] = []
    for at, weight in enumerate(vector.values):
        own = [(segment.positions[here], segment.weights[here]) for segment, where in found if (here := where[at])]
        if not own:
            continue
        if count == len(groups):
            frequency = sum(len(each) for each, _ in own)
        else:
            frequency = sum(int(np.count_nonzero(alive[each])) for each, _ in own)
        factor = np.float32(weight * rarity(frequency, count))
        positions += (each for each, _ in own)
        added += (factor * weights for _, weights in own)
    if not positions:
        return np.zeros(len(groups))
    scores = np.bincount(np.concatenate(positions), np.concatenate(added), len(groups)).astype(np.float64, copy=False)
    scores[~alive] = 0.0
    return scores


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
        both = (merged.pop(), last)
        terms = np.concatenate([np.repeat(segment.terms, np.diff(segment.starts)) for segment in both])
        positions = np.concatenate([segment.positions for segment in both])
        last = _by_term(terms, positions, np.concatenate([segment.weights for segment in both]))
    return (*merged, last)


def _by_term(terms: NDArray[np.uint32], positions: NDArray[np.int32], weights: NDArray[np.float32]) -> _Segment:
    order = np.argsort(terms, kind="stable")
    ordered = terms[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    return _Segment(ordered[starts], np.append(starts, len(ordered)), positions[order], weights[order])
