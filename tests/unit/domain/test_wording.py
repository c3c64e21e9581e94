"""Sentences that say the same in other words, and sentences that only sound alike."""

from __future__ import annotations

import pytest

from memforest_core.domain.wording import same_wording
from tests.harness.wordings import DIFFERENT, SAME, Pairs


def pairs(families: Pairs) -> list[object]:
    return [pytest.param(*pair, id=f"{family}: {pair[0]}") for family, some in families.items() for pair in some]


@pytest.mark.parametrize("one, other", pairs(DIFFERENT))
def test_sentences_of_different_meaning_are_distinguished(one: str, other: str) -> None:
    assert not same_wording(one, other)
    assert not same_wording(other, one)


@pytest.mark.parametrize("one, other", pairs(SAME))
def test_what_differs_only_in_how_it_says_it_is_the_same(one: str, other: str) -> None:
    assert same_wording(one, other)
    assert same_wording(other, one)


@pytest.mark.parametrize("word", ["left", "off", "never", "Ana", "14", "might", "without", "weekly"])
def test_a_word_that_no_table_knows_is_enough_to_distinguish_sentences(word: str) -> None:
    assert not same_wording(f"Kim {word} the station on Monday.", "Kim reached the station on Monday.")
    assert not same_wording(f"Kim reached {word} the station on Monday.", "Kim reached the station on Monday.")
