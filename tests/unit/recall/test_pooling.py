"""How far words are trusted, by what the best hit by words holds of the question."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from memforest_core.recall.current import Current
from memforest_core.recall.gathering import RawHits
from memforest_core.recall.pooling import LEAST, Part, Pool
from memforest_core.recall.question import parse_question
from tests.harness.weights import weights

QUESTION = parse_question("Which camera did Ann buy in Lisbon?")
PLACE = cast(Any, None)


def pool(*texts: str, cold: float = 0.0) -> Pool:
    """A forest whose best hits by words have these texts; what is cold holds this share of the question."""
    told = {UUID(int=number): text for number, text in enumerate(texts)}
    outside = RawHits({UUID(int=99): cold} if cold else {})
    gathered = cast(Any, SimpleNamespace(raw=RawHits({}), cold=outside, told=told))
    return Pool((Part(PLACE, gathered, Current()),))


@pytest.mark.parametrize(
    ("texts", "share"),
    [
        (["Ann: I bought a camera in Lisbon."], 1.0),
        (["Ann: The camera is new."], 1.0),
        (["Bob: My camera is old."], 0.5),
        (["Bob: My camera is old.", "Ann bought bread in Lisbon."], 1.0),
        (["Bob: It rains."], LEAST),
    ],
    ids=["most of it", "half of it", "a quarter of it", "the better of two", "nothing of it"],
)
def test_words_count_by_what_the_best_hit_holds(texts: list[str], share: float) -> None:
    assert len(QUESTION.wanted) == 4
    assert pool(*texts)._trusted(QUESTION, 0.5) == pytest.approx(share)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Which camera did Ann buy in Lisbon?", True),
        ("What was the first camera that Ann bought?", False),
        ("Which camera did Ann buy after Lisbon?", False),
    ],
)
def test_a_question_about_order_lifts_no_turn_next_but_one(text: str, kept: bool) -> None:
    """Given a question for one of several states in order, then a turn between two tellings of others gets nothing for
    it; other weights stay."""
    given = weights(next_but_one=0.7)
    found = pool()._weights(parse_question(text), given, 0.0)
    assert found == (given if kept else replace(given, next_but_one=0.0))


def test_words_keep_a_part_of_their_weight() -> None:
    assert (
        pool("Bob: My camera is old.")._trusted(parse_question("Which camera " + "did Ann Bea Cid Dora buy " * 2), 1.0)
        == LEAST
    )


def test_what_is_not_in_the_index_counts_too() -> None:
    assert pool("Bob: My camera is old.", cold=0.4)._trusted(QUESTION, 0.5) == pytest.approx(0.8)
    assert pool(cold=0.4)._trusted(QUESTION, 0.5) == pytest.approx(0.8)


def test_words_have_their_whole_weight_without_a_hit_or_when_it_is_switched_off() -> None:
    assert pool()._trusted(QUESTION, 0.5) == 1.0
    assert pool("Bob: My camera is old.")._trusted(QUESTION, 0.0) == 1.0
