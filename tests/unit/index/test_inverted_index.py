"""An inverted index gives each point the sum over terms of both weights and the term's rarity."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from uuid import UUID

import pytest

from memforest_core.index.memory.inverted_index import InvertedIndex
from memforest_core.index.vector_index import Point, PointKind, SparseVector
from tests.contract.index.builders import direction, where

FACT, CELL, NODE = PointKind.FACT, PointKind.CELL, PointKind.NODE
ONE, TWO, THREE = (UUID(int=number) for number in range(1, 4))


def terms(weights: Mapping[int, float]) -> SparseVector:
    ordered = sorted(weights.items())
    return SparseVector(tuple(term for term, _ in ordered), tuple(weight for _, weight in ordered))


def worded(row: UUID, kind: PointKind, terms: SparseVector, root: bool = False, tree_kind: str | None = None) -> Point:
    bounds = where()
    return Point(row, bounds.tenant, bounds.forest_id, kind, 1, direction(1), terms, tree_kind=tree_kind, is_root=root)


def filled(points: Mapping[UUID, Point]) -> InvertedIndex:
    made = InvertedIndex()
    made.add(points.values())
    return made


def by_hand(points: Mapping[UUID, Point], question: SparseVector) -> dict[UUID, float]:
    """The scores above 0, point by point."""
    known = {
        row: dict(zip(point.sparse.indices, point.sparse.values, strict=True))
        for row, point in points.items()
        if point.sparse.indices
    }
    scores = dict.fromkeys(known, 0.0)
    for term, weight in zip(question.indices, question.values, strict=True):
        frequency = sum(term in one for one in known.values())
        rarity = math.log((len(known) - frequency + 0.5) / (frequency + 0.5) + 1.0)
        for row, one in known.items():
            scores[row] += weight * rarity * one.get(term, 0.0)
    return {row: score for row, score in scores.items() if score > 0.0}


def test_kinds_and_roots_are_found_separately() -> None:
    """Given a fact, a root and a node below it with the same word, then each is found as what it is."""
    word = terms({7: 1.0})
    index = filled(
        {
            ONE: worded(ONE, FACT, word),
            TWO: worded(TWO, NODE, word, root=True, tree_kind="session"),
            THREE: worded(THREE, NODE, word),
        }
    )
    scores = index.scores(word)

    def rows(kind: PointKind, roots_of: tuple[str, ...] | None = None) -> set[UUID]:
        return {row for row, _ in scores.best(kind, 10, roots_of)}

    assert rows(FACT) == {ONE}
    assert rows(CELL) == set()
    assert rows(NODE) == {TWO, THREE}
    assert rows(NODE, ()) == rows(NODE, ("entity", "session")) == {TWO}
    assert rows(NODE, ("entity",)) == set()
    found_of, unknown = scores.of(NODE, [ONE, TWO])
    assert list(found_of) == [TWO]
    assert unknown == []


def test_what_it_does_not_know_is_named() -> None:
    """Given a point that was dropped, one that came after the scores were counted, and one without a word, when they
    are requested by their ids, then they are named as unknown; one without any word of the question is known."""
    index = filled({ONE: worded(ONE, FACT, terms({7: 1.0})), TWO: worded(TWO, FACT, terms({8: 1.0}))})
    scores = index.scores(terms({7: 1.0}))
    later, wordless = UUID(int=50), UUID(int=51)
    index.add([worded(later, FACT, terms({7: 2.0})), worded(wordless, FACT, terms({}))])
    index.add([worded(ONE, FACT, terms({9: 1.0}))])
    found_of, unknown = scores.of(FACT, [ONE, TWO, later, wordless])
    assert found_of == {}
    assert unknown == [ONE, later, wordless]
    assert len(index) == 3


@pytest.mark.parametrize("seed", range(8))
def test_scores_are_those_of_the_points_as_they_are_now(seed: int) -> None:
    """Given points that come, change, lose their words and go in portions of any size, when all and some are scores,
    then the scores are those that the points have by hand, and as few are returned as are question for."""
    rng = random.Random(seed)
    index, points = InvertedIndex(), dict[UUID, Point]()

    def point(row: UUID) -> Point:
        held = {rng.randrange(30): rng.uniform(0.1, 2.0) for _ in range(rng.randrange(6))}
        kind = rng.choice([FACT, CELL, NODE])
        return worded(row, kind, terms(held), kind is NODE and rng.random() < 0.5, "session")

    for _ in range(60):
        if rng.random() < 0.3:
            gone = rng.sample(sorted(points), min(len(points), rng.randrange(5)))
            index.drop(gone)
            points = {row: one for row, one in points.items() if row not in gone}
        portion = {(row := UUID(int=rng.randrange(200))): point(row) for _ in range(rng.randrange(1, 9))}
        index.add(portion.values())
        points |= portion
        question = terms({rng.randrange(32): rng.uniform(0.1, 2.0) for _ in range(5)})
        expected, scores = by_hand(points, question), index.scores(question)
        for kind in (FACT, CELL, NODE):
            own = {row: score for row, score in expected.items() if points[row].kind is kind}
            assert dict(scores.best(kind, 1_000)) == pytest.approx(own, rel=1e-5)
            few = [score for _, score in scores.best(kind, 3)]
            assert sorted(few, reverse=True) == pytest.approx(sorted(own.values(), reverse=True)[:3], rel=1e-5)
            found_of, _ = scores.of(kind, list(points))
            assert found_of == pytest.approx(own, rel=1e-5)
    assert len(index) == sum(bool(one.sparse.indices) for one in points.values())
    assert len(index._segments) < 12


def test_it_needs_rebuild_when_most_was_replaced() -> None:
    index = InvertedIndex()
    for _ in range(3):
        assert not index.needs_rebuild
        index.add(worded(row, FACT, terms({7: 1.0})) for row in (ONE, TWO))
    assert index.needs_rebuild
