"""Graphs of the large forests that are asked again and again, built and brought up to date by a thread of its own."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple, Protocol
from uuid import UUID

import numpy as np
import structlog
from numpy.typing import NDArray

from memforest_core.errors import MemForestError
from memforest_core.index.qdrant.graph import Graph
from memforest_core.index.qdrant.kept import Group
from memforest_core.index.vector_index import DenseVector, PointKey, PointKind

log = structlog.get_logger(__name__)

GRAPH_FROM = 5_000
"""Points of one kind in a forest. Measured: the engine takes 2 ms for so many and 30 ms for 100,000, a graph 1 ms."""
ASKED_BEFORE = 20
"""Searches of a forest before its graph is built, so that a process that asks once builds none."""
MOST_POINTS = 300_000
"""In all graphs of a process, some 530 MB: vectors in half precision, their links, and the ids of rows."""
MOST_KNOWN = 10_000
"""Forests and kinds whose searches are counted; those that were searched longest ago are forgotten."""
MOST_CHANGED = 1_000
"""Changed rows that a search scores by themselves; with more the engine is asked until the graph has taken them in."""
PORTION = 64
"""Vectors that are placed at once, in some 30 ms; searches of that graph wait for it."""


class Vectors(Protocol):
    """Where the vectors are: the engine."""

    def counted(self, group: Group) -> int:
        """How many points a forest has of this kind. Raises IndexUnavailable."""

    def pages(self, group: Group) -> Iterator[Mapping[UUID, DenseVector]]:
        """All of them, in pages. Raises IndexUnavailable."""

    def named(self, group: Group, rows: Sequence[UUID]) -> Mapping[UUID, DenseVector]:
        """Those of these that exist. Raises IndexUnavailable."""


class Near(NamedTuple):
    """What a graph finds: rows with their cosines, and rows that changed since it took them in, to be scored beside."""

    found: list[tuple[UUID, float]]
    changed: set[UUID]


@dataclass(slots=True)
class _Known:
    """What is known of one forest's points of one kind."""

    asked: int = 0
    tended: bool = False
    """Whether a thread is building the graph or taking changes in."""
    graph: Graph | None = None
    changed: dict[UUID, int] = field(default_factory=dict)
    """Rows that were written or deleted and that the graph has not taken in, by the number of the change; noted from
    before the first page is read."""


class Graphs:
    """Thread-safe. Who writes to the index calls ``forget`` after each write and before it is acknowledged.

    A graph hides no change: rows that changed since it took them in are scored beside what it finds.
    """

    def __init__(self, vectors: Vectors, dimension: int, least: int) -> None:
        """Points of one kind in a forest get a graph from ``least`` of them on, at most MOST_POINTS; 0 for never."""
        self._vectors, self._dimension, self._least = vectors, dimension, least
        self._known: OrderedDict[Group, _Known] = OrderedDict()
        self._changes = 0
        self._lock = threading.Lock()
        self._building = threading.Lock()
        self._closed = threading.Event()

    def near(self, group: Group, vector: NDArray[np.float32], n: int) -> Near | None:
        """About the nearest ``n`` rows, and what changed meanwhile; None when the engine has to be asked."""
        if self._least <= 0:
            return None
        with self._lock:
            known = self._known.setdefault(group, _Known())
            self._known.move_to_end(group)
            if len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)
            known.asked += 1
            graph, changed = known.graph, set(known.changed)
            if not known.tended and (changed if graph is not None else known.asked >= ASKED_BEFORE):
                known.tended = True
                threading.Thread(target=self._tend, args=(group, known), name="memforest-graph", daemon=True).start()
        if graph is None or len(changed) > MOST_CHANGED:
            return None
        found = graph.near(vector, n + len(changed)) if changed else graph.near(vector, n)
        return Near([(row, cosine) for row, cosine in found if row not in changed], changed)

    def forget(self, keys: Iterable[PointKey]) -> None:
        """Note what was written or deleted."""
        with self._lock:
            self._changes += 1
            for key in keys:
                for kind in PointKind:
                    known = self._known.get((key.tenant, key.forest_id, kind))
                    if known is not None and (known.tended or known.graph is not None):
                        known.changed[key.id] = self._changes

    @property
    def tending(self) -> bool:
        """Whether a thread is building a graph or taking changes in."""
        with self._lock:
            return any(known.tended for known in self._known.values())

    def close(self) -> None:
        """End the threads and drop all graphs."""
        self._closed.set()
        with self._building, self._lock:
            self._known.clear()

    def _tend(self, group: Group, known: _Known) -> None:
        """Build a forest's graph, or take in what changed; one thread at a time."""
        try:
            with self._building:
                graph = known.graph
                if graph is None or graph.worn:
                    self._build(group, known)
                else:
                    self._take_in(group, known, graph)
        except MemForestError as error:
            log.warning("graph_not_built", code=error.code)
        finally:
            with self._lock:
                known.tended = False
                if known.graph is None:
                    known.asked = 0
                    known.changed.clear()

    def _build(self, group: Group, known: _Known) -> None:
        if not self._least <= self._vectors.counted(group) <= MOST_POINTS:
            known.graph = None
            return
        with self._lock:
            begun = self._changes
        graph = Graph(self._dimension)
        for page in self._vectors.pages(group):
            for portion in _portions(page):
                if self._closed.is_set():
                    return
                graph.add(portion)
        with self._lock:
            known.graph = graph
            # What changed before the first page was read is in the pages.
            known.changed = {row: number for row, number in known.changed.items() if number > begun}
            self._drop_oldest(known)

    def _take_in(self, group: Group, known: _Known, graph: Graph) -> None:
        """What changed is read again, so that it does not matter how often or in which order it was written."""
        while not self._closed.is_set():
            with self._lock:
                changed = dict(islice(known.changed.items(), PORTION))
            if not changed:
                return
            there = self._vectors.named(group, list(changed))
            graph.drop([row for row in changed if row not in there])
            graph.add(there)
            with self._lock:
                for row, number in changed.items():
                    if known.changed.get(row) == number:
                        del known.changed[row]

    def _drop_oldest(self, newest: _Known) -> None:
        """Keep within the bound: graphs that were asked longest ago go."""
        held = sum(len(known.graph) for known in self._known.values() if known.graph is not None)
        for known in self._known.values():
            if held <= MOST_POINTS:
                return
            if known.graph is not None and known is not newest:
                held -= len(known.graph)
                known.graph, known.asked, known.changed = None, 0, {}


def _portions(page: Mapping[UUID, DenseVector]) -> Iterator[dict[UUID, DenseVector]]:
    rows = iter(page.items())
    while portion := dict(islice(rows, PORTION)):
        yield portion
