"""How signals become one score."""

from __future__ import annotations

from uuid import UUID

import pytest

from memforest_core.domain.scoring import Scores, coverage, floor_of, fused, scaled
from tests.harness.weights import weights


def ident(number: int) -> UUID:
    return UUID(int=number)


class TestScaled:
    def test_the_best_of_a_list_is_one(self) -> None:
        assert scaled([8.0, 2.0]) == [1.0, 0.25]

    def test_equal_scores_stay_equal_and_are_the_best(self) -> None:
        assert scaled([3.0, 3.0]) == [1.0, 1.0]

    def test_what_is_not_above_zero_counts_nothing(self) -> None:
        assert scaled([0.5, 0.0, -0.4]) == [1.0, 0.0, 0.0]
        assert scaled([-0.1, -0.2]) == [0.0, 0.0]
        assert scaled([None, 4.0, None, 2.0]) == [0.0, 1.0, 0.0, 0.5]


class TestFloor:
    def test_a_model_that_puts_strangers_near_zero_has_none(self) -> None:
        assert floor_of([0.6, 0.5, *[0.1] * 50]) == 0.0
        assert floor_of([0.6, 0.5, *[0.4] * 50]) == 0.0

    def test_in_a_narrow_band_the_median_gets_half(self) -> None:
        """Given cosines from 0.8 to 0.9, when they are scaled above the floor, then the median has half of the best."""
        cosines = [0.80 + 0.001 * number for number in range(101)]
        floor = floor_of(cosines)
        assert floor == pytest.approx(0.80)
        ids = [ident(number) for number in range(101)]
        scores = Scores(dense=dict(zip(ids, cosines, strict=True)))
        spread = fused(scores, weights(), None, floor)
        assert spread[ids[100]] == 1.0
        assert spread[ids[50]] == pytest.approx(0.5)
        assert fused(scores, weights())[ids[0]] > 0.88

    def test_too_few_have_no_floor(self) -> None:
        assert floor_of([0.9] * 19) == 0.0
        assert floor_of([]) == 0.0


class TestFused:
    def test_lists_on_different_scales_count_alike(self) -> None:
        scores = Scores({ident(1): 20.0, ident(2): 10.0}, {ident(1): 0.2, ident(2): 0.4})
        assert fused(scores, weights()) == {ident(1): 1.5, ident(2): 1.5}

    def test_a_point_in_one_list_only_gets_nothing_from_the_other(self) -> None:
        scores = Scores({ident(1): 20.0}, {ident(2): 0.4})
        assert fused(scores, weights(dense=0.5)) == {ident(1): 1.0, ident(2): 0.5}

    def test_of_some_points_each_list_is_scaled_among_them(self) -> None:
        scores = Scores({ident(1): 20.0, ident(2): 5.0, ident(3): 1.0}, {ident(2): 0.4, ident(4): -0.1})
        some = [ident(3), ident(2), ident(2), ident(4), ident(9)]
        assert fused(scores, weights(), some) == {ident(2): 2.0, ident(3): 0.2, ident(4): 0.0}
        alone = Scores({ident(2): 5.0, ident(3): 1.0}, {ident(2): 0.4, ident(4): -0.1})
        assert fused(scores, weights(), some) == fused(alone, weights())
        assert fused(scores, weights(), []) == {}

    def test_a_weight_of_zero_switches_a_signal_off(self) -> None:
        scores = Scores({ident(1): 20.0}, {ident(1): 0.1, ident(2): 0.4})
        assert fused(scores, weights(dense=0))[ident(2)] == 0.0


class TestCoverage:
    def test_all_terms_are_full_coverage_and_none_is_none(self) -> None:
        assert coverage({"dog", "park"}, [{"dog", "park"}, {"tea"}]) == [1.0, 0.0]

    def test_a_rare_term_counts_more_than_a_common_one(self) -> None:
        texts = [{"dog"}, {"dog"}, {"dog"}, {"violin"}]
        fractions = coverage({"dog", "violin"}, texts)
        assert fractions[3] > fractions[0]

    def test_a_question_without_terms_covers_nothing(self) -> None:
        assert coverage(set(), [{"dog"}]) == [0.0]
