"""In-memory indexes of the forests that are searched often: built and refreshed by a background thread."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Protocol
from uuid import UUID

import numpy as np
import structlog
from numpy.typing import NDArray

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.errors import MemForestError
from memforest_core.index.memory.forest_index import ForestIndex, can_answer
from memforest_core.index.qdrant.point_encoding import as_compared
from memforest_core.index.vector_index import DenseVector, Hits, IndexQuery, Point, PointKey, SparseVector

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


class StoredPoints(Protocol):
    """Reads of the stored points. All raise IndexUnavailable."""

    def count(self, tenant: TenantId, forest_id: ForestId | None = None) -> int:
        """How many points a forest has."""

    def pages(self, tenant: TenantId, forest_id: ForestId) -> Iterator[Sequence[Point]]:
        """All points of a forest."""

    def named(self, tenant: TenantId, forest_id: ForestId, rows: Sequence[UUID]) -> Sequence[Point]:
        """Those of these points that exist."""


@dataclass(slots=True)
class _Known:
    """The index of one forest and its upkeep."""

    searches: int = 0
    refreshing: bool = False
    """Whether a thread builds or refreshes the index."""
    index: ForestIndex | None = None
    changed: dict[UUID, int] = field(default_factory=dict)
    """Rows that were written or deleted and are not in the index yet, by the number of the change; noted from before
    the first page is read."""

    def forget(self) -> None:
        """Drop the index: searches count again."""
        self.index, self.searches, self.changed = None, 0, {}


class InMemoryIndexes:
    """Answers of one vector index. Thread-safe.

    Writers to the index call ``forget`` after each write and before it is acknowledged: no answer hides a change.
    """

    def __init__(self, stored: StoredPoints, model: str, dimension: int) -> None:
        self._stored, self._model, self._dimension = stored, model, dimension
        self._known: OrderedDict[Forest, _Known] = OrderedDict()
        self._compared: tuple[DenseVector | None, NDArray[np.float32]] = None, np.empty(0, np.float32)
        """The last vector, and as it is compared."""
        self._changes = 0
        self._lock = threading.Lock()
        self._building = threading.Lock()
        self._closed = threading.Event()

    def answer(self, query: IndexQuery) -> tuple[Hits, IndexQuery | None]:
        """Hits of a query, and the query that the engine has to answer in addition: for some rows, or all of it."""
        found = self._find((query.filter.tenant, query.filter.forest_id)) if can_answer(query) else None
        if found is None:
            return Hits.of(()), query
        index, changed = found
        unit = np.empty(0, np.float32)
        if not isinstance(query.vector, SparseVector):
            # The queries of a question have one vector.
            given, unit = self._compared
            if given is not query.vector:
                unit = as_compared(query.vector, self._model, self._dimension)
                self._compared = query.vector, unit
        hits, rest = index.search(query, unit, changed)
        named = replace(query, filter=replace(query.filter, ids=tuple(rest)), limit=len(rest)) if rest else None
        return hits, named

    def forget(self, keys: Iterable[PointKey]) -> None:
        """Note rows that were written or deleted. An index of which most changed is dropped at once, as when a forest
        is deleted."""
        with self._lock:
            self._changes += 1
            for key in keys:
                known = self._known.get((key.tenant, key.forest_id))
                if known is not None and (known.refreshing or known.index is not None):
                    known.changed[key.id] = self._changes
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

    def _find(self, forest: Forest) -> tuple[ForestIndex, Collection[UUID]] | None:
        """The index of a forest that is searched, and which rows changed meanwhile, unless these are too many."""
        with self._lock:
            known = self._known.setdefault(forest, _Known())
            self._known.move_to_end(forest)
            if len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)
            known.searches += 1
            index, changed = known.index, frozenset(known.changed)
            if not known.refreshing and (changed if index is not None else known.searches >= SEARCHES_BEFORE):
                known.refreshing = True
                threading.Thread(
                    target=self._refresh, args=(forest, known), name="memforest-index-refresh", daemon=True
                ).start()
        if index is None or len(changed) > min(MOST_CHANGED, len(index) // CHANGED_PART):
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
                    known.forget()

    def _build(self, forest: Forest, known: _Known) -> None:
        if not LEAST_POINTS <= self._stored.count(*forest) <= MOST_POINTS:
            known.index = None
            return
        with self._lock:
            begun = self._changes
        index = ForestIndex(self._dimension)
        for page in self._stored.pages(*forest):
            for at in range(0, len(page), PORTION):
                if self._closed.is_set():
                    return
                index.add(page[at : at + PORTION])
        with self._lock:
            known.index = index
            # What changed before the first page was read is in the pages.
            known.changed = {row: change for row, change in known.changed.items() if change > begun}
            self._evict(known)

    def _read_changes(self, forest: Forest, known: _Known, index: ForestIndex) -> None:
        """Changed rows are read, so that it does not matter how often or in which order they were written."""
        while not self._closed.is_set():
            with self._lock:
                changed = dict(islice(known.changed.items(), PORTION))
            if not changed:
                return
            points = self._stored.named(*forest, list(changed))
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
                known.forget()
