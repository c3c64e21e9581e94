"""Statements are lifted by their place in the order of time; a state goes first unless something contradicts it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import numpy as np
import pytest

from memforest_core.domain.ids import FactId, SessionId
from memforest_core.domain.temporal_question import Order
from memforest_core.recall.question import parse_question
from memforest_core.recall.records import States
from memforest_core.recall.table import Table
from memforest_core.recall.temporal import Statement, certain, lift_in_time, series_parts
from tests.harness.weights import weights
from tests.unit.recall.memory import START

SESSION = SessionId(UUID(int=9))


def said(at: int, near: float) -> Statement:
    """A statement of its candidate's day."""
    return Statement(at, (START, at), frozenset(), near)


CARS = [said(0, 1.0), said(2, 0.9), said(1, 0.8)]


@pytest.mark.parametrize(
    ("order", "anchors", "lifted"),
    [
        (Order.LATEST, (None,), [2, 1, 0]),
        (Order.FIRST, (None,), [0, 1, 2]),
        (Order.BEFORE, (None,), [1, 0]),
        (Order.BEFORE, (1,), [0]),
        (Order.BEFORE, None, []),
        (Order.AFTER, (0,), [1, 2]),
        (Order.BETWEEN, (0, 2), [1]),
        (Order.BETWEEN, None, []),
    ],
)
def test_statements_about_one_thing_are_lifted_by_their_order(
    order: Order, anchors: tuple[int | None, ...] | None, lifted: list[int]
) -> None:
    moments = None if anchors is None else tuple(None if at is None else (START, at) for at in anchors)
    parts = {each.at: part for each, part in series_parts(CARS, order, moments)}
    assert sorted(parts, key=lambda at: (-parts[at], at)) == lifted
    assert series_parts([], order, moments) == []


def table_of(*rows: tuple[int, ...]) -> Table:
    """A candidate of each turn, with these facts."""
    table = Table()
    for ordinal, *facts in rows:
        table.append(0, (SESSION, ordinal, 0), UUID(int=8), tuple(UUID(int=fact) for fact in facts))
    return table


def stated(*turns: int) -> States:
    """A state that fact 1 says in these turns."""
    return States(({FactId(UUID(int=1)): frozenset((SESSION, turn) for turn in turns)},))


@pytest.mark.parametrize(
    ("near", "is_certain"),
    [
        ({0: 1.0}, True),
        ({0: 1.0, 1: 0.7}, True),
        ({0: 1.0, 1: 0.9}, False),
        ({0: 0.2, 1: 1.0}, False),
        ({1: 1.0}, True),
        ({}, True),
    ],
    ids=["nothing later", "later and farther", "later and as near", "far itself", "not among them", "no series"],
)
def test_a_state_is_left_out_when_a_later_statement_contradicts_it(near: dict[int, float], is_certain: bool) -> None:
    known = {at: (part, (START, at)) for at, part in near.items()}
    assert bool(certain(stated(1), table_of((1, 1), (2, 2)), known).states) is is_certain


def lifted(rows: list[tuple[int, ...]], scores: list[float], states: States) -> Table:
    table = table_of(*rows)
    table.add("cell", np.array(scores))
    scope: Any = SimpleNamespace(states=states)
    lift_in_time(cast(Any, None), table, [scope], parse_question("Who is there?"), weights(current=1.0))
    return table


def test_the_best_statement_of_each_state_goes_first_and_says_why() -> None:
    table = lifted([(7,), (4, 1), (2, 1)], [5.0, 2.0, 1.0], stated(4, 2))
    assert table.ranking() == [1, 0, 2]
    assert table.signals_of(1) == {"cell": 2.0, "current": 5.0}
    assert "current" not in table.signals_of(2)


@pytest.mark.parametrize(("ordinal", "other"), [(4, 7), (7, 4)])
def test_a_state_goes_first_where_nothing_else_spoke_for_it(ordinal: int, other: int) -> None:
    table = lifted([(other,), (ordinal, 1)], [5.0, 0.0], stated(ordinal))
    assert table.score.tolist() == [5.0, 5.0]
    assert table.ranking() == [1, 0]


@pytest.mark.parametrize("states", [stated(4), States()], ids=["said at another time", "no state"])
def test_other_turns_are_not_lifted(states: States) -> None:
    assert lifted([(7,), (2, 1)], [5.0, 1.0], states).score.tolist() == [5.0, 1.0]
    assert lifted([], [], states).ranking() == []
