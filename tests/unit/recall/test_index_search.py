"""One question's searches: nothing is scored twice, and what points are makes the search cheaper, not different."""

from __future__ import annotations

from uuid import UUID

import numpy as np

from memforest_core.index.vector_index import IndexFilter, PointKind, SparseVector
from memforest_core.recall.index_search import IndexSearch, Limits
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


def test_points_are_scored_by_all_signals_in_one_round_trip() -> None:
    querying = search(scripted())
    querying.score(KINDS)
    assert querying.round_trips == 1
    assert (querying.cells.lexical, querying.cells.dense) == ({CELL: 3.0}, {CELL: 0.3})
    assert (querying.facts.lexical, querying.facts.dense) == ({FACT: 2.0}, {FACT: 0.2})
    assert (querying.nodes.lexical, querying.nodes.dense) == ({}, {NODE: 0.1})


def test_kinds_that_are_known_are_queried_one_by_one() -> None:
    """Given what the points are, then each query is of one kind: an index need not look hits up to tell."""
    index = scripted()
    search(index).score(KINDS)
    [queries] = index.calls
    assert len(queries) == 6
    for query in queries:
        [kind] = query.filter.kinds
        assert query.filter.ids == tuple(id_ for id_, of in KINDS.items() if of is kind)


def test_what_was_glanced_at_is_queried_by_words_alone() -> None:
    index = scripted()
    querying = search(index)
    querying.glance(KINDS)
    querying.score(KINDS)
    glanced, scored = index.calls
    assert not any(isinstance(query.vector, SparseVector) for query in glanced)
    assert all(isinstance(query.vector, SparseVector) for query in scored)


def test_what_was_queried_ahead_counts_once_it_is_scored() -> None:
    """Given points queried ahead, when some are glanced at and all are scored later, then no query is made for their
    cosines again, none counts before it is scored, and what has no vector is known to have none."""
    index = scripted()
    strange = UUID(int=4)
    querying = search(index)
    querying.look_ahead(KINDS | {strange: PointKind.CELL})
    assert not querying.cells.ids() | querying.facts.ids() | querying.nodes.ids()
    querying.glance({CELL: PointKind.CELL, strange: PointKind.CELL})
    assert (querying.cells.dense, querying.facts.dense, querying.nodes.dense) == ({CELL: 0.3}, {}, {})
    assert querying.round_trips == 1
    querying.score(KINDS)
    assert (querying.cells.dense, querying.facts.dense, querying.nodes.dense) == ({CELL: 0.3}, {FACT: 0.2}, {NODE: 0.1})
    assert querying.round_trips == 2
    assert all(isinstance(query.vector, SparseVector) for query in index.calls[-1])


def test_nothing_is_queried_ahead_without_a_vector_or_after_a_failure() -> None:
    querying = search(index := scripted(unavailable_after=0))
    querying.look_ahead(KINDS)
    assert querying.failure is not None
    querying.look_ahead(KINDS)
    by_words = IndexSearch(index, querying.scope, None, WORDS)
    by_words.look_ahead(KINDS)
    assert (querying.round_trips, by_words.round_trips) == (1, 0)


def test_the_part_of_related_words_is_that_of_their_own_search() -> None:
    """Given scores by all words, when related ones are searched alone, then each has its part, and no score changes."""
    querying = search(index := scripted(), SparseVector((7, 8), (1.0, 0.5)))
    querying.related = SparseVector((8,), (0.5,))
    querying.score(KINDS)
    index.points = {CELL: (PointKind.CELL, 1.5, 0.3), FACT: (PointKind.FACT, 0.0, 0.2)}
    assert querying.related_parts({CELL: PointKind.CELL, FACT: PointKind.FACT}) == {CELL: 0.5}
    assert querying.cells.lexical == {CELL: 3.0}
    assert querying.round_trips == 2
    assert all(query.vector == querying.related for query in index.calls[-1])


def test_without_related_words_there_is_no_search_for_their_part() -> None:
    querying = search(index := scripted())
    querying.score(KINDS)
    assert querying.related_parts(KINDS) == {}
    assert len(index.calls) == 1


def test_nothing_is_queried_twice_not_even_what_has_no_score() -> None:
    """Given points that were scored, one of them without any word, when they are requested again, no query is made."""
    querying = search(scripted())
    querying.score(KINDS)
    querying.glance(KINDS)
    querying.score(KINDS)
    assert querying.round_trips == 1


def test_a_range_of_time_limits_the_flat_search_only() -> None:
    """What is scored by id has been chosen already."""
    index = scripted()
    querying = search(index)
    querying.flat(Limits(cells=1, facts=0, roots=0))
    querying.score(KINDS)
    flat, by_ids = index.calls
    assert {query.filter.overlaps for query in flat} == {(0.0, 9.0)}
    assert {query.filter.overlaps for query in by_ids} == {None}


def test_flat_hits_are_not_scored_again() -> None:
    index = scripted()
    querying = search(index)
    querying.flat(Limits(cells=5, facts=5, roots=0))
    querying.score({CELL: PointKind.CELL, FACT: PointKind.FACT})
    assert querying.round_trips == 1


def test_without_words_nothing_is_searched_by_words() -> None:
    index = scripted()
    search(index, SparseVector((), ())).score(KINDS)
    assert not any(isinstance(query.vector, SparseVector) for queries in index.calls for query in queries)


def test_after_the_first_failure_no_query_is_made() -> None:
    index = scripted(unavailable_after=0)
    querying = search(index)
    querying.score(KINDS)
    querying.glance(KINDS)
    assert querying.failure is not None
    assert querying.round_trips == 1
    assert not querying.cells.ids()
