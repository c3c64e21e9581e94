"""Which facts of a source the target has, in the same words or nearly the same; found before either is locked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from memforest_core.domain.ids import FactId, ForestId, TenantId
from memforest_core.errors import IndexUnavailable
from memforest_core.index.vector_index import IndexFilter, IndexQuery, PointKind, VectorIndex
from memforest_core.ingest.reduce.canonical import NEAR_LIMIT, identify, mergeable
from memforest_core.lifecycle.merge.records import StoredFact
from memforest_core.lifecycle.merge.rows.merge_forests import MergeRows
from memforest_core.models.calls import Vectors

PAGE = 2_000
"""Facts of a source compared at once."""
COMPARED_FACTS = 20_000
"""A target of up to this many facts is compared in this process, vector by vector: what was just merged is not in the
index yet. A larger one is searched through the index, and its newest facts are compared in addition."""
UNSEEN_LIMIT = 2_000
SEARCHED_AT_ONCE = 100


@dataclass(slots=True)
class Near:
    """The target's near duplicate of facts of the source; ``degraded`` when the index was unavailable."""

    twins: dict[FactId, FactId] = field(default_factory=dict)
    degraded: bool = False


_Facts = tuple[Sequence[FactId], Vectors]
"""Ids of facts and their vectors, shape (facts, dimension)."""


class Comparison:
    """Finds near duplicates. Reads only."""

    def __init__(self, index: VectorIndex, model: str) -> None:
        self._index = index
        self._model = model

    def near(
        self, rows: MergeRows, tenant: TenantId, source: ForestId, target: ForestId, threshold: float, *, index: bool
    ) -> Near:
        """For facts of the source the closest mergeable fact of the target, at least as close as the threshold.

        ``index``: a target too large to be compared whole may be searched through the vector index.
        """
        found = Near()
        size = rows.fact_count(target)
        if size == 0:
            return found
        whole = size <= COMPARED_FACTS
        theirs = self._everything(rows, target) if whole else self._newest(rows, target)
        found.degraded = not whole and not index
        for ids, vectors in rows.vector_pages(source, self._model, PAGE):
            close = _close(theirs, vectors, threshold) if theirs else [[] for _ in ids]
            if not whole and not found.degraded:
                try:
                    for mine, more in zip(close, self._searched(tenant, target, vectors, threshold), strict=True):
                        mine += more
                except IndexUnavailable:
                    found.degraded = True
            self._choose(rows, ids, close, found.twins)
        return found

    def _everything(self, rows: MergeRows, target: ForestId) -> _Facts | None:
        pages = list(rows.vector_pages(target, self._model, PAGE))
        if not pages:
            return None
        return [id_ for ids, _ in pages for id_ in ids], np.concatenate([vectors for _, vectors in pages])

    def _newest(self, rows: MergeRows, target: ForestId) -> _Facts | None:
        unseen = rows.reduce.canon.unseen_facts(target, UNSEEN_LIMIT, self._model)
        return ([fact.id for fact in unseen], np.stack([fact.vector for fact in unseen])) if unseen else None

    def _searched(
        self, tenant: TenantId, target: ForestId, vectors: Vectors, threshold: float
    ) -> list[list[tuple[float, FactId]]]:
        where = IndexFilter(tenant, target, kinds=(PointKind.FACT,))
        found: list[list[tuple[float, FactId]]] = []
        for at in range(0, len(vectors), SEARCHED_AT_ONCE):
            part = vectors[at : at + SEARCHED_AT_ONCE]
            queries = [IndexQuery(vector, where, NEAR_LIMIT, threshold) for vector in part]
            found += [[(hit.score, FactId(hit.id)) for hit in hits] for hits in self._index.search(queries)]
        return found

    def _choose(
        self,
        rows: MergeRows,
        ids: Sequence[FactId],
        close: Sequence[Sequence[tuple[float, FactId]]],
        twins: dict[FactId, FactId],
    ) -> None:
        some = [id_ for id_, others in zip(ids, close, strict=True) if others]
        said = rows.statements([*some, *{other for others in close for _, other in others}])
        for id_, others in zip(ids, close, strict=True):
            if id_ not in said:
                continue
            ranked = sorted(others, key=lambda each: (-each[0], str(each[1])))
            for _, other in ranked[:NEAR_LIMIT]:
                if other in said and mergeable(said[other], said[id_]):
                    twins[id_] = other
                    break


def _close(theirs: _Facts, vectors: Vectors, threshold: float) -> list[list[tuple[float, FactId]]]:
    """For each vector the nearest of the facts, at least as close as the threshold (cosine)."""
    close: list[list[tuple[float, FactId]]] = [[] for _ in vectors]
    facts, known = theirs
    if known.shape[1] != vectors.shape[1]:
        return close
    scores = vectors @ known.T
    for mine, row in zip(close, scores, strict=True):
        nearest = np.argpartition(-row, min(NEAR_LIMIT, len(facts)) - 1)[:NEAR_LIMIT]
        mine += [(float(row[at]), facts[at]) for at in nearest.tolist() if row[at] >= threshold]
    return close


@dataclass(frozen=True, slots=True)
class Reconciled:
    """The target's fact for each of the source's; the missing ones, with the fact that each is copied from."""

    facts: Mapping[FactId, FactId]
    missing: Mapping[FactId, StoredFact]
    exact: frozenset[FactId]
    near: frozenset[FactId]
    """Facts of the source that the target has in the same words, and in nearly the same."""


def own_ids(target: ForestId, facts: Sequence[StoredFact]) -> dict[FactId, FactId]:
    """The ids that facts would have in another forest."""
    return {fact.id: identify(target, fact.statement)[0] for fact in facts}


def reconcile(
    facts: Sequence[StoredFact], own: Mapping[FactId, FactId], there: frozenset[FactId], near: Mapping[FactId, FactId]
) -> Reconciled:
    """Match facts with the target's: by their own id first, else by a near duplicate that is still ``there``."""
    found: dict[FactId, FactId] = {}
    missing: dict[FactId, StoredFact] = {}
    exact: set[FactId] = set()
    alike: set[FactId] = set()
    for fact in facts:
        mine, twin = own[fact.id], near.get(fact.id)
        if mine in there:
            exact.add(fact.id)
        elif mine not in missing and twin is not None and twin in there and not fact.superseded:
            alike.add(fact.id)
            mine = twin
        else:
            missing.setdefault(mine, fact)
        found[fact.id] = mine
    return Reconciled(found, missing, frozenset(exact), frozenset(alike))
