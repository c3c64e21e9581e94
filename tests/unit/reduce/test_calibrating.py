"""A sample is scored on the texts that the pipeline embeds, and read without trust."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from memforest_core.errors import InvalidInput
from memforest_core.ingest.reduce.calibrating import (
    MIN_PAIRS,
    Label,
    LabelledPair,
    Thresholds,
    built_in_sample,
    calibrate,
    parse_sample,
    score,
)
from memforest_core.models.calls import CallRecord, Embedded, Step
from memforest_core.settings import ReduceSettings


class Plain:
    """An embedding of the letters of each text, in 64 dimensions."""

    model = "plain"
    dimension = 64

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str]) -> Embedded:
        self.texts.extend(texts)
        vectors = np.stack([_letters(text) for text in texts]).astype(np.float32)
        return Embedded(vectors, CallRecord(Step.EMBED, self.model, 0, 0, 0, 0.0, 0.0, "ok"))

    def embed_query(self, texts: Sequence[str]) -> Embedded:
        raise AssertionError("facts are compared with facts, not with questions")


def _letters(text: str) -> np.ndarray:
    counts = np.zeros(64)
    for char in text.casefold():
        counts[ord(char) % 64] += 1
    return counts / np.linalg.norm(counts)


def pair(a: str, b: str, label: Label = Label.OTHER, scene_a: str = "", scene_b: str = "") -> LabelledPair:
    return LabelledPair(label=label, a=a, b=b, scene_a=scene_a, scene_b=scene_b)


def test_routing_compares_the_label_too() -> None:
    """Given facts with scene labels, then routing compares origin, label and text, each embedded once."""
    embedder = Plain()
    pairs = [pair("Bob has a boat.", "Ann has a boat.", scene_a="leisure/sailing", scene_b="leisure/sailing")]
    (scored,) = score(pairs, embedder, labelled=True)
    assert sorted(embedder.texts) == ["Ann has a boat.", "Bob has a boat.", "user | leisure/sailing"]
    assert _letters("Ann has a boat.") @ _letters("Bob has a boat.") < scored.routing < 1.0


def test_without_a_chat_model_labels_are_those_of_the_offline_extractor() -> None:
    """It knows "dog" as a topic of its own and a boat as none."""
    embedder = Plain()
    score([pair("Bob has a dog.", "Ann has a boat.", scene_a="x/y", scene_b="z")], embedder, labelled=False)
    assert sorted(embedder.texts) == ["Ann has a boat.", "Bob has a dog.", "user | pets/dog"]


@pytest.mark.parametrize(
    ("scene_a", "scene_b", "gated"), [("work/job", "home/rent", True), ("work/job", "Work", False), ("work", "", False)]
)
def test_known_domains_that_differ_are_distinguished(scene_a: str, scene_b: str, gated: bool) -> None:
    (scored,) = score([pair("a", "b", scene_a=scene_a, scene_b=scene_b)], Plain(), labelled=True)
    assert scored.gated is gated


def test_the_result_has_the_settings_in_force_and_the_derived() -> None:
    result = calibrate(built_in_sample(), Plain(), ReduceSettings(scene_weak=0.1), labelled=False)
    assert result.model == "plain"
    assert result.in_force.scene_weak == 0.1
    assert result.artifact == Thresholds(0.70, 0.58, 0.88, 0.08)
    assert result.in_force_figures.other_taken > result.derived.figures.other_taken


def test_a_sample_that_is_too_small_is_the_callers_fault() -> None:
    with pytest.raises(InvalidInput, match="usable pairs") as caught:
        calibrate([pair("a", "b")], Plain(), ReduceSettings(), labelled=False)
    assert caught.value.code == "unusable_sample"


def test_the_built_in_sample_has_enough_of_each_label_and_no_pair_twice() -> None:
    pairs = built_in_sample()
    counts = Counter(pair.label for pair in pairs)
    assert min(counts[label] for label in Label) >= 3 * MIN_PAIRS
    assert len({frozenset((pair.a, pair.b)) for pair in pairs}) == len(pairs)
    assert all(pair.scene_a and pair.scene_b for pair in pairs)
    assert len({pair.scene_a.partition("/")[0] for pair in pairs}) >= 10


def test_pairs_of_one_topic_carry_one_label() -> None:
    related = {Label.SAME, Label.UPDATE, Label.SCENE}
    assert all((pair.scene_a == pair.scene_b) is (pair.label in related) for pair in built_in_sample())


def test_lines_become_pairs_and_empty_lines_nothing() -> None:
    text = '{"a": "x", "b": "y", "label": "same"}\n\n{"a": "p\u2028q", "b": "r", "label": "other", "scene_a": "s"}\n'
    first, second = parse_sample(text)
    assert (first.label, first.scene_a) == (Label.SAME, "")
    assert (second.a, second.scene_a) == ("p\u2028q", "s")


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        "null",
        '{"a": "secret", "b": "y"}',
        '{"a": "secret", "b": "y", "label": "alike"}',
        '{"a": "", "b": "secret", "label": "same"}',
        '{"a": "secret", "b": "y", "label": "same", "note": 1}',
        "[" * 100_000,
    ],
)
def test_a_line_at_fault_is_named_without_its_text(line: str) -> None:
    good = json.dumps({"a": "x", "b": "y", "label": "same"})
    with pytest.raises(InvalidInput, match="Line 2 ") as caught:
        parse_sample(f"{good}\n{line}\n")
    assert caught.value.code == "invalid_sample"
    assert "secret" not in caught.value.message
