"""Operations that are killed at any point, alone, in pairs and during writes, and workers that are stopped beyond their
leases: each ends as if nobody had been disturbed. ``make kills`` has more points and all pairs."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from tests.harness.end_state import differences
from tests.harness.kill_operations import REAL, extra_turn, wrong_turns
from tests.harness.kill_process import COMMITTED, IDLE, Reported
from tests.harness.kill_runs import (
    ASKERS,
    MEANWHILE,
    STAGES,
    Arena,
    Ends,
    Point,
    Prepared,
    Run,
    against,
    arena,
    chosen,
    drawn_points,
    drawn_stops,
    unended,
)
from tests.harness.servers import SessionServers

SEED = 9
COUNTED = "UPDATE memforest.forest SET scene_seq"
DANGEROUS: tuple[Run, ...] = (
    ("erase-session", "merge-live"),
    ("erase-session", "rematerialize"),
    ("erase-owner", "rematerialize"),
    ("correct", "merge-live"),
    ("retain", "retain"),
)
"""One moves or rebuilds what the other one changes, or they share a task."""


@pytest.fixture(scope="module")
def place(servers: SessionServers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    with arena(servers, tmp_path_factory.mktemp("kill")) as ground:
        yield ground


@pytest.fixture(scope="module")
def grown(place: Arena) -> Prepared:
    return place.grown()


@pytest.fixture(scope="module")
def session(place: Arena, grown: Prepared) -> Ends:
    return place.ends_of_session(grown)


def assert_sound(place: Arena, ends: Ends, points: Sequence[Point], *, hit: bool = False) -> None:
    assert ends.unclean == []
    for outcome in place.outcomes(ends, points):
        assert (outcome.differing, outcome.unclean) == ([], []), outcome
        assert outcome.hit or not hit, outcome


@pytest.mark.parametrize("operation", REAL)
def test_ends_the_same_wherever_it_is_killed(place: Arena, grown: Prepared, operation: str) -> None:
    ends = place.ends((operation,), grown)
    at = random.Random(operation).randint(1, len(ends.events["first"]))
    assert_sound(place, ends, [Point(0, at=at)], hit=True)


@pytest.mark.parametrize(("toy", "sound"), [("counting", True), ("counting-twice", False)])
def test_a_step_that_can_not_be_repeated_is_caught(place: Arena, grown: Prepared, toy: str, sound: bool) -> None:
    """Killed right after the commit of the second step, whose progress is not stored yet."""
    ends = place.ends((toy,), grown)
    events = list(enumerate(ends.events["first"], start=1))
    _, counted, _ = [number for number, what in events if what.startswith(COUNTED)]
    at = next(number for number, what in events if what == COMMITTED and number > counted)
    (outcome,) = place.outcomes(ends, [Point(0, at=at)])
    assert outcome.hit
    assert outcome.sound is sound


@pytest.mark.release
@pytest.mark.parametrize("pair", DANGEROUS, ids="+".join)
def test_two_at_once_end_as_one_after_the_other(place: Arena, grown: Prepared, pair: Run) -> None:
    ends = place.ends(pair, grown)
    assert_sound(place, ends, drawn_points(ends, 1, SEED))


@pytest.mark.release
@pytest.mark.parametrize("run", [("erase-session", "appends"), ("import", "late")], ids="+".join)
def test_an_operation_loses_no_turn_that_a_writer_adds(place: Arena, grown: Prepared, run: Run) -> None:
    ends = place.ends(run, grown)
    assert_sound(place, ends, drawn_points(ends, 2, SEED))


@pytest.mark.release
@pytest.mark.parametrize("stage", ["extract", "index"])
def test_who_was_stopped_beyond_its_lease_changes_nothing(place: Arena, session: Ends, stage: str) -> None:
    assert any("pelican" in row for row in session.states[("nothing",)]["fact"])
    assert not any("pelican" in row for row in session.states[("erase-new-session",)]["fact"])
    assert_sound(place, session, drawn_stops(session, 2, 3, [stage])[-1:], hit=True)


def state_of(*ids: str, session: str = "bob (live)/kyoto", **changed: object) -> dict[str, list[str]]:
    turns = [
        {"session_id": session, "ordinal": at, "external_id": id_, "content": extra_turn(id_)["content"], **changed}
        for at, id_ in enumerate(ids)
    ]
    return {
        "turn": [json.dumps(turn) for turn in turns],
        "fact": [json.dumps({"text": f"one: {id_} ."}) for id_ in ids],
    }


WHOLE, ABC = [["a"]], [["a", "b", "c"]]


@pytest.mark.parametrize(
    ("operation", "state", "accepted", "wrong"),
    [
        ("erase-session", state_of("c"), ABC, ""),
        ("erase-session", state_of(), ABC, ""),
        ("erase-session", state_of("a", "c"), ABC, "lost"),
        ("correct", state_of("b", "c"), ABC, "lost"),
        ("correct", state_of("a", "b"), [["a", "b"]], ""),
        ("correct", state_of("a", "a"), WHOLE, "stored otherwise"),
        ("correct", state_of("a", content="I"), WHOLE, "stored otherwise"),
        ("correct", state_of("a", ordinal=1), WHOLE, "gaps"),
        ("correct", state_of("a") | {"fact": []}, WHOLE, "in no fact"),
        ("erase-session", state_of("a") | {"turn": []}, WHOLE, "in a fact"),
        ("erase-session", state_of("old", "a"), WHOLE, "not deleted"),
        ("erase-session", state_of("old", "a", session="bob (live)/dinner"), WHOLE, ""),
    ],
)
def test_a_turn_is_stored_once_or_deleted_with_all_before_it(
    operation: str, state: dict[str, list[str]], accepted: list[list[str]], wrong: str
) -> None:
    found = wrong_turns(operation, state, accepted)
    assert wrong in found[0] if wrong else found == []


def test_only_an_import_for_an_owner_with_a_memory_may_be_refused() -> None:
    assert unended(Reported(requested=["first"]), {}) == []
    assert unended(Reported(), {"first": "owner_exists"}) == []
    assert unended(Reported(), {"first": "not_found"}) != []
    assert unended(Reported(), {}) != []


FIRST_ONLY, SECOND_LAST, FIRST_LAST = {"fact": ["once"]}, {"fact": ["second"]}, {"fact": ["first"]}


def ends_of(run: Run) -> Ends:
    states = {ASKERS: SECOND_LAST, ASKERS[::-1]: FIRST_LAST, ASKERS[:1]: FIRST_ONLY}
    return Ends(run, Prepared("", Path()), states, {"first": [""] * 40, "second": [""] * 4}, [])


@pytest.mark.parametrize(
    ("pair", "state", "order", "right"),
    [
        (("erase-session", "merge-live"), SECOND_LAST, ASKERS, True),
        (("erase-session", "merge-live"), FIRST_LAST, ASKERS, False),
        (("erase-session", "merge-live"), FIRST_LAST, ASKERS[::-1], True),
        (("correct", "export"), SECOND_LAST, ASKERS, True),
        (("correct", "export"), FIRST_LAST, ASKERS, True),
        (("correct", "export"), {"fact": ["neither"]}, ASKERS, False),
        (("erase-owner", "merge-live"), SECOND_LAST, ["first"], True),
        (("erase-owner", "merge-live"), FIRST_LAST, ["first"], False),
    ],
)
def test_operations_that_wait_end_in_the_order_of_their_requests_and_others_in_any(
    pair: Run, state: dict[str, list[str]], order: Sequence[str], right: bool
) -> None:
    assert (against(ends_of(pair), Reported(state=state, requested=list(order))) == []) is right


def test_one_task_for_two_who_ask_is_done_once() -> None:
    ends = ends_of(("retain", "retain"))
    assert against(ends, Reported(state=FIRST_ONLY, requested=list(ASKERS), at_once=True)) == []
    assert against(ends, Reported(state=SECOND_LAST, requested=list(ASKERS), at_once=True)) != []


def test_points_are_seeded_and_within_what_an_operation_does() -> None:
    ends = ends_of(("retain", "retain"))
    points = drawn_points(ends, 30, 7)
    assert points == drawn_points(ends, 30, 7) != drawn_points(ends, 30, 8)
    assert points[0].at is None
    assert all(point.at is not None and 1 <= point.at <= len(ends.events[point.victim]) for point in points[1:])
    assert {point.victim for point in points} == set(ASKERS)


def test_stops_are_within_work_and_have_each_thing_that_happens_meanwhile() -> None:
    ends = Ends((), Prepared("", Path()), {}, {stage: [IDLE, *"abcdefgh", IDLE] for stage in STAGES}, [])
    stops = drawn_stops(ends, 6, 7)
    assert stops == drawn_stops(ends, 6, 7) != drawn_stops(ends, 6, 8)
    assert {(stop.stage, stop.meanwhile) for stop in stops} == {(a, b) for a in STAGES for b in MEANWHILE}
    assert all(stop.at is not None and 2 <= stop.at <= 9 for stop in stops)


def test_chosen_points_have_the_first_and_the_last_commit() -> None:
    ats = [point.at or 0 for point in chosen(["SELECT 1", "COMMIT", COMMITTED] * 40, 10, random.Random(7))]
    assert len(ats) == 10
    assert {3, 120} <= set(ats)
    assert all(before < after for before, after in pairwise(ats))


def test_a_row_that_is_there_twice_is_a_difference() -> None:
    assert differences({"fact": ["a", "b"]}, {"fact": ["a", "a", "b"]}) == ["fact extra: a"]
    assert differences({"fact": ["a"], "cell": ["c"]}, {"fact": ["a"]}) == ["cell missing: c"]
    assert differences({"fact": ["a", "b"]}, {"fact": ["b", "a"]}) == []
