"""Pieces whose tokens come near to those of a question go first, by the tokens that tell pieces apart."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID, uuid4

import numpy as np
from numpy.typing import NDArray

from memforest_core.domain.scoring import Item, Voted
from memforest_core.models.token_vectors import PACKED, WIDTH, TurnTokens, pack, unpack
from memforest_core.recall.late_interaction import LOOKED_AT, SIGNAL, above_median, likeness, nearer_first, nearest
from memforest_core.recall.records import CellTokens

AXES = np.eye(WIDTH, dtype=np.float32)
NOTHING = np.empty((0, PACKED), np.uint8)


def tokens(*axes: int) -> NDArray[np.uint8]:
    """Token vectors along these axes."""
    return pack(AXES[list(axes)], AXES)


def question(*axes: int) -> NDArray[np.float32]:
    return unpack(tokens(*axes))


def world(turns: Sequence[Sequence[int]]) -> tuple[list[Voted], dict[UUID, CellTokens]]:
    """A piece for each of these turns, in falling order, each in a cell of its own."""
    voted, cells = [], {}
    for number, axes in enumerate(turns):
        cell = uuid4()
        voted.append(Voted(Item((uuid4(), 0, 0), cell, ()), 10.0 - 0.01 * number, {}))
        cells[cell] = CellTokens(0, TurnTokens(tokens(60), (tokens(*axes),)))
    return voted, cells


def order(found: Sequence[Voted], given: Sequence[Voted]) -> list[int]:
    items = [one.item for one in given]
    return [items.index(one.item) for one in found]


def test_the_piece_that_comes_nearest_goes_first() -> None:
    """Given pieces with the same tokens but one, when the question has a token of that one alone, then it goes first
    and gets all of what there is to get."""
    voted, cells = world([(1, 2), (1, 3), (1, 4), (1, 7)])
    found = nearer_first(voted, cells, question(1, 7), most=1.5)
    assert order(found, voted) == [3, 0, 1, 2]
    assert found[0].signals[SIGNAL] == 1.5
    assert found[0].score == voted[3].score + 1.5
    assert [one.score for one in found[1:]] == [one.score for one in voted[:3]]


def test_a_token_that_many_pieces_hold_counts_less() -> None:
    """Given a piece that holds two tokens of the question that most pieces hold, and one that holds a rare one, then the
    rare one wins."""
    voted, cells = world([(1, 2), *[(1, 2, 3)] * 6, (9, 4), (5, 6), (5, 8)])
    found = nearer_first(voted, cells, question(1, 2, 9), most=1.5)
    assert order(found, voted)[0] == 7


def test_of_two_that_come_as_near_the_shorter_is_ahead() -> None:
    short, long = likeness(nearest([tokens(1), tokens(1, 2, 3, 4, 5, 6)], question(1, 9)), [1, 6])
    assert short == long  # nothing is told apart: no token of the question counts
    pieces = [tokens(1), tokens(1, 2, 3, 4, 5, 6), tokens(8), tokens(7), tokens(2)]
    short, long, *_ = likeness(nearest(pieces, question(1)), [len(piece) for piece in pieces])
    assert short > long


def test_only_the_tokens_of_its_own_turn_count_for_a_piece() -> None:
    """Given a cell of two turns of which the second comes near, then its piece is lifted, and not that of the first."""
    voted, cells = world([(1,), (2,), (3,)])
    cell, session = uuid4(), uuid4()
    both = [Voted(Item((session, ordinal, 0), cell, ()), 9.0 - ordinal / 10, {}) for ordinal in (4, 5)]
    cells[cell] = CellTokens(4, TurnTokens(tokens(60), (tokens(5), tokens(7))))
    found = nearer_first([*voted, *both], cells, question(7), most=2.0)
    assert found[0].item == both[1].item
    assert SIGNAL not in next(one for one in found if one.item == both[0].item).signals


def test_where_turns_are_not_told_apart_each_has_the_whole_cell() -> None:
    """Given a cell whose tokens are in one piece, or whose turn was cut off, then all of its tokens stand for it."""
    for turns in ((tokens(5, 7),), (tokens(7), NOTHING)):
        voted, cells = world([(1,), (2,), (3,)])
        cell = uuid4()
        second = Voted(Item((uuid4(), 5, 0), cell, ()), 9.0, {})
        cells[cell] = CellTokens(4, TurnTokens(tokens(60), turns))
        assert nearer_first([*voted, second], cells, question(7), most=2.0)[0].item == second.item


def test_what_has_no_token_vectors_keeps_its_score() -> None:
    voted, cells = world([(1,), (2,), (7,)])
    unknown = Voted(Item((uuid4(), 0, 0), uuid4(), ()), 9.995, {})
    found = nearer_first([unknown, *voted], cells, question(7), most=1.0)
    assert order(found, [unknown, *voted]) == [3, 1, 0, 2]
    assert nearer_first([unknown], cells, question(7), most=1.0) == [unknown]
    assert nearer_first(voted, {}, question(7), most=1.0) == voted
    assert nearer_first([], cells, question(7), most=1.0) == []
    assert nearer_first(voted, cells, unpack(NOTHING), most=1.0) == voted


def test_only_the_best_pieces_are_looked_at() -> None:
    voted, cells = world([(1,)] * LOOKED_AT + [(7,)])
    assert order(nearer_first(voted, cells, question(7), most=5.0), voted)[-1] == LOOKED_AT


def test_shares_reach_from_the_median_to_the_best() -> None:
    shares = above_median(np.array([1.0, 2.0, 3.0, 4.0, 5.0], np.float32))
    assert shares.tolist() == [0.0, 0.0, 0.0, 0.5, 1.0]
    assert not above_median(np.full(4, 0.3, np.float32)).any()
    assert not above_median(np.array([0.3], np.float32)).any()
