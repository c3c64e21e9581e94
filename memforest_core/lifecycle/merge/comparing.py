"""Which facts of a source the target has, in the same words or nearly the same; found before either is locked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from memforest_core.domain.ids import FactId, ForestId
from memforest_core.ingest.reduce.canonical import NEAR_LIMIT, mergeable
from memforest_core.lifecycle.merge.records import StoredFact
from memforest_core.lifecycle.merge.rows.merge_forests import MergeRows
from memforest_core.models.calls import Vectors

PAGE = 2_000
"""Facts of the target compared at once. The index does not help: what was just merged is not indexed yet."""


def near_duplicates(
    rows: MergeRows, model: str, source: ForestId, target: ForestId, threshold: float
) -> dict[FactId, FactId]:
    """For facts of the source the closest mergeable fact of the target, at least as close as ``threshold`` (cosine)."""
    theirs: list[FactId] = []
    mine = [
        (ids, vectors, np.empty((len(ids), 0), np.float32), np.empty((len(ids), 0), np.int64))
        for ids, vectors in rows.vector_pages(source, model, PAGE)
    ]
    for others, known in rows.vector_pages(target, model, PAGE) if mine else ():
        if known.shape[1] == mine[0][1].shape[1]:
            mine = [(ids, vectors, *_nearest(vectors @ known.T, len(theirs), *best)) for ids, vectors, *best in mine]
            theirs += others
    twins: dict[FactId, FactId] = {}
    for ids, _, scores, columns in mine:
        order = np.argsort(-scores, axis=1, kind="stable")
        ranked = {
            id_: [theirs[columns[row, at]] for at in order[row] if scores[row, at] >= threshold]
            for row, id_ in enumerate(ids)
        }
        ranked = {id_: others for id_, others in ranked.items() if others}
        said = rows.statements([*ranked, *{other for others in ranked.values() for other in others}])
        for id_, others in ranked.items():
            alike = (other for other in others if {id_, other} <= said.keys() and mergeable(said[other], said[id_]))
            if (twin := next(alike, None)) is not None:
                twins[id_] = twin
    return twins


def _nearest(scores: Vectors, first: int, *best: Any) -> tuple[Vectors, Any]:
    """Of each row the highest scores and the columns of their facts: of the best ones so far, and of these from
    ``first`` on."""
    columns = np.broadcast_to(np.arange(first, first + scores.shape[1]), scores.shape)
    both = np.concatenate([best[0], scores], axis=1), np.concatenate([best[1], columns], axis=1)
    top = np.argpartition(-both[0], min(NEAR_LIMIT, both[0].shape[1]) - 1, axis=1)[:, :NEAR_LIMIT]
    return np.take_along_axis(both[0], top, axis=1), np.take_along_axis(both[1], top, axis=1)


@dataclass(frozen=True, slots=True)
class Reconciled:
    """The target's fact for each of the source's; the missing ones, with the fact that each is copied from."""

    facts: Mapping[FactId, FactId]
    missing: Mapping[FactId, StoredFact]
    exact: frozenset[FactId]
    near: frozenset[FactId]
    """Facts of the source that the target has in the same words, and in nearly the same."""


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
