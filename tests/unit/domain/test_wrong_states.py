"""Corrected facts stay next to their chains: their correction ends them, and they end nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from uuid import UUID

from memforest_core.domain.chain import states_of, wrong_states
from memforest_core.domain.facts import Change
from memforest_core.domain.ids import FactId, SessionId
from memforest_core.domain.state_order import Mention, Role, Said, StoredState
from memforest_core.domain.times import micros
from tests.harness.builders import NOON, statement


def said(number: int, value: str, at_day: int, by: int | None = None) -> Said:
    moment = NOON + timedelta(days=at_day)
    fact = StoredState(
        id=FactId(UUID(int=number)),
        subject_key="bob",
        attribute="residence",
        statement=replace(
            statement(), text=f"Bob lives in {value}.", attribute="residence", value=value, change=Change.NONE
        ),
        key=(micros(moment), 0, 0),
        known_since=NOON,
        superseded_by=None if by is None else FactId(UUID(int=by)),
        superseded_at=None if by is None else NOON,
    )
    mention = Mention(fact.id, SessionId(UUID(int=1)), (0,), moment)
    return Said(fact, (mention,), (micros(moment), 0, 0, fact.id.hex))


def test_a_wrong_state_is_ended_by_its_correction() -> None:
    states = states_of("residence", [said(2, "Lima", 0), said(3, "Oslo", 9)])
    (wrong,) = wrong_states([[said(1, "Rome", 0, by=2)]], states)
    lima, oslo = states
    assert (wrong.role, wrong.superseded_by, wrong.current) == (Role.WRONG, lima.id, False)
    assert lima.supersedes == [wrong.id]
    assert lima.superseded_by == oslo.id
    assert oslo.current


def test_a_correction_that_joined_a_state_is_named_by_that_state() -> None:
    states = states_of("residence", [said(2, "Lima", 0), said(4, "Lima", 3)])
    (wrong,) = wrong_states([[said(1, "Rome", 3, by=4)]], states)
    assert wrong.superseded_by == FactId(UUID(int=2))


def test_corrections_of_corrections_form_a_row() -> None:
    states = states_of("residence", [said(3, "Oslo", 0)])
    first, second = wrong_states([[said(1, "Rome", 0, by=2)], [said(2, "Lima", 0, by=3)]], states)
    assert (first.superseded_by, second.superseded_by) == (second.id, states[0].id)


def test_a_correction_that_is_not_there_is_named_by_its_fact() -> None:
    (wrong,) = wrong_states([[said(1, "Rome", 0, by=7)], []], [])
    assert wrong.superseded_by == FactId(UUID(int=7))
