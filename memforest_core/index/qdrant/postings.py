"""An inverted index of one forest's points in memory: BM25 scores of all of them at once, by sums over few rows."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress, repeat
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
"""Vectors of terms whose scores are kept, at 8 to 32 bytes a point: a recall asks twice for the same."""

COMMON, COMMON_FROM = 1 / 16, 1_000
"""A term is common that more than this share of the points and more than so many points hold: it says little of a
point, and takes most of the time if it is added to all of them."""
COMMON_MOST = 0.5
"""What common terms may give a point together, by what the term that gives most may: the best points have more."""


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
    found: Sequence[tuple[_Part, int, slice]]
    """The parts that have it, as which of their terms, and where its postings are."""

    @property
    def most(self) -> float:
        """What it adds to a score at most."""
        return max((float(self.factor * part.most[number]) for part, number, _ in self.found), default=0.0)

    def shares(self) -> Iterator[tuple[NDArray[np.int32], NDArray[np.float32]]]:
        """The places of the points that hold it, and what it adds to the score of each."""
        for part, _, where in self.found:
            yield part.places[where], self.factor * part.weights[where]

    def add_to(self, scores: NDArray[np.float64], at: NDArray[np.intp]) -> None:
        """Add to the scores of the points at these places."""
        for part, _, where in self.found:
            places = part.places[where]
            near = np.minimum(np.searchsorted(places, at), len(places) - 1)
            scores += np.where(places[near] == at, self.factor * part.weights[where][near], np.float32(0.0))


@dataclass(frozen=True, slots=True)
class _Points:
    """What tells the points of a forest apart, by their places."""

    alive: NDArray[np.bool_]
    living: int
    """How many are alive."""
    kinds: NDArray[np.uint8]
    trees: NDArray[np.int16]
    rows: Sequence[UUID]
    places: Mapping[UUID, int]
    tree_codes: Mapping[str, int]

    def of(self, at: NDArray[np.intp], kind: PointKind, roots_of: Sequence[str] | None) -> NDArray[np.intp]:
        """Those at these places that are of a kind, and roots of these families where they are named."""
        at = at[self.kinds[at] == _CODES[kind]]
        if roots_of is not None:
            codes = [self.tree_codes[name] for name in roots_of if name in self.tree_codes]
            at = at[np.isin(self.trees[at], codes) if roots_of else self.trees[at] >= 0]
        return at


class Scored:
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
        """The best ``n`` of a kind that hold any of the terms, in no order; ``roots_of``: roots alone, of these
        families of trees (of all when it is empty)."""
        found = self._settled(kind, n, roots_of) if self._common else None
        if found is None:
            at = self._points.of(self._with_any, kind, roots_of)
            found = _most(at, self._by_all[at], n)
        at, scores = found
        return [(self._points.rows[place], score) for place, score in zip(at.tolist(), scores.tolist(), strict=True)]

    def of(self, kind: PointKind, rows: list[UUID]) -> tuple[dict[UUID, float], list[UUID]]:
        """The scores of those of these points that are of this kind and hold any of the terms; and those that are not
        known here."""
        # A place behind the last one is that of a point which came since.
        most = len(self._by_rare)
        at = np.fromiter(map(self._points.places.get, rows, repeat(most)), np.intp, len(rows))
        unknown: list[UUID] = []
        if (new := at >= most).any():
            unknown, rows, at = list(compress(rows, new)), list(compress(rows, ~new)), at[~new]
        scores = self._scores(at)
        told = (self._points.kinds[at] == _CODES[kind]) & (scores > 0.0)
        return dict(zip(compress(rows, told), scores[told].tolist(), strict=True)), unknown

    def _settled(
        self, kind: PointKind, n: int, roots_of: Sequence[str] | None
    ) -> tuple[NDArray[np.intp], NDArray[np.float64]] | None:
        """The places and scores of the best ``n``, if they are ahead of all points without a rare term."""
        at = self._points.of(self._with_rare, kind, roots_of)
        if len(at) < n:
            return None
        beyond = sum(term.most for term in self._common) * _ROUNDED
        by_rare = self._by_rare[at]
        # What common terms give can't lift a point that lacks more than that.
        at = at[by_rare >= np.partition(by_rare, len(at) - n)[len(at) - n] - beyond]
        at, scores = _most(at, self._scores(at), n)
        return (at, scores) if scores.min() > beyond else None

    def _scores(self, at: NDArray[np.intp]) -> NDArray[np.float64]:
        """The scores of the points at these places."""
        scores = self._by_rare[at]
        for term in self._common:
            term.add_to(scores, at)
        return scores


_ROUNDED = 1.0 + 1e-6
"""Sums in another order differ by less."""


def _most(at: NDArray[np.intp], scores: NDArray[np.float64], n: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """The ``n`` of these places with the greatest scores, in no order."""
    if len(at) <= n:
        return at, scores
    most = np.argpartition(scores, len(at) - n)[len(at) - n :]
    return at[most], scores[most]


def _summed(points: _Points, terms: Iterable[_Term]) -> NDArray[np.float64]:
    """What these terms give to each point of a forest; nothing to those that are dead."""
    shares = [each for term in terms for each in term.shares()]
    if not shares:
        return np.zeros(len(points.alive))
    places, added = (np.concatenate(each) for each in zip(*shares, strict=True))
    scores = np.bincount(places, added, len(points.alive)).astype(np.float64, copy=False)
    if points.living < len(points.alive):
        scores[~points.alive] = 0.0
    return scores


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
            parts, count = self._parts, len(self._places)
            points = _Points(self._alive, count, self._kinds, self._trees, self._rows, self._places, self._tree_codes)
        numbers = np.array(vector.indices, np.uint32)
        found = [part.slices(numbers) for part in parts]
        terms: list[tuple[int, _Term]] = []
        for at, weight in enumerate(vector.values):
            here = [(part, *one) for part, own in zip(parts, found, strict=True) if (one := own[at]) is not None]
            if not here:
                continue
            if count == len(points.alive):
                holding = sum(where.stop - where.start for _, _, where in here)
            else:
                holding = sum(int(np.count_nonzero(points.alive[part.places[where]])) for part, _, where in here)
            terms.append((holding, _Term(np.float32(weight * rarity(holding, count)), here)))
        made = Scored(points, *_divided(terms, count))
        with self._lock:
            if points.alive is self._alive:
                self._scored[vector] = made
                if len(self._scored) > KEPT_SCORES:
                    del self._scored[next(iter(self._scored))]
        return made


def _divided(terms: Sequence[tuple[int, _Term]], count: int) -> tuple[list[_Term], list[_Term]]:
    """The terms of a question, each with how many of ``count`` points hold it: the rare and the common ones."""
    left = COMMON_MOST * max((term.most for _, term in terms), default=0.0)
    rare: list[_Term] = []
    common: list[_Term] = []
    for holding, term in sorted(terms, key=lambda each: -each[0]):
        left -= term.most
        (common if left >= 0.0 and holding > max(COMMON * count, COMMON_FROM) else rare).append(term)
    return rare, common


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
    by_term = weights[order]
    most = np.maximum.reduceat(by_term, starts)
    return _Part(ordered[starts], np.append(starts, len(ordered)), places[order], by_term, most)
