"""Statements are lifted by their place in the order of time; a state goes first unless something contradicts it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from memforest_core.domain.ids import FactId, SessionId
from memforest_core.domain.temporal_question import Order, Series
from memforest_core.recall.records import States
from memforest_core.recall.signal_table import Candidate, Table
from memforest_core.recall.temporal import Statement, certain, lift_states, order_parts, series_parts
from tests.unit.recall.memory import START

SESSION = SessionId(UUID(int=9))
HOMES = ("live lagos", "live accra", "live nairobi", "choir sing")


def said(at: int, words: str = "", near: float = 0.0, *, often: bool = False) -> Statement:
    """A statement of its row's day."""
    return Statement(at, (START, at), frozenset(words.split()), near, often)


def order(which: Order, anchor: str = "", other: str = "") -> list[int]:
    """The rows of homes that are lifted, the most lifted first."""
    statements = [said(at, text) for at, text in enumerate(HOMES)]
    parts = order_parts(statements, statements[:3], which, anchor.split(), other.split())
    return sorted(parts, key=parts.__getitem__, reverse=True)


@pytest.mark.parametrize(
    ("which", "anchor", "other", "lifted"),
    [
        (Order.FIRST, "", "", [0, 1, 2]),
        (Order.LATEST, "", "", [2, 1, 0]),
        (Order.BEFORE, "nairobi", "", [1, 0]),
        (Order.BEFORE, "", "", [1, 0]),
        (Order.AFTER, "lagos", "", [1, 2]),
        (Order.BETWEEN, "lagos", "nairobi", [1]),
        (Order.BETWEEN, "lagos", "miami", []),
        (Order.BEFORE, "miami", "", []),
        (Order.NONE, "", "", []),
        (Order.DURATION, "", "", []),
    ],
)
def test_states_are_lifted_by_their_order_the_nearer_ones_more(
    which: Order, anchor: str, other: str, lifted: list[int]
) -> None:
    assert order(which, anchor, other) == lifted


def test_nothing_is_lifted_without_states() -> None:
    assert order_parts([], [], Order.BEFORE, ()) == {}


CARS = [said(0, near=1.0), said(1, near=0.8), said(2, near=0.9), said(3, near=0.1)]
"""The last statement is about something else."""


@pytest.mark.parametrize(
    ("series", "anchor", "lifted"),
    [
        (Series.LATEST, None, [2, 1, 0]),
        (Series.FIRST, None, [0, 1, 2]),
        (Series.BEFORE, None, [1, 0]),
        (Series.BEFORE, 1, [0]),
        (Series.AFTER, 0, [1, 2]),
        (Series.ALL, None, [0, 1, 2]),
        (Series.ENDS, None, [0, 1, 2]),
        (Series.OFTEN, None, []),
    ],
)
def test_statements_about_one_thing_are_lifted_by_their_order(
    series: Series, anchor: int | None, lifted: list[int]
) -> None:
    parts = series_parts(CARS, series, None if anchor is None else (START, anchor))
    assert sorted(parts, key=lambda at: (-parts[at], at)) == lifted


def test_how_long_needs_statements_that_are_surely_about_it() -> None:
    assert set(series_parts([said(0, near=1.0), said(1, near=0.6), said(2, near=0.75)], Series.ENDS, None)) == {0, 2}


def test_how_often_is_answered_by_a_frequency() -> None:
    assert set(series_parts([said(0, near=1.0), said(1, near=0.6, often=True)], Series.OFTEN, None)) == {1}


def row(ordinal: int, *facts: int) -> Candidate:
    return Candidate(0, (SESSION, ordinal, 0), UUID(int=8), tuple(UUID(int=fact) for fact in facts))


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
    assert bool(certain(stated(1), [row(1, 1), row(2, 2)], known).states) is is_certain


def lifted(rows: list[Candidate], scores: list[float], states: States) -> Table:
    table = Table(rows)
    table.add("cell", np.array(scores))
    scope: Any = SimpleNamespace(states=states)
    lift_states(table, [scope], {}, 1.0)
    return table


def test_the_best_statement_of_each_state_goes_first_and_says_why() -> None:
    table = lifted([row(7), row(4, 1), row(2, 1)], [5.0, 2.0, 1.0], stated(4, 2))
    assert table.ranking() == [1, 0, 2]
    assert table.signals_of(1) == {"cell": 2.0, "current": 5.0}
    assert "current" not in table.signals_of(2)


@pytest.mark.parametrize(("ordinal", "other"), [(4, 7), (7, 4)])
def test_a_state_goes_first_where_nothing_else_spoke_for_it(ordinal: int, other: int) -> None:
    table = lifted([row(other), row(ordinal, 1)], [5.0, 0.0], stated(ordinal))
    assert table.score.tolist() == [5.0, 5.0]
    assert table.ranking() == [1, 0]


@pytest.mark.parametrize("states", [stated(4), States()], ids=["said at another time", "no state"])
def test_other_turns_are_not_lifted(states: States) -> None:
    assert lifted([row(7), row(2, 1)], [5.0, 1.0], states).score.tolist() == [5.0, 1.0]
    assert lifted([], [], states).ranking() == []
