"""Thresholds come from where a model puts known pairs; samples that can't tell are refused or warned of."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memforest_core.errors import InvalidInput
from memforest_core.ingest.reduce.calibrating import (
    ASSIGN_RATE,
    MIN_PAIRS,
    WEAK_RATE,
    Label,
    ScoredPair,
    Thresholds,
    derive,
    figures_at,
    merge_cosine,
    reached_by,
)

COSINES = st.floats(-1.0, 1.0, allow_nan=False)


def spread(label: Label, low: float, high: float, count: int = 40) -> list[ScoredPair]:
    """Pairs whose cosines lie evenly from ``low`` to ``high``."""
    return [
        ScoredPair(label, cosine) for cosine in (low + (high - low) * number / (count - 1) for number in range(count))
    ]


def sample(scene: tuple[float, float] = (0.45, 0.65), other: tuple[float, float] = (0.0, 0.40)) -> list[ScoredPair]:
    return [*spread(Label.SCENE, *scene), *spread(Label.OTHER, *other)]


@st.composite
def samples(draw: st.DrawFn) -> list[ScoredPair]:
    """Any cosines, with enough usable pairs of each label."""
    return [ScoredPair(label, draw(COSINES)) for label in Label for _ in range(MIN_PAIRS)]


def test_classes_that_differ_are_distinguished() -> None:
    """Given topics above strangers, then each threshold lies in between."""
    result = derive(sample())
    assert result.figures.scene_assigned == 1.0
    assert result.figures.other_assigned <= ASSIGN_RATE
    assert result.figures.other_taken <= WEAK_RATE
    assert result.warnings == ()


def test_another_scale_gives_other_thresholds() -> None:
    """Given the same order squeezed into [0.8, 1], as some models have it, then all thresholds move there."""
    squeezed = [replace(pair, routing=0.8 + pair.routing / 5) for pair in sample()]
    wide, narrow = derive(sample()), derive(squeezed)
    assert narrow.thresholds.scene_weak > 0.8 > wide.thresholds.scene_assign
    assert narrow.thresholds.scene_time_bonus == pytest.approx(wide.thresholds.scene_time_bonus / 5, abs=0.001)
    assert narrow.figures.scene_assigned == wide.figures.scene_assigned


def test_pairs_that_the_domain_separates_do_not_count() -> None:
    high = [ScoredPair(Label.OTHER, 0.99, gated=True)] * 20
    assert derive(sample() + high).thresholds == derive(sample()).thresholds


def test_topics_among_strangers_are_said() -> None:
    result = derive(sample(scene=(0.1, 0.3)))
    assert ["scenes will say little" in warning for warning in result.warnings] == [True]


def test_centres_are_closer_than_their_members() -> None:
    """A scene's facts have cosine 0.5; the centres of two halves of eight have 8 x 0.5 / (1 + 7 x 0.5)."""
    assert merge_cosine([0.4, 0.5, 0.6]) == pytest.approx(0.889)
    assert merge_cosine([-0.2, -0.1]) == 0.0
    assert merge_cosine([1.0]) == 1.0


def test_the_order_of_the_pairs_does_not_matter() -> None:
    shuffled = random.Random(3).sample(sample(), len(sample()))
    assert derive(shuffled) == derive(sample())


def test_figures_of_other_thresholds_can_be_had() -> None:
    """At the artifact's thresholds strangers need 0.62 without the bonus."""
    figures = figures_at(sample(), Thresholds(0.70, 0.58, 0.88, 0.08))
    assert figures.other_assigned == 0.0
    assert 0.0 < figures.scene_assigned < figures.scene_taken < 1.0


@pytest.mark.parametrize("label", [Label.SCENE, Label.OTHER])
def test_a_label_that_is_missing_is_named(label: Label) -> None:
    with pytest.raises(InvalidInput, match=f"{label} has 0"):
        derive([pair for pair in sample() if pair.label is not label])


def test_pairs_that_say_nothing_are_not_enough() -> None:
    gated = [replace(pair, gated=True) if pair.label is Label.OTHER else pair for pair in sample()]
    with pytest.raises(InvalidInput, match="other has 0"):
        derive(gated)


def test_an_empty_sample_is_refused() -> None:
    with pytest.raises(InvalidInput, match=f"{MIN_PAIRS} usable pairs"):
        derive([])


def test_cosines_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(InvalidInput, match="without direction"):
        derive([*sample(), ScoredPair(Label.SAME, float("nan"))])


def test_a_model_that_gives_every_text_one_vector_is_survived() -> None:
    """Given cosines that are all 1, then the thresholds are valid settings, and a warning is given."""
    result = derive([ScoredPair(label, 1.0) for label in Label for _ in range(MIN_PAIRS)])
    found = result.thresholds
    assert found.scene_weak < found.scene_assign < found.scene_merge == 1.0
    assert len(result.warnings) == 1


@settings(max_examples=40)
@given(samples())
def test_any_sample_gives_valid_settings_in_order(pairs: list[ScoredPair]) -> None:
    found = derive(pairs).thresholds
    assert 0.0 <= found.scene_weak < found.scene_assign < found.scene_merge <= 1.0
    assert 0.0 <= found.scene_time_bonus <= 1.0


@settings(max_examples=60)
@given(st.lists(COSINES, min_size=1, max_size=30), st.floats(0.0, 0.9), st.floats(0.0, 0.9))
def test_a_higher_rate_never_raises_the_threshold(cosines: list[float], one: float, other: float) -> None:
    few, many = sorted((one, other))
    assert reached_by(cosines, few) >= reached_by(cosines, many)
