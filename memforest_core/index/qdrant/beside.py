"""What answers searches beside the embedded engine, which compares a question with every point: kept vectors, matrices
and graphs of near ones, inverted indexes of words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, TypeVar
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.domain.scopes import TreeKind
from memforest_core.index.qdrant.engine_reads import EngineReads
from memforest_core.index.qdrant.graph import Graph
from memforest_core.index.qdrant.kept import KeptVectors
from memforest_core.index.qdrant.matrix import Matrix
from memforest_core.index.qdrant.points import as_compared, asked_limit, only_named
from memforest_core.index.qdrant.postings import Postings
from memforest_core.index.qdrant.tended import MOST_POINTS, Found, Tended
from memforest_core.index.vector_index import (
    DenseVector,
    Hits,
    IndexFilter,
    IndexQuery,
    PointKey,
    PointKind,
    SparseVector,
)

Content = TypeVar("Content")

BESIDE_FROM = 100
"""Points of a forest, or of one kind in it. Each search costs the engine 1 ms, however few points there are."""
GRAPH_FROM = 5_000
"""Measured: the engine takes 2 ms for the vectors nearest among so many and 30 ms among 100,000, a product with all of
them 0.5 and 18 ms, a graph 1 ms."""


class Answer(NamedTuple):
    """Hits, and what the engine has to be asked besides: rows that changed and were not taken in yet."""

    hits: Hits
    rest: IndexQuery | None = None


class Beside:
    """Answers of one index. Thread-safe.

    Who writes to the index calls ``forget`` after each write and before it is acknowledged: no answer hides a change.
    """

    def __init__(self, reads: EngineReads, model: str, dimension: int, graph_from: int) -> None:
        """Near vectors are found by a product with all of a group up to ``graph_from`` points, by a graph above; with 0
        nothing but vectors that were asked for by their ids is kept."""
        self._reads, self._model, self._dimension = reads, model, dimension
        self._kept = KeptVectors(dimension)
        least = min(BESIDE_FROM, graph_from)

        def near(group: Group, points: int) -> Matrix | Graph:
            if group.named_only:
                return Matrix(dimension, MOST_POINTS)
            return Graph(dimension) if points >= graph_from else Matrix(dimension, graph_from)

        vectors = _Source(reads, reads.vectors, reads.vectors_of)
        self._vectors = Tended(vectors, near, least)
        words = _Source(reads, reads.words, reads.words_of)
        self._words = Tended(words, lambda _group, _points: Postings(), least)

    def answer(self, query: IndexQuery) -> Answer | None:
        """The hits of a query, or None when the engine has to be asked all of it."""
        if isinstance(query.vector, SparseVector):
            return self._worded(query, query.vector)
        if only_named(query):
            return Answer(self._products(query.filter, query.vector))
        return self._near(query, query.vector)

    def forget(self, keys: Sequence[PointKey], kinds: Mapping[UUID, PointKind] | None = None) -> None:
        """Note what was written or deleted; ``kinds`` of what was written. A row is of one kind for ever."""
        of_rows = kinds or {}
        self._kept.forget(keys)
        self._vectors.forget((group, key.id) for key in keys for group in _holding(key, of_rows.get(key.id)))
        self._words.forget((Group(key.tenant, key.forest_id), key.id) for key in keys)

    @property
    def tending(self) -> bool:
        """Whether something is being built, or takes in what changed."""
        return self._vectors.tending or self._words.tending

    def close(self) -> None:
        """End what is being built."""
        self._vectors.close()
        self._words.close()

    def _near(self, query: IndexQuery, asked: DenseVector) -> Answer | None:
        """The best hits among the vectors that are kept; None when they are not, or not by the query's bounds."""
        kept = self._kept_for(query.filter)
        if kept is None:
            return None
        unit = as_compared(asked, self._model, self._dimension)
        [kind] = query.filter.kinds
        changed = {row for found in kept for row in found.changed}
        n = asked_limit(query) + len(changed)
        near = [one for found in kept for one in found.kept.near(unit, n)]
        told = [one for one in near if one[0] not in changed] if changed else near
        return Answer(best(kind, told, query), _asking(query, list(changed)))

    def _kept_for(self, wanted: IndexFilter) -> list[Found[Matrix | Graph]] | None:
        """What is kept that together holds what a filter lets through."""
        if not _of_kind_or_roots(wanted):
            return None
        families: Sequence[str | None] = (None,)
        if wanted.roots_only:
            families = wanted.tree_kinds or tuple(kind.value for kind in TreeKind)
        [kind] = wanted.kinds
        found = [self._vectors.find(Group(wanted.tenant, wanted.forest_id, kind, family)) for family in families]
        there = [each for each in found if each is not None]
        return there if len(there) == len(found) else None

    def _products(self, wanted: IndexFilter, asked: DenseVector) -> Hits:
        """The cosines of points that are named by their ids: of those in a matrix or graph from there, of others by
        kept vectors; what is nowhere is read and kept."""
        unit = as_compared(asked, self._model, self._dimension)
        [kind] = wanted.kinds
        rows = list(wanted.ids or ())
        cosines: dict[UUID, float] = {}
        lacking = rows
        for group in _of_kind(wanted.tenant, wanted.forest_id, kind):
            if lacking:
                cosines |= self._cosines_beside(group, lacking, unit)
                lacking = [row for row in rows if row not in cosines]
        if lacking:
            cosines |= self._cosines_kept(wanted, lacking, unit)
        return Hits.of_kind(kind, list(cosines), list(cosines.values()))

    def _cosines_beside(self, group: Group, rows: Sequence[UUID], unit: NDArray[np.float32]) -> dict[UUID, float]:
        """The cosines of those of these rows that are in the matrix or graph of a group and did not change since."""
        found = self._vectors.known(group)
        if found is None:
            return {}
        return found.kept.of(unit, [row for row in rows if row not in found.changed] if found.changed else rows)

    def _cosines_kept(self, wanted: IndexFilter, rows: Sequence[UUID], unit: NDArray[np.float32]) -> dict[UUID, float]:
        """The cosines of those of these rows that exist, by kept vectors; others are read and kept."""
        group = (wanted.tenant, wanted.forest_id, wanted.kinds[0])
        kept, moment = self._kept.of(group, rows)
        vectors = {row: vector for row, vector in zip(rows, kept, strict=True) if vector is not None}
        if len(vectors) < len(rows):
            if wanted.kinds[0] is PointKind.NODE:
                # Counts as a search of all nodes, which are kept from some of these on: each question leads to others.
                self._vectors.find(Group(*group))
            read = self._reads.vectors_of(wanted, [row for row in rows if row not in vectors])
            self._kept.keep(group, read, moment)
            vectors |= read
        if not vectors:
            return {}
        products = np.concatenate(list(vectors.values())).reshape(len(vectors), self._dimension) @ unit
        return dict(zip(vectors, products.tolist(), strict=True))

    def _worded(self, query: IndexQuery, asked: SparseVector) -> Answer | None:
        """The best hits, or the scores of named points, by the forest's inverted index; None when there is none, or it
        does not know the query's bounds."""
        wanted = query.filter
        named = only_named(query)
        if not (named or _of_kind_or_roots(wanted)):
            return None
        found = self._words.find(Group(wanted.tenant, wanted.forest_id))
        if found is None:
            return None
        scores, changed = found.kept.scored(asked), found.changed
        [kind] = wanted.kinds
        if named:
            rows = list(wanted.ids or ())
            known, rest = scores.of(kind, [row for row in rows if row not in changed] if changed else rows)
            rest += [row for row in rows if row in changed] if changed else ()
            return Answer(Hits.of_kind(kind, list(known), list(known.values())), _asking(query, rest))
        roots = wanted.tree_kinds if wanted.roots_only else None
        near = scores.best(kind, asked_limit(query) + len(changed), roots)
        told = [one for one in near if one[0] not in changed] if changed else near
        return Answer(best(kind, told, query), _asking(query, list(changed)))


def _asking(query: IndexQuery, rest: Sequence[UUID]) -> IndexQuery | None:
    """The same query for these rows alone, if there are any."""
    return replace(query, filter=replace(query.filter, ids=tuple(rest)), limit=len(rest)) if rest else None


def best(kind: PointKind, scored: Iterable[tuple[UUID, float]], query: IndexQuery) -> Hits:
    """The best hits of a query for points of one kind, as many as it asks for, those of equal score by their ids."""
    if query.min_score is not None:
        scored = (one for one in scored if one[1] >= query.min_score)
    # Numbers compare in C, ids in Python.
    first = sorted(scored, key=lambda one: (-one[1], one[0].int))[: query.limit]
    return Hits.of_kind(kind, [row for row, _ in first], [score for _, score in first])


def _of_kind_or_roots(wanted: IndexFilter) -> bool:
    """Whether a filter bounds by nothing but forest, one kind and which trees' roots."""
    if len(wanted.kinds) != 1:
        return False
    bare = IndexFilter(wanted.tenant, wanted.forest_id, wanted.kinds)
    if wanted.roots_only:
        bare = replace(bare, roots_only=True, tree_kinds=wanted.tree_kinds)
    return wanted == bare


class Group(NamedTuple):
    """Points of a forest: all of them, those of one kind, or the roots of one family of trees."""

    tenant: TenantId
    forest_id: ForestId
    kind: PointKind | None = None
    roots_of: str | None = None

    @property
    def named_only(self) -> bool:
        """Whether only points that are named by their ids are looked for in it: of nodes, roots alone are searched."""
        return self.kind is PointKind.NODE and self.roots_of is None

    @property
    def filter(self) -> IndexFilter:
        """What lets these through."""
        kinds = () if self.kind is None else (self.kind,)
        families = () if self.roots_of is None else (self.roots_of,)
        return IndexFilter(self.tenant, self.forest_id, kinds, bool(families), tree_kinds=families)


def _holding(key: PointKey, kind: PointKind | None) -> Iterator[Group]:
    """The groups of vectors that may hold a point: of any kind, when its kind is not known."""
    for each in PointKind if kind is None else (kind,):
        yield from _of_kind(key.tenant, key.forest_id, each)


def _of_kind(tenant: TenantId, forest: ForestId, kind: PointKind) -> Iterator[Group]:
    """The groups of vectors that hold points of a kind: roots are nodes too."""
    yield Group(tenant, forest, kind)
    for family in TreeKind if kind is PointKind.NODE else ():
        yield Group(tenant, forest, kind, family.value)


@dataclass(frozen=True, slots=True)
class _Source(Generic[Content]):
    """Where the contents of groups are read."""

    reads: EngineReads
    all_of: Callable[[IndexFilter], Iterator[Mapping[UUID, Content]]]
    named_of: Callable[[IndexFilter, Sequence[UUID]], Mapping[UUID, Content]]

    def counted(self, group: Group) -> int:
        # The engine looks through a whole forest for its roots.
        return self.reads.counted((group if group.roots_of is None else Group(*group[:2])).filter)

    def pages(self, group: Group) -> Iterator[Mapping[UUID, Content]]:
        return self.all_of(group.filter)

    def named(self, group: Group, rows: Sequence[UUID]) -> Mapping[UUID, Content]:
        return self.named_of(group.filter, rows)
