"""In-memory indexes of the forests that are searched often: built and refreshed by a background thread."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple, Protocol
from uuid import UUID

import numpy as np
import structlog
from numpy.typing import NDArray

from memforest_core.domain.ids import ForestId, TenantId, TreeKind
from memforest_core.errors import MemForestError
from memforest_core.index.memory.inverted_index import InvertedIndex
from memforest_core.index.memory.near_vectors import GROWN, Graph, Matrix
from memforest_core.index.qdrant.point_encoding import as_compared, engine_limit, only_named
from memforest_core.index.vector_index import Hits, IndexFilter, IndexQuery, Point, PointKey, PointKind, SparseVector

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
        self._vectors: dict[Group, Matrix | Graph] = {}

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

    def _new(self, group: Group) -> Matrix | Graph:
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


log = structlog.get_logger(__name__)

SEARCHES_BEFORE = 60
"""Searches of a forest before its index is built, so that a process with few questions builds nothing: a recall makes
some ten."""
LEAST_POINTS = 100
"""Of a forest with an index. Each search costs the engine 1 ms, however few points there are."""
MOST_POINTS = 300_000
"""In all in-memory indexes of a process."""
MOST_KNOWN = 10_000
"""Forests whose searches are counted; those that were searched longest ago are forgotten."""
MOST_CHANGED, CHANGED_PART = 1_000, 10
"""Changed rows that the engine scores for a search, and of how many points one may have changed; with more the engine
answers alone until the index is refreshed. Rarity of words is that of before until then."""
PORTION = 64
"""Points that are added in one step; searches of that forest wait for it."""

Forest = tuple[TenantId, ForestId]


class EngineReader(Protocol):
    """Reads of the stored points. All raise IndexUnavailable."""

    def count(self, tenant: TenantId, forest_id: ForestId, kind: PointKind) -> int:
        """How many points of a kind a forest has."""

    def pages(self, tenant: TenantId, forest_id: ForestId) -> Iterator[Sequence[Point]]:
        """All points of a forest."""

    def named(self, tenant: TenantId, forest_id: ForestId, rows: Sequence[UUID]) -> Sequence[Point]:
        """Those of these points that exist."""


class Answer(NamedTuple):
    """Hits, and the query for the rows that the engine has to score."""

    hits: Hits
    rest: IndexQuery | None = None


@dataclass(slots=True)
class _Known:
    """The index of one forest and its upkeep."""

    searches: int = 0
    refreshing: bool = False
    """Whether a thread builds or refreshes the index."""
    index: ForestIndex | None = None
    changed: dict[UUID, tuple[int, PointKind | None]] = field(default_factory=dict)
    """Rows that were written or deleted and are not in the index yet, by the number of the change and their kind, if it
    is known; noted from before the first page is read."""


class InMemoryIndexes:
    """Answers of one vector index. Thread-safe.

    Writers to the index call ``forget`` after each write and before it is acknowledged: no answer hides a change.
    """

    def __init__(self, reader: EngineReader, model: str, dimension: int) -> None:
        self._reader, self._model, self._dimension = reader, model, dimension
        self._known: OrderedDict[Forest, _Known] = OrderedDict()
        self._changes = 0
        self._lock = threading.Lock()
        self._building = threading.Lock()
        self._closed = threading.Event()

    def answer(self, query: IndexQuery) -> Answer | None:
        """The hits of a query; None when the engine has to answer all of it."""
        if not can_answer(query):
            return None
        [kind] = query.filter.kinds
        found = self._find((query.filter.tenant, query.filter.forest_id), kind)
        if found is None:
            return None
        index, changed = found
        vector = query.vector
        unit = np.empty(0, np.float32)
        if not isinstance(vector, SparseVector):
            unit = as_compared(vector, self._model, self._dimension)
        hits, rest = index.search(query, unit, changed)
        if not rest:
            return Answer(hits)
        return Answer(hits, replace(query, filter=replace(query.filter, ids=tuple(rest)), limit=len(rest)))

    def forget(self, keys: Iterable[PointKey], kinds: Mapping[UUID, PointKind] | None = None) -> None:
        """Note rows that were written, of these ``kinds``, or deleted. An index of which most changed is dropped at
        once, as when a forest is deleted."""
        with self._lock:
            self._changes += 1
            touched = set[Forest]()
            for key in keys:
                forest = (key.tenant, key.forest_id)
                known = self._known.get(forest)
                if known is not None and (known.refreshing or known.index is not None):
                    known.changed[key.id] = self._changes, (kinds or {}).get(key.id)
                    touched.add(forest)
            for known in (self._known[forest] for forest in touched):
                # Of a small forest a few changes say nothing.
                points = 0 if known.index is None else len(known.index)
                if not known.refreshing and 2 * len(known.changed) > max(points, MOST_CHANGED):
                    known.index, known.changed = None, {}

    @property
    def refreshing(self) -> bool:
        """Whether a thread builds or refreshes an index."""
        with self._lock:
            return any(known.refreshing for known in self._known.values())

    def close(self) -> None:
        """End the threads and drop everything."""
        self._closed.set()
        with self._building, self._lock:
            self._known.clear()

    def _find(self, forest: Forest, kind: PointKind) -> tuple[ForestIndex, Collection[UUID]] | None:
        """The index of a forest that is searched, and which rows of a kind changed meanwhile, unless these are too
        many."""
        with self._lock:
            known = self._known.setdefault(forest, _Known())
            self._known.move_to_end(forest)
            if len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)
            known.searches += 1
            index, all_changed = known.index, len(known.changed)
            changed = {row for row, (_, of) in known.changed.items() if of is None or of is kind}
            if not known.refreshing and (all_changed if index is not None else known.searches >= SEARCHES_BEFORE):
                known.refreshing = True
                threading.Thread(
                    target=self._refresh, args=(forest, known), name="memforest-index-refresh", daemon=True
                ).start()
        if index is None or all_changed > min(MOST_CHANGED, len(index) // CHANGED_PART):
            return None
        return index, changed

    def _refresh(self, forest: Forest, known: _Known) -> None:
        """Build the index of a forest, or read again what changed; one thread at a time."""
        try:
            with self._building:
                if known.index is None or known.index.needs_rebuild:
                    self._build(forest, known)
                else:
                    self._read_changes(forest, known, known.index)
        except MemForestError as error:
            log.warning("in_memory_index_not_built", code=error.code)
        finally:
            with self._lock:
                known.refreshing = False
                if known.index is None:
                    known.searches = 0
                    known.changed.clear()

    def _build(self, forest: Forest, known: _Known) -> None:
        counts = {kind: self._reader.count(*forest, kind) for kind in PointKind}
        if not LEAST_POINTS <= sum(counts.values()) <= MOST_POINTS:
            known.index = None
            return
        with self._lock:
            begun = self._changes
        index = ForestIndex(self._dimension, counts)
        for page in self._reader.pages(*forest):
            for at in range(0, len(page), PORTION):
                if self._closed.is_set():
                    return
                index.add(page[at : at + PORTION])
        with self._lock:
            known.index = index
            # What changed before the first page was read is in the pages.
            known.changed = {row: change for row, change in known.changed.items() if change[0] > begun}
            self._evict(known)

    def _read_changes(self, forest: Forest, known: _Known, index: ForestIndex) -> None:
        """Changed rows are read, so that it does not matter how often or in which order they were written."""
        while not self._closed.is_set():
            with self._lock:
                changed = dict(islice(known.changed.items(), PORTION))
            if not changed:
                return
            points = self._reader.named(*forest, list(changed))
            index.drop(changed.keys() - {point.id for point in points})
            index.add(points)
            with self._lock:
                for row, change in changed.items():
                    if known.changed.get(row) == change:
                        del known.changed[row]

    def _evict(self, newest: _Known) -> None:
        """Drop the indexes that were searched longest ago, within the bound."""
        total = sum(len(known.index) for known in self._known.values() if known.index is not None)
        for known in self._known.values():
            if total <= MOST_POINTS:
                return
            if known.index is not None and known is not newest:
                total -= len(known.index)
                known.index, known.searches, known.changed = None, 0, {}
