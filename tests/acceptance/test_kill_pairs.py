"""Two operations at once, one of whose processes is killed, end as one after the other; ``make kills`` has all pairs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.kill_concurrent import Reported
from tests.harness.kill_operations import extra_turn, wrong_turns
from tests.harness.kill_runs import (
    ASKERS,
    KINDS,
    PAIRS,
    WRITTEN,
    Ends,
    Pair,
    PairArena,
    Prepared,
    against,
    arena,
    drawn_points,
    unended,
)
from tests.harness.servers import SessionServers

SEED = 9
DANGEROUS: tuple[Pair, ...] = (
    ("erase-session", "merge-live"),
    ("erase-session", "rematerialize"),
    ("erase-owner", "rematerialize"),
    ("correct", "merge-live"),
    ("retain", "retain"),
)
"""One moves or rebuilds what the other one changes, or they share a task."""


@pytest.fixture(scope="module")
def place(servers: SessionServers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PairArena]:
    with arena(servers, tmp_path_factory.mktemp("pairs"), PairArena) as ground:
        yield ground


@pytest.fixture(scope="module")
def grown(place: PairArena) -> Prepared:
    return place.grown()


@pytest.mark.parametrize("pair", DANGEROUS, ids="+".join)
def test_two_at_once_end_as_one_after_the_other(place: PairArena, grown: Prepared, pair: Pair) -> None:
    ends = place.ends(pair, grown)
    assert ends.unclean == []
    for outcome in place.pairs(ends, drawn_points(ends, 1, SEED)):
        assert (outcome.differing, outcome.unclean) == ([], []), outcome


@pytest.mark.parametrize("pair", [("erase-session", "appends"), ("import", "late")], ids="+".join)
def test_an_operation_loses_no_turn_that_a_writer_adds(place: PairArena, grown: Prepared, pair: Pair) -> None:
    ends = place.ends(pair, grown)
    assert ends.unclean == []
    for outcome in place.pairs(ends, drawn_points(ends, 2, SEED)):
        assert (outcome.differing, outcome.unclean) == ([], []), outcome


def test_every_kind_of_operation_is_run_with_each_kind_of_writer() -> None:
    assert {name for name, _ in WRITTEN} == set(KINDS) and len(WRITTEN) == 2 * len(KINDS)


def state_of(*ids: str, session: str = "bob (live)/kyoto", **changed: object) -> dict[str, list[str]]:
    turns = [
        {"session_id": session, "ordinal": at, "external_id": id_, "content": extra_turn(id_)["content"], **changed}
        for at, id_ in enumerate(ids)
    ]
    return {
        "turn": [json.dumps(turn) for turn in turns],
        "fact": [json.dumps({"text": f"one: {id_} ."}) for id_ in ids],
    }


def test_turns_may_be_deleted_only_with_all_turns_before_them() -> None:
    assert wrong_turns("erase-session", state_of("c"), [["a", "b", "c"]]) == []
    assert wrong_turns("erase-session", state_of(), [["a", "b", "c"]]) == []
    assert "lost" in wrong_turns("erase-session", state_of("a", "c"), [["a", "b", "c"]])[0]
    assert "lost" in wrong_turns("correct", state_of("b", "c"), [["a", "b", "c"]])[0]


def test_a_turn_is_stored_once_whole_with_a_fact_and_without_gaps() -> None:
    assert wrong_turns("correct", state_of("a", "b"), [["a", "b"]]) == []
    assert "stored otherwise" in wrong_turns("correct", state_of("a", "a"), [["a"]])[0]
    assert "stored otherwise" in wrong_turns("correct", state_of("a", content="I"), [["a"]])[0]
    assert "gaps" in wrong_turns("correct", state_of("a", ordinal=1), [["a"]])[0]
    assert "in no fact" in wrong_turns("correct", state_of("a") | {"fact": []}, [["a"]])[0]
    assert "in a fact" in wrong_turns("erase-session", state_of("a") | {"turn": []}, [["a"]])[0]


def test_earlier_turns_of_a_deleted_session_must_be_gone() -> None:
    assert "not deleted" in wrong_turns("erase-session", state_of("old", "a"), [["a"]])[0]
    assert wrong_turns("erase-session", state_of("old", "a", session="bob (live)/dinner"), [["a"]]) == []


def test_only_an_import_for_an_owner_with_a_memory_may_be_refused() -> None:
    assert unended(Reported(requested=["first"]), {}) == []
    assert unended(Reported(), {"first": "owner_exists"}) == []
    assert unended(Reported(), {"first": "not_found"}) != []
    assert unended(Reported(), {}) != []


def test_every_kind_of_operation_is_paired_with_each_other_one_and_with_itself() -> None:
    assert len(PAIRS) == len(set(PAIRS)) == len(KINDS) * (len(KINDS) + 1) // 2


FIRST_ONLY, SECOND_LAST, FIRST_LAST = {"fact": ["once"]}, {"fact": ["second"]}, {"fact": ["first"]}


def ends_of(pair: Pair) -> Ends:
    states = {ASKERS: SECOND_LAST, ASKERS[::-1]: FIRST_LAST, ASKERS[:1]: FIRST_ONLY}
    return Ends(pair, Prepared("", Path()), states, {"first": 40, "second": 4}, [])


def test_operations_that_wait_must_end_in_the_order_of_their_requests() -> None:
    ends = ends_of(("erase-session", "merge-live"))
    assert against(ends, Reported(state=SECOND_LAST, requested=list(ASKERS))) == []
    assert against(ends, Reported(state=FIRST_LAST, requested=list(ASKERS))) != []
    assert against(ends, Reported(state=FIRST_LAST, requested=list(ASKERS[::-1]))) == []


def test_operations_that_run_concurrently_may_end_in_any_order() -> None:
    ends = ends_of(("correct", "export"))
    for state in (SECOND_LAST, FIRST_LAST):
        assert against(ends, Reported(state=state, requested=list(ASKERS))) == []
    assert against(ends, Reported(state={"fact": ["neither"]}, requested=list(ASKERS))) != []


def test_one_that_was_refused_came_second() -> None:
    ends = ends_of(("erase-owner", "merge-live"))
    assert against(ends, Reported(state=SECOND_LAST, requested=["first"])) == []
    assert against(ends, Reported(state=FIRST_LAST, requested=["first"])) != []


def test_one_task_for_two_who_ask_is_done_once() -> None:
    ends = ends_of(("retain", "retain"))
    assert against(ends, Reported(state=FIRST_ONLY, requested=list(ASKERS), at_once=True)) == []
    assert against(ends, Reported(state=SECOND_LAST, requested=list(ASKERS), at_once=True)) != []


def test_points_are_seeded_and_within_what_an_operation_does() -> None:
    ends = ends_of(("retain", "retain"))
    points = drawn_points(ends, 30, 7)
    assert points == drawn_points(ends, 30, 7) != drawn_points(ends, 30, 8)
    assert points[0].at is None
    assert all(point.at is not None and 1 <= point.at <= ends.events[point.victim] for point in points[1:])
    assert {point.victim for point in points} == set(ASKERS)
