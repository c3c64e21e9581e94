"""One question's searches of the vector index: batched, counted, and given up for good at the first failure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from memforest_core.domain.scoring import Scores
from memforest_core.errors import IndexUnavailable
from memforest_core.ports.index import (
    DenseVector,
    Hit,
    IndexFilter,
    IndexQuery,
    PointKind,
    SparseVector,
    VectorIndex,
)


@dataclass(frozen=True, slots=True)
class Limits:
    """How many hits each signal of the flat search brings; 0 leaves a search out."""

    cells: int
    facts: int
    roots: int


@dataclass(frozen=True, slots=True)
class FlatHits:
    """What the flat search found, each in no order; roots are node ids."""

    cells: frozenset[UUID] = frozenset()
    facts: frozenset[UUID] = frozenset()
    roots: frozenset[UUID] = frozenset()


@dataclass(slots=True)
class Probe:
    """Searches for one question; scores gather in ``cells``, ``facts`` and ``nodes``.

    ``dense`` is None when the embedder is away; ``sparse`` has no terms when the question has none.
    """

    index: VectorIndex
    scope: IndexFilter
    dense: DenseVector | None
    sparse: SparseVector
    cells: Scores = field(default_factory=Scores)
    facts: Scores = field(default_factory=Scores)
    nodes: Scores = field(default_factory=Scores)
    round_trips: int = 0
    failure: IndexUnavailable | None = None
    _complete: set[UUID] = field(default_factory=set)
    _glanced: set[UUID] = field(default_factory=set)

    def flat(self, limits: Limits) -> FlatHits:
        """The best cells, facts and roots by each signal: one round trip."""
        wanted = (
            (PointKind.CELL, limits.cells, False),
            (PointKind.FACT, limits.facts, False),
            (PointKind.NODE, limits.roots, True),
        )
        queries = [
            IndexQuery(vector, replace(self.scope, kinds=(kind,), roots_only=roots), limit)
            for kind, limit, roots in wanted
            if limit > 0
            for vector in self._vectors()
        ]
        hits = self._search(queries)
        return FlatHits(
            *(
                frozenset(hit.id for hit in hits if hit.kind is kind)
                for kind in (PointKind.CELL, PointKind.FACT, PointKind.NODE)
            )
        )

    def score(self, ids: Collection[UUID]) -> None:
        """Score these points by all signals, those that are not yet: one round trip, or none."""
        missing = tuple(sorted(set(ids) - self._complete))
        if not missing:
            return
        # A filter of time is the flat search's: what is scored by id has been chosen already.
        scope = replace(self.scope, ids=missing, overlaps=None)
        self._search([IndexQuery(vector, scope, len(missing)) for vector in self._vectors()])
        if self.failure is None:
            self._complete.update(missing)

    def glance(self, ids: Collection[UUID]) -> None:
        """Score these points by meaning alone (by words when there is no vector), enough to choose a way by.

        A sparse search by ids costs as much as one of the whole forest: measured on the embedded engine with 200,000
        points, 37 ms against 6 ms for a dense one.
        """
        missing = tuple(sorted(set(ids) - self._complete - self._glanced))
        if not missing:
            return
        vector = self.sparse if self.dense is None else self.dense
        self._search([IndexQuery(vector, replace(self.scope, ids=missing, overlaps=None), len(missing))])
        if self.failure is None:
            self._glanced.update(missing)

    def of(self, kind: PointKind) -> Scores:
        """The scores of one kind of points."""
        return {PointKind.CELL: self.cells, PointKind.FACT: self.facts, PointKind.NODE: self.nodes}[kind]

    def _vectors(self) -> Iterable[DenseVector | SparseVector]:
        if self.dense is not None:
            yield self.dense
        if self.sparse.indices:
            yield self.sparse

    def _search(self, queries: Sequence[IndexQuery]) -> list[Hit]:
        if self.failure is not None or not queries:
            return []
        self.round_trips += 1
        try:
            answers = self.index.search(queries)
        except IndexUnavailable as error:
            self.failure = error
            return []
        for query, hits in zip(queries, answers, strict=True):
            lexical = isinstance(query.vector, SparseVector)
            for hit in hits:
                scores = self.of(hit.kind)
                (scores.lexical if lexical else scores.dense)[hit.id] = hit.score
        return [hit for hits in answers for hit in hits]
