"""A process that is stopped at its work for longer than its lease and goes on harms nothing; ``make kills`` has more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.kill_concurrent import IDLE
from tests.harness.kill_runs import MEANWHILE, STAGES, CalmSession, Prepared, ZombieArena, arena, drawn_stops
from tests.harness.servers import SessionServers

SEED = 3


@pytest.fixture(scope="module")
def place(servers: SessionServers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZombieArena]:
    with arena(servers, tmp_path_factory.mktemp("zombies"), ZombieArena) as ground:
        yield ground


@pytest.fixture(scope="module")
def calm(place: ZombieArena) -> CalmSession:
    return place.calm_session(place.grown())


def test_nothing_is_wrong_without_a_disturbance(calm: CalmSession) -> None:
    assert calm.unclean == []
    assert any("pelican" in row for row in calm.ends["nothing"]["fact"])
    assert not any("pelican" in row for row in calm.ends["erase-new-session"]["fact"])


@pytest.mark.parametrize("stage", ["extract", "index"])
def test_who_was_stopped_beyond_its_lease_changes_nothing(place: ZombieArena, calm: CalmSession, stage: str) -> None:
    for outcome in place.stops(calm, drawn_stops(calm, 2, SEED, [stage])[-1:]):
        assert outcome.stopped, outcome
        assert (outcome.differing, outcome.unclean) == ([], []), outcome


def test_points_are_seeded_within_work_and_have_each_thing_that_happens_meanwhile() -> None:
    events = {stage: [IDLE, *"abcdefgh", IDLE] for stage in STAGES}
    calm = CalmSession(Prepared("", Path()), events, {}, [])
    stops = drawn_stops(calm, 6, 7)
    assert stops == drawn_stops(calm, 6, 7) != drawn_stops(calm, 6, 8)
    assert {(stop.stage, stop.meanwhile) for stop in stops} == {(a, b) for a in STAGES for b in MEANWHILE}
    assert all(2 <= stop.at <= 9 for stop in stops)
