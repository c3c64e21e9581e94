"""An inverted index gives each point the sum over terms of both weights and the term's rarity."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from uuid import UUID

import pytest

from memforest_core.index.qdrant import postings
from memforest_core.index.qdrant.postings import Postings, Worded
from memforest_core.index.vector_index import PointKind, SparseVector

FACT, CELL, NODE = PointKind.FACT, PointKind.CELL, PointKind.NODE
ONE, TWO, THREE = (UUID(int=number) for number in range(1, 4))


def terms(weights: Mapping[int, float]) -> SparseVector:
    ordered = sorted(weights.items())
    return SparseVector(tuple(term for term, _ in ordered), tuple(weight for _, weight in ordered))


def filled(points: Mapping[UUID, Worded]) -> Postings:
    made = Postings()
    made.add(points)
    return made


def by_hand(points: Mapping[UUID, Worded], asked: SparseVector) -> dict[UUID, float]:
    """The scores above 0, point by point."""
    known = {
        row: dict(zip(point.terms.indices, point.terms.values, strict=True))
        for row, point in points.items()
        if point.terms.indices
    }
    scores = dict.fromkeys(known, 0.0)
    for term, weight in zip(asked.indices, asked.values, strict=True):
        holding = sum(term in one for one in known.values())
        rarity = math.log((len(known) - holding + 0.5) / (holding + 0.5) + 1.0)
        for row, one in known.items():
            scores[row] += weight * rarity * one.get(term, 0.0)
    return {row: score for row, score in scores.items() if score > 0.0}


def test_a_rare_term_counts_more() -> None:
    """Given three points that hold a term and one that holds another as strongly, then that one is ahead."""
    points = {UUID(int=number): Worded(FACT, terms({7: 1.0})) for number in range(10, 13)}
    points[ONE] = Worded(FACT, terms({8: 1.0}))
    found = dict(filled(points).scored(terms({7: 1.0, 8: 1.0})).best(FACT, 10))
    assert found == pytest.approx(by_hand(points, terms({7: 1.0, 8: 1.0})))
    assert max(found, key=found.__getitem__) == ONE


def test_kinds_and_roots_are_told_apart() -> None:
    """Given a fact, a root and a node below it with the same word, then each is found as what it is."""
    word = terms({7: 1.0})
    postings = filled(
        {ONE: Worded(FACT, word), TWO: Worded(NODE, word, root=True, tree_kind="session"), THREE: Worded(NODE, word)}
    )
    scored = postings.scored(word)

    def rows(kind: PointKind, roots_of: tuple[str, ...] | None = None) -> set[UUID]:
        return {row for row, _ in scored.best(kind, 10, roots_of)}

    assert rows(FACT) == {ONE}
    assert rows(CELL) == set()
    assert rows(NODE) == {TWO, THREE}
    assert rows(NODE, ()) == rows(NODE, ("entity", "session")) == {TWO}
    assert rows(NODE, ("entity",)) == set()
    told, unknown = scored.of(NODE, [ONE, TWO])
    assert list(told) == [TWO]
    assert unknown == []


def test_what_it_does_not_know_is_named() -> None:
    """Given a point that was dropped, one that came after the scores were counted, and one without a word, when they
    are asked for by their ids, then they are named as unknown; one that holds no word of the question is known."""
    postings = filled({ONE: Worded(FACT, terms({7: 1.0})), TWO: Worded(FACT, terms({8: 1.0}))})
    scored = postings.scored(terms({7: 1.0}))
    later, wordless = UUID(int=50), UUID(int=51)
    postings.add({later: Worded(FACT, terms({7: 2.0})), wordless: Worded(FACT, terms({}))})
    postings.add({ONE: Worded(FACT, terms({9: 1.0}))})
    told, unknown = scored.of(FACT, [ONE, TWO, later, wordless])
    assert told == {}
    assert unknown == [ONE, later, wordless]
    assert len(postings) == 3


def test_an_empty_one_finds_nothing() -> None:
    scored = Postings().scored(terms({7: 1.0}))
    assert scored.best(FACT, 5) == []
    assert scored.of(FACT, [ONE]) == ({}, [ONE])


@pytest.mark.parametrize("seed", range(8))
def test_scores_are_those_of_the_points_as_they_are_now(seed: int) -> None:
    """Given points that come, change, lose their words and go in portions of any size, when all and some are scored,
    then the scores are those that the points have by hand, and as few are returned as are asked for."""
    rng = random.Random(seed)
    postings, points = Postings(), dict[UUID, Worded]()

    def point() -> Worded:
        held = {rng.randrange(30): rng.uniform(0.1, 2.0) for _ in range(rng.randrange(6))}
        kind = rng.choice([FACT, CELL, NODE])
        return Worded(kind, terms(held), kind is NODE and rng.random() < 0.5, "session")

    for _ in range(60):
        if rng.random() < 0.3:
            gone = rng.sample(sorted(points), min(len(points), rng.randrange(5)))
            postings.drop(gone)
            points = {row: one for row, one in points.items() if row not in gone}
        portion = {UUID(int=rng.randrange(200)): point() for _ in range(rng.randrange(1, 9))}
        postings.add(portion)
        points |= portion
        asked = terms({rng.randrange(32): rng.uniform(0.1, 2.0) for _ in range(5)})
        expected, scored = by_hand(points, asked), postings.scored(asked)
        for kind in (FACT, CELL, NODE):
            own = {row: score for row, score in expected.items() if points[row].kind is kind}
            assert dict(scored.best(kind, 1_000)) == pytest.approx(own, rel=1e-5)
            few = [score for _, score in scored.best(kind, 3)]
            assert sorted(few, reverse=True) == pytest.approx(sorted(own.values(), reverse=True)[:3], rel=1e-5)
            told, _ = scored.of(kind, list(points))
            assert told == pytest.approx(own, rel=1e-5)
    assert len(postings) == sum(bool(one.terms.indices) for one in points.values())
    assert len(postings._parts) < 12


@pytest.mark.parametrize("seed", range(6))
def test_common_terms_change_no_score(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given terms that most points hold beside rare ones, when the best of each kind, roots and named points are asked
    for, then the scores are those by hand: whether the rare terms settle which are the best, or all must be scored."""
    monkeypatch.setattr(postings, "COMMON_FROM", 20)
    rng = random.Random(seed)
    kept, points = Postings(), dict[UUID, Worded]()

    def point() -> Worded:
        held = {term: rng.uniform(0.1, 2.0) for term in (1, 2, 3) if rng.random() < 0.8}
        held |= {rng.randrange(10, 60): rng.uniform(0.1, 2.0) for _ in range(rng.randrange(3))}
        kind = rng.choice([FACT, CELL, NODE])
        return Worded(kind, terms(held), kind is NODE and rng.random() < 0.5, rng.choice(["session", "entity"]))

    for _ in range(12):
        portion = {UUID(int=rng.randrange(600)): point() for _ in range(80)}
        kept.add(portion)
        points |= portion
        gone = rng.sample(sorted(points), 5)
        kept.drop(gone)
        points = {row: one for row, one in points.items() if row not in gone}
        rare = {rng.randrange(10, 60): rng.uniform(0.5, 2.0) for _ in range(rng.randrange(3))}
        asked = terms({1: 0.3, 2: rng.uniform(0.1, 2.0), 3: rng.uniform(0.1, 2.0)} | rare)
        expected, scored = by_hand(points, asked), kept.scored(asked)
        for kind in (FACT, CELL, NODE):
            own = {row: score for row, score in expected.items() if points[row].kind is kind}
            told, _ = scored.of(kind, list(points))
            assert told == pytest.approx(own, rel=1e-5)
            for n in (1, 4, 30):
                found = dict(scored.best(kind, n))
                assert found == pytest.approx({row: own[row] for row in found}, rel=1e-5)
                assert sorted(found.values()) == pytest.approx(sorted(own.values())[-n:], rel=1e-5)
        roots = {
            row: expected[row]
            for row, one in points.items()
            if one.root and one.tree_kind == "entity"
            if row in expected
        }
        few = [score for _, score in scored.best(NODE, 3, ("entity",))]
        assert sorted(few) == pytest.approx(sorted(roots.values())[-3:], rel=1e-5)


def test_what_is_common_is_added_only_where_it_may_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a word that all points hold and one that few hold, when the best of few are asked for, then not all points
    are scored; when more are asked for than hold the rare one, all are."""
    monkeypatch.setattr(postings, "COMMON_FROM", 20)
    points = {
        UUID(int=number): Worded(FACT, terms({7: 1.0} | ({8: 1.0} if number < 5 else {}))) for number in range(99)
    }
    scored = filled(points).scored(terms({7: 1.0, 8: 1.0}))
    assert {row.int for row, _ in scored.best(FACT, 5)} == set(range(5))
    assert "_by_all" not in vars(scored)
    assert len(scored.best(FACT, 6)) == 6
    assert "_by_all" in vars(scored)


def test_it_is_worn_when_most_was_replaced() -> None:
    postings = Postings()
    for _ in range(3):
        assert not postings.worn
        postings.add({row: Worded(FACT, terms({7: 1.0})) for row in (ONE, TWO)})
    assert postings.worn
