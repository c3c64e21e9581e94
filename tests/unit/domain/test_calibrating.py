"""Thresholds come from where a model puts known pairs; samples that can't tell are refused or warned of."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memforest_core.domain.calibrating import (
    ASSIGN_RATE,
    MIN_PAIRS,
    WEAK_RATE,
    Label,
    ScoredPair,
    Thresholds,
    UnusableSample,
    derive,
    figures_at,
    merge_cosine,
    near_duplicate,
    reached_by,
)

COSINES = st.floats(-1.0, 1.0, allow_nan=False)


def spread(label: Label, low: float, high: float, count: int = 40) -> list[ScoredPair]:
    """Pairs whose cosines, of text and routing alike, lie evenly from ``low`` to ``high``."""
    return [
        ScoredPair(label, cosine, cosine)
        for cosine in (low + (high - low) * number / (count - 1) for number in range(count))
    ]


def sample(
    same: tuple[float, float] = (0.90, 0.97),
    update: tuple[float, float] = (0.67, 0.79),
    scene: tuple[float, float] = (0.45, 0.65),
    other: tuple[float, float] = (0.0, 0.40),
) -> list[ScoredPair]:
    return [
        *spread(Label.SAME, *same),
        *spread(Label.UPDATE, *update),
        *spread(Label.SCENE, *scene),
        *spread(Label.OTHER, *other),
    ]


@st.composite
def samples(draw: st.DrawFn) -> list[ScoredPair]:
    """Any cosines, with enough usable pairs of each label."""
    return [
        ScoredPair(label, draw(COSINES), draw(COSINES), refused=label is not Label.SAME and draw(st.booleans()))
        for label in Label
        for _ in range(MIN_PAIRS)
    ]


def test_classes_that_lie_apart_are_told_apart() -> None:
    """Given paraphrases above updates and topics above strangers, then each threshold lies in between."""
    result = derive(sample())
    assert 0.79 < result.thresholds.near_duplicate <= 0.90
    assert (result.figures.precision, result.figures.recall, result.figures.wrong) == (1.0, 1.0, 0)
    assert result.figures.scene_assigned == 1.0
    assert result.figures.other_assigned <= ASSIGN_RATE
    assert result.figures.other_taken <= WEAK_RATE
    assert result.warnings == ()


def test_another_scale_gives_other_thresholds() -> None:
    """Given the same order squeezed into [0.8, 1], as some models have it, then all thresholds move there."""
    squeezed = [replace(pair, near=0.8 + pair.near / 5, routing=0.8 + pair.routing / 5) for pair in sample()]
    wide, narrow = derive(sample()), derive(squeezed)
    assert narrow.thresholds.scene_weak > 0.8 > wide.thresholds.scene_assign
    assert narrow.thresholds.scene_time_bonus == pytest.approx(wide.thresholds.scene_time_bonus / 5, abs=0.001)
    assert narrow.figures.scene_assigned == wide.figures.scene_assigned


def test_the_threshold_is_the_lowest_that_is_precise_enough() -> None:
    pairs = [ScoredPair(Label.SAME, 0.9, 0)] * 9 + [ScoredPair(Label.UPDATE, 0.8, 0)] + spread(Label.OTHER, 0, 0.5)
    assert near_duplicate(pairs, 0.9) == (0.501, True)
    assert near_duplicate(pairs, 0.95) == (0.801, True)


def test_what_canonicalization_refuses_does_not_count() -> None:
    """Given an update above all paraphrases whose numbers differ, then it raises no threshold."""
    high = [ScoredPair(Label.UPDATE, 0.99, 0.9, refused=True)]
    assert derive(sample() + high).thresholds.near_duplicate == derive(sample()).thresholds.near_duplicate
    assert derive([*sample(), replace(high[0], refused=False)]).figures.recall < 1.0


def test_what_the_domain_keeps_apart_does_not_count() -> None:
    high = [ScoredPair(Label.OTHER, 0.1, 0.99, gated=True)] * 20
    assert derive(sample() + high).thresholds == derive(sample()).thresholds


def test_updates_above_paraphrases_are_said() -> None:
    """Given a model that puts changed facts above repeated ones, then it merges none of them and says so."""
    result = derive(sample(same=(0.70, 0.80), update=(0.85, 0.95)))
    assert result.thresholds.near_duplicate > 0.95
    assert result.figures.recall == 0.0
    assert result.figures.precision is None
    assert "can't tell repeated facts from changed ones" in result.warnings[0]


def test_few_paraphrases_above_the_updates_are_said() -> None:
    result = derive(sample(same=(0.50, 0.81)))
    assert 0.0 < result.figures.recall < 0.2
    assert "paraphrases reach the threshold" in result.warnings[0]


def test_topics_among_strangers_are_said() -> None:
    result = derive(sample(scene=(0.1, 0.3)))
    assert ["many and small" in warning for warning in result.warnings] == [True]


def test_centres_are_closer_than_their_members() -> None:
    """A scene's facts have cosine 0.5; the centres of two halves of eight have 8 x 0.5 / (1 + 7 x 0.5)."""
    assert merge_cosine([0.4, 0.5, 0.6]) == pytest.approx(0.889)
    assert merge_cosine([-0.2, -0.1]) == 0.0
    assert merge_cosine([1.0]) == 1.0


def test_the_order_of_the_pairs_does_not_matter() -> None:
    shuffled = random.Random(3).sample(sample(), len(sample()))
    assert derive(shuffled) == derive(sample())


def test_figures_of_other_thresholds_can_be_had() -> None:
    """At the artifact's thresholds all paraphrases but those under 0.93 merge; strangers need 0.62 without the bonus."""
    figures = figures_at(sample(), Thresholds(0.93, 0.70, 0.58, 0.88, 0.08))
    assert figures.precision == 1.0
    assert figures.recall == pytest.approx(0.575, abs=0.03)
    assert figures.other_assigned == 0.0
    assert 0.0 < figures.scene_assigned < figures.scene_taken < 1.0


@pytest.mark.parametrize("label", list(Label))
def test_a_label_that_is_missing_is_named(label: Label) -> None:
    with pytest.raises(UnusableSample, match=f"{label} has 0"):
        derive([pair for pair in sample() if pair.label is not label])


def test_pairs_that_say_nothing_are_not_enough() -> None:
    gated = [replace(pair, gated=True) if pair.label is Label.OTHER else pair for pair in sample()]
    with pytest.raises(UnusableSample, match="other has 0"):
        derive(gated)


def test_an_empty_sample_is_refused() -> None:
    with pytest.raises(UnusableSample, match=f"{MIN_PAIRS} usable pairs"):
        derive([])


@pytest.mark.parametrize("precision", [0.0, -1.0, 1.01, float("nan")])
def test_a_target_that_is_no_share_is_refused(precision: float) -> None:
    with pytest.raises(UnusableSample, match="precision"):
        derive(sample(), precision)


def test_cosines_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(UnusableSample, match="without direction"):
        derive([*sample(), ScoredPair(Label.SAME, float("nan"), 0.5)])


def test_a_model_that_gives_every_text_one_vector_is_survived() -> None:
    """Given cosines that are all 1, then the thresholds are valid settings, and both warnings are given."""
    result = derive([ScoredPair(label, 1.0, 1.0) for label in Label for _ in range(MIN_PAIRS)])
    found = result.thresholds
    assert found.near_duplicate == 1.0
    assert found.scene_weak < found.scene_assign < found.scene_merge == 1.0
    assert len(result.warnings) == 1


@settings(max_examples=40)
@given(samples())
def test_any_sample_gives_valid_settings_in_order(pairs: list[ScoredPair]) -> None:
    found = derive(pairs).thresholds
    assert 0.0 <= found.scene_weak < found.scene_assign < found.scene_merge <= 1.0
    assert 0.0 <= found.near_duplicate <= 1.0
    assert 0.0 <= found.scene_time_bonus <= 1.0


@settings(max_examples=40)
@given(samples(), st.floats(0.5, 1.0), st.floats(0.5, 1.0))
def test_a_higher_target_never_lowers_the_threshold(pairs: list[ScoredPair], one: float, other: float) -> None:
    (low, met_low), (high, met_high) = (near_duplicate(pairs, target) for target in sorted((one, other)))
    assert met_low >= met_high
    assert low <= high


@settings(max_examples=40)
@given(samples(), st.floats(0.5, 1.0))
def test_a_target_that_is_met_holds_on_the_sample(pairs: list[ScoredPair], precision: float) -> None:
    result = derive(pairs, precision)
    _, met = near_duplicate(pairs, precision)
    if met:
        assert result.figures.precision is not None
        assert result.figures.precision >= precision - 1e-9
    else:
        assert result.figures.wrong == 0 or result.thresholds.near_duplicate == 1.0


@settings(max_examples=60)
@given(st.lists(COSINES, min_size=1, max_size=30), st.floats(0.0, 0.9), st.floats(0.0, 0.9))
def test_a_higher_rate_never_raises_the_threshold(cosines: list[float], one: float, other: float) -> None:
    few, many = sorted((one, other))
    assert reached_by(cosines, few) >= reached_by(cosines, many)
