"""Thresholds come from where a model puts known pairs; samples that can't tell are refused or warned of."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memforest_core.errors import InvalidInput
from memforest_core.ingest.reduce.calibrating import (
    ASSIGN_RATE,
    MIN_PAIRS,
    WEAK_RATE,
    Label,
    LabelledPair,
    ScoredPair,
    built_in_sample,
    derive,
    figures_at,
    merge_cosine,
    parse_sample,
    score,
    warnings,
)
from memforest_core.models.calls import CallRecord, Embedded, Step

COSINES = st.floats(-1.0, 1.0, allow_nan=False)


def spread(label: Label, low: float, high: float, count: int = 40) -> list[ScoredPair]:
    """Pairs whose cosines lie evenly from ``low`` to ``high``."""
    return [ScoredPair(label, float(cosine)) for cosine in np.linspace(low, high, count)]


def sample(scene: tuple[float, float] = (0.45, 0.65), other: tuple[float, float] = (0.0, 0.40)) -> list[ScoredPair]:
    return [*spread(Label.SCENE, *scene), *spread(Label.OTHER, *other)]


@st.composite
def samples(draw: st.DrawFn) -> list[ScoredPair]:
    """Any cosines, with enough usable pairs of each label."""
    return [ScoredPair(label, draw(COSINES)) for label in Label for _ in range(MIN_PAIRS)]


def test_classes_that_differ_are_distinguished() -> None:
    figures = figures_at(sample(), derive(sample()))
    assert figures["scene_assigned"] == 1.0
    assert figures["other_assigned"] <= ASSIGN_RATE
    assert figures["other_taken"] <= WEAK_RATE
    assert warnings(figures) == []


def test_another_scale_gives_other_thresholds() -> None:
    """Given the same order squeezed into [0.8, 1], as some models have it, then all thresholds move there."""
    wide, narrow = derive(sample()), derive([replace(pair, routing=0.8 + pair.routing / 5) for pair in sample()])
    assert narrow["scene_weak"] > 0.8 > wide["scene_assign"]
    assert narrow["scene_time_bonus"] == pytest.approx(wide["scene_time_bonus"] / 5, abs=0.001)


def test_pairs_that_the_domain_separates_do_not_count() -> None:
    high = [ScoredPair(Label.OTHER, 0.99, gated=True)] * 20
    assert derive(sample() + high) == derive(sample())


def test_topics_among_strangers_are_said() -> None:
    pairs = sample(scene=(0.1, 0.3))
    assert ["scenes will say little" in each for each in warnings(figures_at(pairs, derive(pairs)))] == [True]


def test_centres_are_closer_than_their_members() -> None:
    """A scene's facts have cosine 0.5; the centres of two halves of eight have 8 x 0.5 / (1 + 7 x 0.5)."""
    assert merge_cosine([0.4, 0.5, 0.6]) == pytest.approx(0.889)
    assert merge_cosine([-0.2, -0.1]) == 0.0


@pytest.mark.parametrize(
    ("pairs", "why"),
    [
        ([pair for pair in sample() if pair.label is Label.OTHER], "scene has 0"),
        ([replace(pair, gated=pair.label is Label.OTHER) for pair in sample()], "other has 0"),
        ([*sample(), ScoredPair(Label.SAME, float("nan"))], "without direction"),
    ],
)
def test_a_sample_that_says_nothing_is_refused(pairs: list[ScoredPair], why: str) -> None:
    with pytest.raises(InvalidInput, match=why) as caught:
        derive(pairs)
    assert caught.value.code == "unusable_sample"


@settings(max_examples=40)
@given(samples() | st.just([ScoredPair(label, 1.0) for label in Label for _ in range(MIN_PAIRS)]))
def test_any_sample_gives_valid_settings_in_order(pairs: list[ScoredPair]) -> None:
    found = derive(pairs)
    assert 0.0 <= found["scene_weak"] < found["scene_assign"] < found["scene_merge"] <= 1.0
    assert 0.0 <= found["scene_time_bonus"] <= 1.0
    assert derive(pairs[::-1]) == found


class Letters:
    """An embedding of the letters of each text, in 64 dimensions."""

    model = "plain"
    dimension = 64

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str]) -> Embedded:
        self.texts.extend(texts)
        counts = np.array([[sum(ord(char) % 64 == at for char in text) for at in range(64)] for text in texts])
        vectors = (counts / np.linalg.norm(counts, axis=1, keepdims=True)).astype(np.float32)
        return Embedded(vectors, CallRecord(Step.EMBED, self.model, 0, 0, 0, 0.0, 0.0, "ok"))

    def embed_query(self, texts: Sequence[str]) -> Embedded:
        raise AssertionError("facts are compared with facts, not with questions")


@pytest.mark.parametrize(("labelled", "label"), [(True, "leisure/sailing"), (False, "pets/dog")])
def test_routing_compares_the_label_of_the_model_or_of_the_rules_too(labelled: bool, label: str) -> None:
    embedder = Letters()
    pair = LabelledPair(label=Label.OTHER, a="Bob has a dog.", b="Ann has a boat.", scene_a="leisure/sailing")
    score([pair], embedder, labelled=labelled)
    assert sorted(embedder.texts) == ["Ann has a boat.", "Bob has a dog.", f"user | {label}"]


@pytest.mark.parametrize(
    ("scene_a", "scene_b", "gated"), [("work/job", "home/rent", True), ("work/job", "Work", False), ("work", "", False)]
)
def test_known_domains_that_differ_are_distinguished(scene_a: str, scene_b: str, gated: bool) -> None:
    pair = LabelledPair(label=Label.OTHER, a="a", b="b", scene_a=scene_a, scene_b=scene_b)
    assert [each.gated for each in score([pair], Letters(), labelled=True)] == [gated]


def test_the_built_in_sample_has_enough_of_each_label_and_no_pair_twice() -> None:
    pairs = built_in_sample()
    counts = Counter(pair.label for pair in pairs)
    assert min(counts[label] for label in Label) >= 3 * MIN_PAIRS
    assert len({frozenset((pair.a, pair.b)) for pair in pairs}) == len(pairs)
    assert all(pair.scene_a and (pair.scene_a == pair.scene_b) is (pair.label is not Label.OTHER) for pair in pairs)


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        '{"a": "secret", "b": "y"}',
        '{"a": "secret", "b": "y", "label": "alike"}',
        '{"a": "", "b": "secret", "label": "same"}',
        '{"a": "secret", "b": "y", "label": "same", "note": 1}',
        "[" * 100_000,
    ],
)
def test_a_line_at_fault_is_named_without_its_text(line: str) -> None:
    good = json.dumps({"a": "x\u2028z", "b": "y", "label": "same"}, ensure_ascii=False)
    assert [pair.a for pair in parse_sample(f"{good}\n\n")] == ["x\u2028z"]
    with pytest.raises(InvalidInput, match="Line 2 ") as caught:
        parse_sample(f"{good}\n{line}\n")
    assert caught.value.code == "invalid_sample"
    assert "secret" not in caught.value.message
