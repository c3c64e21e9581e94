"""The one state machine of work: what can happen in which state, and that nothing else can."""

from __future__ import annotations

from itertools import product

import pytest

from memforest_core.store.tables import WORK_STATES
from memforest_core.work.jobs import TRANSITIONS, WorkEvent, WorkState, advance

TABLE = """
held     release  ready
ready    claim    running
running  finish   done
running  retry    ready
running  lose     ready
running  give_up  dead
running  reopen   ready
done     give_up  dead
done     reopen   ready
dead     revive   ready
dead     discard  done
"""
LEGAL = {
    (WorkState(state), WorkEvent(event)): WorkState(after)
    for state, event, after in (line.split() for line in TABLE.strip().splitlines())
}
ILLEGAL = sorted(set(product(WorkState, WorkEvent)) - LEGAL.keys())


@pytest.mark.parametrize(("state", "event", "after"), [(*key, after) for key, after in LEGAL.items()])
def test_work_advances_by_the_table(state: WorkState, event: WorkEvent, after: WorkState) -> None:
    assert advance(state, event) is after


@pytest.mark.parametrize(("state", "event"), ILLEGAL)
def test_nothing_else_can_happen(state: WorkState, event: WorkEvent) -> None:
    with pytest.raises(ValueError, match=f"work that is {state} cannot {event}"):
        advance(state, event)


def test_the_table_is_whole() -> None:
    assert TRANSITIONS == LEGAL
    assert {event for _, event in LEGAL} == set(WorkEvent)


def test_every_state_can_still_become_done() -> None:
    """Given work in any state, then some events lead to its end: nothing is stuck for ever."""
    reaching = {WorkState.DONE}
    for _ in WorkState:
        reaching |= {state for (state, _), after in LEGAL.items() if after in reaching}
    assert reaching == set(WorkState)


def test_the_database_knows_the_same_states() -> None:
    assert f"({', '.join(repr(state.value) for state in WorkState)})" == WORK_STATES
