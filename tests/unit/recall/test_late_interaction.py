"""Candidates whose tokens come near to those of a question go first, by the tokens that few candidates have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID, uuid4

import numpy as np
import pytest
from numpy.typing import NDArray

from memforest_core.models.token_vectors import PACKED, WIDTH, TurnTokens, pack, unpack
from memforest_core.recall.records import CellTokens
from memforest_core.recall.score import above_median, likeness, nearest, token_column
from memforest_core.recall.table import Table

AXES = np.eye(WIDTH, dtype=np.float32)
NOTHING = np.empty((0, PACKED), np.uint8)


def tokens(*axes: int) -> NDArray[np.uint8]:
    """Token vectors along these axes."""
    return pack(AXES[list(axes)], AXES)


def question(*axes: int) -> NDArray[np.float32]:
    return unpack(tokens(*axes))


def world(turns: Sequence[Sequence[int]]) -> tuple[Table, dict[UUID, CellTokens]]:
    """A candidate for each of these turns, each in a cell of its own."""
    table, cells = Table(), {}
    for axes in turns:
        table.append(0, (uuid4(), 0, 0), cell := uuid4())
        cells[cell] = CellTokens(0, TurnTokens(tokens(60), (tokens(*axes),)))
    return table, cells


def column(table: Table, cells: Mapping[UUID, CellTokens], requested: NDArray[np.float32]) -> list[float]:
    return token_column(table, range(len(table)), cells, requested).tolist()


def test_the_candidate_that_comes_nearest_gets_all() -> None:
    """Given candidates with the same tokens but one, when the question has a token of that one alone, then it gets all
    that there is to get, and the others nothing."""
    table, cells = world([(1, 2), (1, 3), (1, 4), (1, 7)])
    assert column(table, cells, question(1, 7)) == [0.0, 0.0, 0.0, 1.0]


def test_a_token_that_many_candidates_have_counts_less() -> None:
    """Given a candidate with two tokens of the question that most candidates have, and one with a rare one, then the
    rare one wins."""
    table, cells = world([(1, 2), *[(1, 2, 3)] * 6, (9, 4), (5, 6), (5, 8)])
    assert np.argmax(column(table, cells, question(1, 2, 9))) == 7


def test_of_two_that_come_as_near_the_shorter_is_ahead() -> None:
    short, long = likeness(nearest([tokens(1), tokens(1, 2, 3, 4, 5, 6)], question(1, 9)), [1, 6])
    assert short == long  # no token of the question counts: none is rarer in one
    texts = [tokens(1), tokens(1, 2, 3, 4, 5, 6), tokens(8), tokens(7), tokens(2)]
    short, long, *_ = likeness(nearest(texts, question(1)), [len(text) for text in texts])
    assert short > long


def test_only_the_tokens_of_its_own_turn_count_for_a_candidate() -> None:
    """Given a cell of two turns of which the second comes near, then its candidate is lifted, and not the first's."""
    table, cells = world([(1,), (2,), (3,)])
    cell, session = uuid4(), uuid4()
    for ordinal in (4, 5):
        table.append(0, (session, ordinal, 0), cell)
    cells[cell] = CellTokens(4, TurnTokens(tokens(60), (tokens(5), tokens(7))))
    assert column(table, cells, question(7)) == [0.0, 0.0, 0.0, 0.0, 1.0]


@pytest.mark.parametrize("turns", [(tokens(5, 7),), (tokens(7), NOTHING)], ids=["one part", "cut off"])
def test_where_turns_are_not_separate_each_has_the_whole_cell(turns: tuple[NDArray[np.uint8], ...]) -> None:
    table, cells = world([(1,), (2,), (3,)])
    table.append(0, (uuid4(), 5, 0), cell := uuid4())
    cells[cell] = CellTokens(4, TurnTokens(tokens(60), turns))
    assert np.argmax(column(table, cells, question(7))) == 3


def test_a_candidate_without_token_vectors_gets_nothing() -> None:
    table, cells = world([(1,), (2,), (7,)])
    table.append(0, (uuid4(), 0, 0), uuid4())
    assert column(table, cells, question(7)) == [0.0, 0.0, 1.0, 0.0]
    for known, text in (({}, question(7)), (cells, unpack(NOTHING))):
        assert not any(column(table, known, text))
    assert column(Table(), cells, question(7)) == []


def test_shares_reach_from_the_median_to_the_best() -> None:
    fractions = above_median(np.array([1.0, 2.0, 3.0, 4.0, 5.0], np.float32))
    assert fractions.tolist() == [0.0, 0.0, 0.0, 0.5, 1.0]
    assert not above_median(np.full(4, 0.3, np.float32)).any()
    assert not above_median(np.array([0.3], np.float32)).any()
