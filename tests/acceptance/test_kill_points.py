"""An operation that is killed at any point and taken over ends as one that nobody disturbed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise

import pytest

from tests.harness.end_state import differences
from tests.harness.kill_child import COMMITTED
from tests.harness.kill_operations import REAL, TOYS
from tests.harness.kill_runs import Arena, CalmRun, Prepared, arena, chosen
from tests.harness.servers import SessionServers

POINTS = 1
"""Of each operation here; ``make kills`` takes fifty."""
COUNTED = "UPDATE memforest.forest SET scene_seq"


@pytest.fixture(scope="module")
def place(servers: SessionServers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    with arena(servers, tmp_path_factory.mktemp("kill"), Arena) as ground:
        yield ground


@pytest.fixture(scope="module")
def grown(place: Arena) -> Prepared:
    return place.grown()


def sampled(calm: CalmRun) -> list[int]:
    """Seeded points, other ones of each operation."""
    events = len(calm.end.events)
    return sorted(random.Random(calm.operation).sample(range(1, events + 1), POINTS))


@pytest.mark.parametrize("operation", REAL)
def test_ends_the_same_wherever_it_is_killed(place: Arena, grown: Prepared, operation: str) -> None:
    calm = place.calm(operation, grown)
    assert calm.end.unclean == []
    for outcome in place.points(calm, sampled(calm)):
        assert outcome.killed, outcome
        assert (outcome.differing, outcome.unclean) == ([], []), f"killed at {outcome.at}: {outcome.what}"


def after_each_count(calm: CalmRun) -> list[int]:
    """Right after the commit of each step of a counting task: its progress is not retained yet."""
    events = list(enumerate(calm.end.events, start=1))
    counted = [number for number, what in events if what.startswith(COUNTED)]
    commits = [number for number, what in events if what == COMMITTED]
    return [next(commit for commit in commits if commit > number) for number in counted]


@pytest.mark.parametrize(("toy", "retained"), [("counting", True), ("counting-twice", False)])
def test_a_step_that_can_not_be_repeated_is_caught(place: Arena, grown: Prepared, toy: str, retained: bool) -> None:
    calm = place.calm(toy, grown)
    _, second, _ = after_each_count(calm)
    (outcome,) = place.points(calm, [second])
    assert outcome.killed
    assert outcome.sound is retained


def test_the_toys_are_no_operations_of_ours() -> None:
    assert not TOYS.keys() & REAL.keys()


def test_points_are_seeded_and_have_the_first_and_the_last_commit() -> None:
    events = ["SELECT 1", "COMMIT", COMMITTED] * 40
    points = chosen(events, 10, random.Random(7))
    assert points == chosen(events, 10, random.Random(7))
    assert points != chosen(events, 10, random.Random(8))
    assert len(points) == 10
    assert {3, 120} <= set(points)
    assert all(before < after for before, after in pairwise(points))


def test_an_operation_with_few_events_is_killed_at_all_of_them() -> None:
    assert chosen(["COMMIT", COMMITTED], 50, random.Random(7)) == [1, 2]


def test_a_row_that_is_there_twice_is_a_difference() -> None:
    assert differences({"fact": ["a", "b"]}, {"fact": ["a", "a", "b"]}) == ["fact extra: a"]
    assert differences({"fact": ["a"], "cell": ["c"]}, {"fact": ["a"]}) == ["cell missing: c"]
    assert differences({"fact": ["a", "b"]}, {"fact": ["b", "a"]}) == []
