"""The scene of a sentence, by the words in it."""

from __future__ import annotations

import pytest

from memforest_core.ingest.extract.offline import english_text as scenes


@pytest.mark.parametrize(
    "sentence, label",
    [
        ("I weigh 176 pounds.", "health/fitness"),
        ("He weighs less since the spring.", "health/fitness"),
        ("The children are asleep.", "family"),
        ("A baby was born.", "family"),
        ("We met at the airport.", "travel"),
        ("The vacation was short.", "travel"),
        ("Nothing of note.", ""),
    ],
)
def test_words_tell_the_scene(sentence: str, label: str) -> None:
    assert scenes.scene_of(sentence, "") == label


def test_every_word_can_be_found_in_a_sentence() -> None:
    """Given the words of all scenes, then each is one that a sentence is split into, and means its own scene."""
    for scene, words in scenes._scenes().items():
        assert {scenes.scene_of(word.upper(), "") for word in words} == {scene}


def test_an_attribute_decides_before_words() -> None:
    assert scenes.scene_of("My dog weighs more than the children.", "weight") == "health/fitness"
