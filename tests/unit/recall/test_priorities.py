"""The priority of a topic as a signal: pieces of topics that are at hand are lifted, by weight."""

from __future__ import annotations

from uuid import UUID

import pytest

from memforest_core.domain.scoring import Item, Voted
from memforest_core.recall.priorities import SIGNAL, by_priority

HOT, FADED = UUID(int=1), UUID(int=2)


def piece(number: int, score: float, *facts: UUID) -> Voted:
    cell = UUID(int=100 + number)
    return Voted(Item(place=(cell, number, 0), cell=cell, facts=facts), score, {"cell": score})


@pytest.mark.parametrize(
    ("weight", "order"),
    [(0.0, [0, 1, 2]), (0.1, [0, 1, 2]), (1.0, [1, 0, 2])],
)
def test_the_weight_says_how_far_a_piece_is_lifted(weight: float, order: list[int]) -> None:
    voted = [piece(0, 1.0), piece(1, 0.8, HOT), piece(2, 0.3, FADED)]
    found = by_priority(voted, {HOT: 0.5, FADED: 0.01}, weight)
    assert [one.item.place[1] for one in found] == order


def test_the_signal_is_told_and_counts_the_best_topic_once() -> None:
    [found] = by_priority([piece(0, 2.0, HOT, FADED)], {HOT: 0.5, FADED: 0.25}, 0.4)
    assert found.signals == {"cell": 2.0, SIGNAL: pytest.approx(0.4)}
    assert found.score == pytest.approx(2.4)


def test_without_topics_nothing_changes() -> None:
    voted = [piece(0, 1.0), piece(1, 0.8, HOT)]
    assert by_priority(voted, {}, 1.0) == voted
    assert by_priority([], {HOT: 1.0}, 1.0) == []
