"""Which trees are browsed because flat hits live in them."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

import pytest

from memforest_core.domain.ids import ForestId, NodeId, TenantId, TreeKind
from memforest_core.domain.scoring import Scores
from memforest_core.index.vector_index import IndexFilter, SparseVector
from memforest_core.recall.index_search import FlatHits, IndexSearch
from memforest_core.recall.records import Above
from memforest_core.recall.retrieve import trees_of_hits
from tests.harness.weights import weights

CELLS = [UUID(int=number) for number in (1, 2)]
FACTS = [UUID(int=number) for number in (11, 12)]
SESSION, ENTITY, SCENE = (NodeId(UUID(int=number)) for number in (101, 102, 103))


def search(cells: Scores, facts: Scores) -> IndexSearch:
    scope = IndexFilter(TenantId("acme"), ForestId(UUID(int=7)))
    return IndexSearch(cast(Any, None), scope, None, SparseVector((), ()), cells=cells, facts=facts)


def above(payload: UUID, root: NodeId, kind: TreeKind) -> Above:
    return Above(cast(Any, payload), root, root, kind)


@pytest.mark.parametrize(
    ("cells", "facts", "first"),
    [
        ({CELLS[0]: 1.0}, {FACTS[0]: 1.0}, [ENTITY, SESSION]),
        ({CELLS[0]: 1.0, CELLS[1]: 1.0}, {FACTS[0]: 1.0}, [SESSION, ENTITY]),
        ({}, {FACTS[0]: 1.0, FACTS[1]: 0.5}, [ENTITY, SESSION]),
    ],
    ids=["two facts of one tree", "two cells of one session", "facts alone"],
)
def test_trees_with_the_best_hits_come_first_of_cells_and_of_facts(
    cells: dict[UUID, float], facts: dict[UUID, float], first: list[NodeId]
) -> None:
    """Given cells of a session and facts of an entity, then both vote for the trees above them with their scores."""
    facts_there = facts | ({FACTS[1]: 0.5} if len(cells) == 1 else {})
    leaves = [above(cell, SESSION, TreeKind.SESSION) for cell in CELLS]
    leaves += [above(fact, ENTITY, TreeKind.ENTITY) for fact in FACTS]
    of = search(Scores(lexical=cells), Scores(lexical=facts_there))
    hits = FlatHits(frozenset(cells), frozenset(facts_there))
    assert trees_of_hits(leaves, of, hits, weights()) == first


def test_of_trees_above_facts_the_one_with_the_better_fact_is_first() -> None:
    """Given two trees that hold a fact each, then the scores of the facts decide, not the ids of the roots."""
    leaves = [above(FACTS[0], ENTITY, TreeKind.ENTITY), above(FACTS[1], SCENE, TreeKind.SCENE)]
    of = search(Scores(), Scores(lexical={FACTS[0]: 0.5, FACTS[1]: 1.0}))
    assert trees_of_hits(leaves, of, FlatHits(facts=frozenset(FACTS)), weights()) == [SCENE, ENTITY]
