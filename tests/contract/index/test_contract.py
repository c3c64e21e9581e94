"""What every vector index promises, tested for the engine in process and for the server."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import numpy as np
import pytest

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.errors import IndexUnavailable, InvalidSettings, InvariantViolated
from memforest_core.index.vector_index import Point, PointKind, SparseVector, VectorIndex
from tests.contract.index.builders import ACME, ALICE, BOB, DIMENSION, direction, keys, named, point, querying, terms

# Local mode has no payload indexes and says so each time.
pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect:UserWarning")


def found(index: VectorIndex, vector: Any = None, **changes: Any) -> list[UUID]:
    [hits] = index.search([querying(vector, **changes)])
    return [hit.id for hit in hits]


class TestWrites:
    def test_a_point_written_twice_is_there_once(self, index: VectorIndex) -> None:
        one = point()
        index.upsert([one])
        index.upsert([one])
        assert index.count(ACME) == 1
        assert found(index) == [one.id]

    def test_a_newer_version_replaces_vector_terms_and_payload(self, index: VectorIndex) -> None:
        old = point(version=3, tree_kind="entity", sparse=terms(t1=1.0))
        new = replace(old, version=4, dense=direction(0, 1), sparse=terms(t2=1.0), tree_kind="scene")
        index.upsert([old])
        index.upsert([new])
        [[hit], by_old_term, [by_new_term]] = index.search(
            [querying(direction(0, 1), tree_kinds=("scene",)), querying(terms(t1=1.0)), querying(terms(t2=1.0))]
        )
        assert hit.score == pytest.approx(1.0, abs=1e-5)
        assert list(by_old_term) == []
        assert by_new_term.id == old.id
        assert found(index, tree_kinds=("entity",)) == []

    @pytest.mark.parametrize("late_version", [1, 2])
    def test_a_late_writer_of_an_older_or_equal_version_changes_nothing(
        self, index: VectorIndex, late_version: int
    ) -> None:
        current = point(version=2, dense=direction(1), tree_kind="entity")
        late = replace(current, version=late_version, dense=direction(0, 1), tree_kind="scene")
        index.upsert([current])
        index.upsert([late])
        assert index.versions([current.key]) == {current.id: 2}
        assert found(index, tree_kinds=("entity",), min_score=0.9) == [current.id]

    def test_a_stale_point_does_not_hold_back_the_rest_of_its_batch(self, index: VectorIndex) -> None:
        newer, stale, fresh = point(version=9), point(version=9), point(version=1)
        index.upsert([newer, stale])
        index.upsert([replace(newer, version=10), replace(stale, version=8), fresh])
        ids = [newer.id, stale.id, fresh.id]
        assert index.versions(keys(*ids)) == {newer.id: 10, stale.id: 9, fresh.id: 1}

    def test_of_one_id_twice_in_a_batch_the_newest_stays(self, index: VectorIndex) -> None:
        one = point(version=2, dense=direction(0, 1))
        index.upsert([replace(one, version=1), one, replace(one, version=1)])
        assert index.versions([one.key]) == {one.id: 2}
        assert found(index, direction(0, 1), min_score=0.9) == [one.id]

    def test_points_that_are_named_are_scored_as_they_are_now(self, index: VectorIndex) -> None:
        """Given points that were scored before, when one is overwritten and another is deleted, written again by a
        late writer or made, then each is scored as it is now."""
        one, two, three = (point(version=5, dense=direction(1)) for _ in range(3))

        def scores() -> dict[UUID, float]:
            ids = (one.id, two.id, three.id)
            [hits] = index.search([querying(direction(2, 0), kinds=(PointKind.FACT,), ids=ids, limit=3)])
            return {hit.id: round(hit.score, 4) for hit in hits}

        index.upsert([one, two])
        assert scores() == scores() == {one.id: 1.0, two.id: 1.0}
        index.upsert([replace(one, version=6, dense=direction(1, 1, 1, 1)), three])
        index.delete([two.key])
        assert scores() == scores() == {one.id: 0.5, three.id: 1.0}
        index.upsert([replace(one, version=4)])
        assert scores() == {one.id: 0.5, three.id: 1.0}
        index.upsert([replace(two, dense=direction(0, 1))])
        assert scores() == {one.id: 0.5, two.id: 0.0, three.id: 1.0}

    def test_named_points_are_found_only_if_they_are_of_the_wanted_kind(self, index: VectorIndex) -> None:
        one = point()
        index.upsert([one])
        for kind, expected in ((PointKind.FACT, [one.id]), (PointKind.CELL, []), (PointKind.FACT, [one.id])):
            [hits] = index.search([querying(direction(1), kinds=(kind,), ids=(one.id,), limit=1)])
            assert [hit.id for hit in hits] == expected

    def test_a_deleted_point_can_be_written_again(self, index: VectorIndex) -> None:
        one = point(version=5)
        index.upsert([one])
        index.delete([one.key])
        index.upsert([replace(one, version=1)])
        assert index.versions([one.key]) == {one.id: 1}

    def test_a_point_without_terms_is_found_by_its_vector_only(self, index: VectorIndex) -> None:
        silent = point(sparse=SparseVector((), ()))
        index.upsert([silent, point()])
        assert silent.id in found(index)
        assert silent.id not in found(index, terms(t1=1.0))


TREE, OTHER_TREE, SESSION, OTHER_SESSION = (named(n) for n in ("t1", "t2", "s1", "s2"))
ROOT = point(named("root"), kind=PointKind.NODE, is_root=True, level=2, tree_id=TREE, tree_kind="entity")
INNER = point(named("inner"), kind=PointKind.NODE, level=1, tree_id=OTHER_TREE, tree_kind="scene")
CELL = point(named("cell"), kind=PointKind.CELL, session_id=SESSION)
OTHER_CELL = point(named("other cell"), kind=PointKind.CELL, session_id=OTHER_SESSION)
FACT = point(named("fact"))


class TestFilters:
    @pytest.mark.parametrize(
        ("wanted", "expected"),
        [
            ({}, [ROOT, INNER, CELL, OTHER_CELL, FACT]),
            ({"kinds": (PointKind.FACT,)}, [FACT]),
            ({"kinds": (PointKind.FACT, PointKind.CELL)}, [FACT, CELL, OTHER_CELL]),
            ({"roots_only": True}, [ROOT]),
            ({"tree_ids": (TREE,)}, [ROOT]),
            ({"tree_ids": (TREE, OTHER_TREE)}, [ROOT, INNER]),
            ({"tree_kinds": ("scene",)}, [INNER]),
            ({"tree_kinds": ("scene", "entity")}, [INNER, ROOT]),
            ({"session_ids": (SESSION,)}, [CELL]),
            ({"session_ids": (SESSION, OTHER_SESSION)}, [CELL, OTHER_CELL]),
            ({"ids": (FACT.id, INNER.id, named("nobody"))}, [FACT, INNER]),
            ({"ids": ()}, []),
            ({"kinds": (PointKind.NODE,), "tree_kinds": ("entity",), "roots_only": True}, [ROOT]),
            ({"kinds": (PointKind.FACT,), "session_ids": (SESSION,)}, []),
        ],
    )
    def test_a_filter_passes_exactly_what_it_names(
        self, index: VectorIndex, wanted: dict[str, Any], expected: Sequence[Point]
    ) -> None:
        index.upsert([ROOT, INNER, CELL, OTHER_CELL, FACT])
        assert set(found(index, **wanted)) == {each.id for each in expected}
        assert set(found(index, terms(t1=1.0), **wanted)) == {each.id for each in expected}

    def test_hits_say_what_kind_they_are(self, index: VectorIndex) -> None:
        index.upsert([ROOT, CELL, FACT])
        [hits] = index.search([querying()])
        assert {hit.id: hit.kind for hit in hits} == {each.id: each.kind for each in (ROOT, CELL, FACT)}

    @pytest.mark.parametrize("one", [ROOT, CELL, FACT])
    def test_hits_of_one_wanted_kind_say_it_too(self, index: VectorIndex, one: Point) -> None:
        index.upsert([ROOT, CELL, FACT])
        everything = (ROOT.id, CELL.id, FACT.id)
        for vector in (direction(1), terms(t1=1.0)):
            for ids in (None, everything):
                [[hit]] = index.search([querying(vector, kinds=(one.kind,), ids=ids)])
                assert (hit.id, hit.kind) == (one.id, one.kind)

    @pytest.mark.parametrize(
        ("interval", "expected"),
        [
            ((0.0, 5.0), []),
            ((0.0, 10.0), ["ten to twenty"]),
            ((12.0, 13.0), ["ten to twenty"]),
            ((20.0, 29.0), ["ten to twenty"]),
            ((20.0, 30.0), ["ten to twenty", "from thirty", "until thirty"]),
            ((-math.inf, math.inf), ["ten to twenty", "from thirty", "until thirty", "ancient"]),
            ((-2e9, -1e9), ["ancient"]),
        ],
    )
    def test_overlaps_passes_known_times_that_touch_the_interval(
        self, index: VectorIndex, interval: tuple[float, float], expected: list[str]
    ) -> None:
        index.upsert(
            [
                point(named("ten to twenty"), time_start=10.0, time_end=20.0),
                point(named("from thirty"), time_start=30.0),
                point(named("until thirty"), time_end=30.0),
                point(named("ancient"), time_start=-1.5e9, time_end=-1.4e9),
                point(named("unknown")),
            ]
        )
        assert set(found(index, overlaps=interval)) == set(map(named, expected))

    def test_a_limit_and_a_least_score_cut_the_tail(self, index: VectorIndex) -> None:
        near, middle, far = (point(dense=direction(1, y)) for y in (0.0, 1.0, 9.0))
        index.upsert([far, near, middle])
        assert found(index, limit=2) == [near.id, middle.id]
        assert found(index, min_score=0.5) == [near.id, middle.id]
        assert found(index, limit=0) == []


class TestIsolation:
    def test_nothing_crosses_forests_or_tenants(self, index: VectorIndex) -> None:
        locations = [(TenantId(tenant), forest) for tenant in ("acme", "bolt") for forest in (ALICE, BOB)]
        mine = {place: point(tenant=place[0], forest_id=place[1]) for place in locations}
        index.upsert(list(mine.values()))
        everything = tuple(each.id for each in mine.values())
        for (tenant, forest), own in mine.items():
            place: dict[str, Any] = {"tenant": tenant, "forest_id": forest}
            for vector in (direction(1), terms(t1=1.0)):
                assert found(index, vector, **place) == [own.id]
                assert found(index, vector, **place, ids=everything) == [own.id]
            assert index.count(tenant, forest) == 1
        assert index.count(ACME) == 2
        assert index.count(TenantId("nobody")) == 0

    def test_versions_are_visible_only_to_the_tenant_that_owns_them(self, index: VectorIndex) -> None:
        mine, theirs = point(version=7), point(tenant=TenantId("bolt"))
        index.upsert([mine, theirs])
        assert index.versions([mine.key, *keys(theirs.id, uuid4())]) == {mine.id: 7}
        assert index.versions([]) == {}


class TestScores:
    def test_dense_order_is_that_of_brute_force_cosine(self, index: VectorIndex) -> None:
        random = np.random.default_rng(7)
        points = [point(dense=random.normal(size=DIMENSION).astype(np.float32)) for _ in range(300)]
        index.upsert(points)
        question = random.normal(size=DIMENSION).astype(np.float32)
        [hits] = index.search([querying(question, limit=25)])
        cosine = {
            each.id: float(each.dense @ question / (np.linalg.norm(each.dense) * np.linalg.norm(question)))
            for each in points
        }
        assert [hit.id for hit in hits] == sorted(cosine, key=lambda id: -cosine[id])[:25]
        for hit in hits:
            assert hit.score == pytest.approx(cosine[hit.id], abs=1e-4)

    def test_sparse_scores_weigh_terms_by_their_rarity_within_the_forest(self, index: VectorIndex) -> None:
        random = np.random.default_rng(11)
        alice = [point(sparse=_random_terms(random)) for _ in range(120)]
        # Bob's forest makes the terms that are rare in Alice's the most common of all.
        bob = [point(forest_id=BOB, sparse=terms(t38=1.0, t39=1.0)) for _ in range(400)]
        index.upsert([*alice, *bob])
        question = terms(t0=1.0, t5=0.7, t38=1.3, t39=0.9)
        [hits] = index.search([querying(question, limit=120)])
        expected = _brute_force(question, alice)
        assert {hit.id for hit in hits} == set(expected)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        for hit in hits:
            assert hit.score == pytest.approx(expected[hit.id], rel=1e-4)

    def test_rarity_counts_all_of_the_forest_not_only_what_the_filter_passes(self, index: VectorIndex) -> None:
        facts = [point(sparse=terms(t1=1.0)) for _ in range(2)]
        cells = [point(kind=PointKind.CELL, sparse=terms(t2=1.0)) for _ in range(9)]
        index.upsert([*facts, *cells])
        question = terms(t1=1.0)
        [hits] = index.search([querying(question, kinds=(PointKind.FACT,))])
        expected = _brute_force(question, [*facts, *cells])
        assert {hit.id: pytest.approx(hit.score, rel=1e-4) for hit in hits} == expected

    def test_a_point_has_one_score_whatever_filter_finds_it(self, index: VectorIndex) -> None:
        """Given points of two kinds, when they are found by id, by kind, or both, then scores are those of the forest."""
        random = np.random.default_rng(13)
        points = [
            point(
                kind=PointKind.CELL if number % 3 else PointKind.FACT,
                dense=random.normal(size=DIMENSION).astype(np.float32),
                sparse=_random_terms(random),
            )
            for number in range(90)
        ]
        index.upsert(points)
        some = [each for each in points[:40] if each.kind is PointKind.CELL]
        ids = tuple(each.id for each in some)
        for vector in (random.normal(size=DIMENSION).astype(np.float32), terms(t0=1.0, t5=0.7, t38=1.3)):
            [hits] = index.search([querying(vector)])
            whole = {hit.id: hit.score for hit in hits}
            for changes in ({"ids": ids}, {"kinds": (PointKind.CELL,)}, {"ids": ids, "kinds": (PointKind.CELL,)}):
                [repeated] = index.search([querying(vector, **changes)])
                wanted = {
                    each.id for each in points if each.kind is PointKind.CELL and ("ids" not in changes or each in some)
                }
                assert {hit.id for hit in repeated} == wanted & whole.keys()
                for hit in repeated:
                    assert hit.score == pytest.approx(whole[hit.id], abs=1e-4)


def _random_terms(random: np.random.Generator) -> SparseVector:
    """Six of forty terms, low numbers far more often, with weights from 0.2 to 2."""
    chance = 1.0 / np.arange(1, 41)
    indices = sorted(random.choice(40, size=6, replace=False, p=chance / chance.sum()).tolist())
    return SparseVector(tuple(indices), tuple(random.uniform(0.2, 2.0, size=6).tolist()))


def _brute_force(question: SparseVector, corpus: Sequence[Point]) -> dict[UUID, float]:
    """Dot product with ln(1 + (N - n + 0.5) / (n + 0.5)) per term, for points that share one."""
    having = Counter(index for each in corpus for index in each.sparse.indices)
    requested = {
        index: weight * math.log(1 + (len(corpus) - having[index] + 0.5) / (having[index] + 0.5))
        for index, weight in zip(question.indices, question.values, strict=True)
    }
    scores: dict[UUID, float] = {}
    for each in corpus:
        shared = [
            requested[index] * weight
            for index, weight in zip(each.sparse.indices, each.sparse.values, strict=True)
            if index in requested
        ]
        if shared:
            scores[each.id] = sum(shared)
    return scores


class TestManyAtOnce:
    def test_each_query_of_a_call_gets_its_own_answer_in_order(self, index: VectorIndex) -> None:
        axes = [point(dense=direction(*[0.0] * axis, 1.0)) for axis in range(DIMENSION)]
        index.upsert([*axes, point(forest_id=BOB, sparse=terms(t5=1.0))])
        answers = index.search(
            [
                *[querying(each.dense, limit=1) for each in axes],
                querying(ids=()),
                querying(SparseVector((), ())),
                querying(terms(t5=1.0), forest_id=BOB),
                querying(terms(t5=1.0)),
            ]
        )
        assert [[hit.id for hit in hits] for hits in answers[:DIMENSION]] == [[each.id] for each in axes]
        assert [len(hits) for hits in answers[DIMENSION:]] == [0, 0, 1, 0]

    def test_two_thousand_points_with_many_versions(self, index: VectorIndex) -> None:
        points = [point(version=1 + at % 7, sparse=terms(t1=1.0)) for at in range(2_000)]
        index.upsert(points)
        assert index.count(ACME, ALICE) == 2_000
        some = points[::40]
        assert set(found(index, ids=tuple(each.id for each in some))) == {p.id for p in some}
        assert index.versions([p.key for p in some]) == {p.id: p.version for p in some}

    def test_eight_threads_write_and_search_without_losing_anything(self, index: VectorIndex) -> None:
        failures: list[BaseException] = []
        shared = point(version=0)

        def work(number: int) -> None:
            forest = ForestId(UUID(int=1000 + number))
            for step in range(12):
                own = [point(forest_id=forest) for _ in range(5)]
                index.upsert([*own, replace(shared, version=number * 12 + step)])
                [hits] = index.search([querying(forest_id=forest)])
                if len(hits) != 5 * (step + 1):
                    raise AssertionError(f"{len(hits)} of {5 * (step + 1)} own points are visible")

        def guarded(number: int) -> None:
            try:
                work(number)
            except (AssertionError, IndexUnavailable, RuntimeError, ValueError) as error:
                failures.append(error)

        threads = [threading.Thread(target=guarded, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert index.count(ACME) == 8 * 12 * 5 + 1
        assert index.versions([shared.key]) == {shared.id: 8 * 12 - 1}


class TestRefusals:
    def test_another_dimension_is_refused_with_what_to_do_and_nothing_written(self, index: VectorIndex) -> None:
        good, wide = point(), point(dense=direction(1, dimension=12))
        with pytest.raises(InvalidSettings, match=r"\(12,\).*dimension 384.*rebuild"):
            index.upsert([good, wide])
        with pytest.raises(InvalidSettings, match="rebuild"):
            index.search([querying(direction(1, dimension=12))])
        assert index.count(ACME) == 0

    def test_a_vector_that_is_not_numbers_is_refused(self, index: VectorIndex) -> None:
        with pytest.raises(InvariantViolated, match="finite"):
            index.upsert([point(dense=direction(math.nan))])

    def test_after_close_every_call_says_that_it_is_closed(self, index: VectorIndex) -> None:
        index.close()
        index.close()
        calls: list[Callable[[], object]] = [
            index.prepare,
            lambda: index.upsert([point()]),
            lambda: index.delete(keys(uuid4())),
            lambda: index.search([querying()]),
            lambda: index.versions(keys(uuid4())),
            lambda: index.count(ACME),
        ]
        for call in calls:
            with pytest.raises(IndexUnavailable, match="closed"):
                call()
