"""One question's searches: nothing is scored twice, and what points are makes the search cheaper, not different."""

from __future__ import annotations

from uuid import UUID

import numpy as np

from memforest_core.index.vector_index import IndexFilter, PointKind, SparseVector
from memforest_core.recall.index_search import IndexSearch
from tests.unit.recall.memory import FOREST, TENANT, ScriptedIndex

CELL, FACT, NODE = (UUID(int=number) for number in (1, 2, 3))
KINDS = {CELL: PointKind.CELL, FACT: PointKind.FACT, NODE: PointKind.NODE}
WORDS = SparseVector((7,), (1.0,))


def scripted(**changes: object) -> ScriptedIndex:
    """An index of a cell, a fact and a node; the node has none of the words."""
    points = {CELL: (PointKind.CELL, 3.0, 0.3), FACT: (PointKind.FACT, 2.0, 0.2), NODE: (PointKind.NODE, 0.0, 0.1)}
    return ScriptedIndex(points=points, **changes)  # type: ignore[arg-type]


def search(index: ScriptedIndex, sparse: SparseVector = WORDS) -> IndexSearch:
    scope = IndexFilter(TENANT, FOREST, overlaps=(0.0, 9.0))
    return IndexSearch(index, scope, np.array([1.0, 0.0], np.float32), sparse)  # type: ignore[arg-type]


def test_points_are_scored_by_all_signals_in_one_round_trip_each_query_for_one_kind() -> None:
    querying = search(index := scripted())
    querying.score(KINDS)
    assert querying.round_trips == 1
    assert (querying.cells.lexical, querying.cells.dense) == ({CELL: 3.0}, {CELL: 0.3})
    assert (querying.facts.lexical, querying.facts.dense) == ({FACT: 2.0}, {FACT: 0.2})
    assert (querying.nodes.lexical, querying.nodes.dense) == ({}, {NODE: 0.1})
    [queries] = index.calls
    assert len(queries) == 6
    for query in queries:
        [kind] = query.filter.kinds
        assert query.filter.ids == tuple(id_ for id_, of in KINDS.items() if of is kind)


def test_a_range_of_time_limits_the_flat_search_only_and_its_hits_are_not_scored_again() -> None:
    """What is scored by id has been chosen already."""
    querying = search(index := scripted())
    hits = querying.flat({PointKind.CELL: 1, PointKind.FACT: 0})
    assert (hits[PointKind.CELL], hits[PointKind.FACT]) == ({CELL}, set())
    querying.score(KINDS)
    flat, by_ids = index.calls
    assert {query.filter.overlaps for query in flat} == {(0.0, 9.0)}
    assert {query.filter.overlaps for query in by_ids} == {None}
    assert not any(CELL in (query.filter.ids or ()) for query in by_ids)


def test_the_nearest_of_another_vector_are_no_scores() -> None:
    querying = search(scripted())
    assert querying.facts_near(np.array([0.0, 1.0], np.float32), 5) == {FACT: 0.2}
    assert (querying.facts.dense, querying.round_trips) == ({}, 1)


def test_without_words_nothing_is_searched_by_words() -> None:
    index = scripted()
    search(index, SparseVector((), ())).score(KINDS)
    assert not any(isinstance(query.vector, SparseVector) for queries in index.calls for query in queries)


def test_after_the_first_failure_no_query_is_made() -> None:
    querying = search(scripted(unavailable_after=0))
    querying.score(KINDS)
    querying.score(KINDS)
    assert querying.failure is not None
    assert querying.round_trips == 1
    assert not querying.cells.ids()
