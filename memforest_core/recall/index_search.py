"""One question's searches of the vector index: batched, counted, and not repeated after the first failure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from memforest_core.domain.ids import FactId, TreeKind
from memforest_core.domain.scoring import Scores
from memforest_core.errors import IndexUnavailable
from memforest_core.index.vector_index import (
    DenseVector,
    Hits,
    IndexFilter,
    IndexQuery,
    PointKind,
    SparseVector,
    VectorIndex,
)

Points = Mapping[UUID, PointKind]
"""Ids of points with what they are: an index then need not read that for each hit."""


@dataclass(slots=True)
class IndexSearch:
    """Searches for one question; scores gather in ``cells``, ``facts`` and ``nodes``.

    ``dense`` is None when the embedder is unavailable; ``sparse`` has no terms when the question has none.
    """

    index: VectorIndex
    scope: IndexFilter
    dense: DenseVector | None
    sparse: SparseVector
    cell_scope: IndexFilter | None = None
    """What the flat search may see of cells, where that is less than of facts; ``scope`` when None."""
    trees: tuple[str, ...] = ()
    """The families whose roots the flat search finds; empty for all."""
    cells: Scores = field(default_factory=Scores)
    facts: Scores = field(default_factory=Scores)
    nodes: Scores = field(default_factory=Scores)
    round_trips: int = 0
    failure: IndexUnavailable | None = None

    def flat(self, limits: Mapping[PointKind, int]) -> Mapping[PointKind, frozenset[UUID]]:
        """The best points of each kind by each signal, of nodes only roots: one round trip. A limit of 0 leaves a kind
        out."""
        queries = [
            IndexQuery(vector, self._scope_of(kind), limit)
            for kind, limit in limits.items()
            if limit > 0
            for vector in self._vectors()
        ]
        found: dict[PointKind, list[UUID]] = {kind: [] for kind in PointKind}
        for query, hits in zip(queries, self._search(queries), strict=False):
            found[query.filter.kinds[0]] += hits.ids
        return {kind: frozenset(ids) for kind, ids in found.items()}

    def score(self, ids: Points) -> None:
        """Score these points by all signals, by each those that are not yet: one round trip, or none."""
        of_kind: dict[PointKind, list[UUID]] = defaultdict(list)
        for id_, kind in ids.items():
            of_kind[kind].append(id_)
        queries = []
        for vector in self._vectors():
            for kind, named in of_kind.items():
                known = self._list(kind, vector)
                if some := tuple(id_ for id_ in named if id_ not in known):
                    # Only the flat search is limited in time: points that are scored by id were chosen before.
                    scope = IndexFilter(self.scope.tenant, self.scope.forest_id, (kind,), ids=some)
                    queries.append(IndexQuery(vector, scope, len(some)))
        self._search(queries)

    def facts_near(self, vector: DenseVector, limit: int) -> dict[FactId, float]:
        """The facts nearest to another vector with their cosines, which are no scores: one round trip."""
        other = replace(self, dense=vector, sparse=SparseVector((), ()), facts=Scores(), round_trips=0)
        other.flat({PointKind.FACT: limit})
        self.round_trips += other.round_trips
        self.failure = other.failure
        return {FactId(fact): cosine for fact, cosine in other.facts.dense.items()}

    def _list(self, kind: PointKind, vector: DenseVector | SparseVector) -> dict[UUID, float]:
        scores = {PointKind.CELL: self.cells, PointKind.FACT: self.facts, PointKind.NODE: self.nodes}[kind]
        return scores.lexical if isinstance(vector, SparseVector) else scores.dense

    def _scope_of(self, kind: PointKind) -> IndexFilter:
        if kind is PointKind.NODE:
            families = self.trees if len(self.trees) < len(TreeKind) else ()
            return replace(self.scope, kinds=(kind,), roots_only=True, tree_kinds=families)
        scope = self.cell_scope if kind is PointKind.CELL and self.cell_scope is not None else self.scope
        return replace(scope, kinds=(kind,))

    def _vectors(self) -> Iterator[DenseVector | SparseVector]:
        if self.dense is not None:
            yield self.dense
        if self.sparse.indices:
            yield self.sparse

    def _search(self, queries: Sequence[IndexQuery]) -> list[Hits]:
        """The hits of each query, all of which are for one kind of points; none when the index is unavailable."""
        if self.failure is not None or not queries:
            return []
        self.round_trips += 1
        try:
            answers = self.index.search(queries)
        except IndexUnavailable as error:
            self.failure = error
            return []
        for query, hits in zip(queries, answers, strict=True):
            [kind] = query.filter.kinds
            self._list(kind, query.vector).update(zip(hits.ids, hits.scores, strict=True))
        return answers


def best_of_words(scores: Scores) -> UUID | None:
    """The best by words; of equal ones always the same."""
    return max(scores.lexical, key=lambda id_: (scores.lexical[id_], id_), default=None)
