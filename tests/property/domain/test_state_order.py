"""Whatever is said, and in whatever order it arrives, the same state is current; each rule is true for all dates."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from memforest_core.domain.chain import ChainState, states_of
from memforest_core.domain.facts import Change, Statement
from memforest_core.domain.ids import FactId, SessionId
from memforest_core.domain.state_order import STATE_SLACK, Mention, Said, StoredState, arranged, placed
from memforest_core.domain.times import UNKNOWN_TIME, Precision, TimeSpan, micros

START = datetime(2024, 1, 1, tzinfo=UTC)
LOCATIONS = ("Oslo", "Bergen", "Hamar", "Narvik")


def fact(
    number: int, value: str, said: datetime, change: Change = Change.NONE, begins: int | None = None
) -> list[Said]:
    """A statement about a home; ``begins`` is so many days before it was said."""
    time = UNKNOWN_TIME
    if begins is not None:
        start = said - timedelta(days=begins)
        time = TimeSpan(start, start + timedelta(days=1), Precision.DAY)
    statement = Statement(f"Ann: {value}", time, said, "Ann", "Ann", "residence", value, change=change)
    id_ = FactId(UUID(int=number))
    stored = StoredState(id_, "ann", "residence", statement, (micros(time.start or said), 0, 0), START)
    return placed(stored, [Mention(id_, SessionId(UUID(int=9)), (number,), said)])


@st.composite
def chains(draw: st.DrawFn) -> list[Said]:
    """Statements of one chain, each said at a time of its own."""
    found: list[Said] = []
    for number in range(1, draw(st.integers(1, 12)) + 1):
        change = draw(st.sampled_from((Change.NONE, Change.SWITCH, Change.START, Change.STOP)))
        begins = draw(st.none() | st.integers(1, 900)) if change is not Change.NONE else None
        said = START + timedelta(days=draw(st.integers(0, 900)), minutes=number)
        found += fact(number, draw(st.sampled_from(LOCATIONS)), said, change, begins)
    return found


def outcome(states: list[ChainState]) -> list[tuple[FactId, FactId | None, bool]]:
    return [(state.id, state.superseded_by, state.current) for state in states]


@given(chains(), st.randoms(use_true_random=False))
def test_the_order_of_arrival_changes_nothing(said: list[Said], random: Random) -> None:
    shuffled = list(said)
    random.shuffle(shuffled)
    assert outcome(states_of("residence", shuffled)) == outcome(states_of("residence", said))


@given(chains())
def test_at_most_one_home_is_current_and_what_is_over_comes_before_what_ended_it(said: list[Said]) -> None:
    states = states_of("residence", said)
    assert sum(state.current for state in states) <= 1
    locations = {state.id: at for at, state in enumerate(states)}
    assert [state.position for state in states] == sorted(state.position for state in states)
    assert all(locations[state.id] < locations[state.superseded_by] for state in states if state.superseded_by)
    assert all((state.ended is None) == (state.superseded_by is None) for state in states)


@given(chains())
def test_nothing_is_lost_and_positions_differ(said: list[Said]) -> None:
    order = arranged(said)
    assert sorted(each.fact.id for each in order) == sorted(each.fact.id for each in said)
    positions = [each.position for each in order]
    assert positions == sorted(positions)
    assert len(set(positions)) == len(positions)


@given(st.integers(1, 800), st.integers(1, 300))
def test_a_change_said_later_ends_an_undated_state_unless_it_is_about_the_past(gap: int, before: int) -> None:
    """The state is said, and ``gap`` days later a change to another that lies ``before`` days before the state."""
    lives = fact(1, "Oslo", START)
    moved = fact(2, "Bergen", START + timedelta(days=gap), Change.SWITCH, gap + before)
    assert before < STATE_SLACK.days
    (current,) = [state.statement.value for state in states_of("residence", [*lives, *moved]) if state.current]
    assert current == "Bergen"
    past = fact(3, "Hamar", START + timedelta(days=gap), Change.SWITCH, gap + STATE_SLACK.days + 1 + before)
    (current,) = [state.statement.value for state in states_of("residence", [*lives, *past]) if state.current]
    assert current == "Oslo"


@given(st.integers(1, 800), st.integers(1, 800), st.booleans())
def test_of_two_dated_changes_the_later_date_is_current_whichever_was_said_first(
    one: int, other: int, first: bool
) -> None:
    said = START + timedelta(days=1_000)
    states = states_of(
        "residence",
        [
            *fact(1, "Oslo", said + timedelta(hours=1 if first else 3), Change.SWITCH, 900),
            *fact(2, "Bergen", said + timedelta(hours=2), Change.SWITCH, min(one, other)),
        ],
    )
    assert [(state.statement.value, state.current) for state in states] == [("Oslo", False), ("Bergen", True)]
