"""Reconciling facts: which facts of a source the target has already, in the same words or in nearly the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memforest_core.domain.ids import FactId, ForestId
from memforest_core.ingest.reduce.canonical import identify
from memforest_core.lifecycle.merge.records import StoredFact


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
    facts: Sequence[StoredFact],
    own: Mapping[FactId, FactId],
    there: frozenset[FactId],
    near: Mapping[FactId, FactId],
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
