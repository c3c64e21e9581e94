"""How far words are trusted, by how much of the question the best hit by words contains."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import cast
from uuid import UUID

import pytest

from memforest_core.recall.candidates import Scope
from memforest_core.recall.question import Question, parse_question
from memforest_core.recall.score import LEAST, weights_for
from tests.harness.weights import weights

QUESTION = parse_question("Which camera did Ann buy in Lisbon?")


def scopes(*texts: str, cold: float = 0.0) -> list[Scope]:
    """A forest whose best hits by words have these texts; what is cold has this part of the question."""
    found = {UUID(int=number): text for number, text in enumerate(texts)}
    scope = SimpleNamespace(texts=found, outside_cells={UUID(int=99): cold} if cold else {})
    scope.held = partial(Scope.held, scope)
    return [cast(Scope, scope)]


def trusted(found: list[Scope], enough: float, question: Question = QUESTION) -> float:
    """The part of their weight that words have."""
    return weights_for(found, question, weights(lexical=1.0), enough)["lexical"]


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
def test_words_count_by_what_the_best_hit_contains(texts: list[str], share: float) -> None:
    assert len(QUESTION.wanted) == 4
    assert trusted(scopes(*texts), 0.5) == pytest.approx(share)


def test_words_keep_a_part_of_their_weight() -> None:
    long = parse_question("Which camera " + "did Ann Bea Cid Dora buy " * 2)
    assert trusted(scopes("Bob: My camera is old."), 1.0, long) == LEAST


def test_what_is_not_in_the_index_counts_too() -> None:
    assert trusted(scopes("Bob: My camera is old.", cold=0.4), 0.5) == pytest.approx(0.8)
    assert trusted(scopes(cold=0.4), 0.5) == pytest.approx(0.8)


def test_words_have_their_whole_weight_without_a_hit_or_when_it_is_switched_off() -> None:
    assert trusted(scopes(), 0.5) == 1.0
    assert trusted(scopes("Bob: My camera is old."), 0.0) == 1.0
