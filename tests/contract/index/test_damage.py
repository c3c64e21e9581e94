"""Damaged files of the embedded index: whatever they do to the engine, they are noticed and set aside."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from memforest_core.client.services.checkup import State, stopped_index
from memforest_core.errors import IndexUnavailable
from memforest_core.index.qdrant.edge_index import KILLED, EdgeIndex, IndexDamaged, read_all
from memforest_core.index.vector_index import Point, PointKind, VectorIndex
from tests.contract.index.builders import ACME, DIMENSION, MODEL, direction, keys, named, point, querying, terms
from tests.contract.index.damaged import MARK, points
from tests.harness import damaging

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect:UserWarning")

REPOSITORY = Path(__file__).parents[3]


def opened(directory: Path) -> EdgeIndex:
    index = EdgeIndex(directory, MODEL, DIMENSION)
    index.prepare()
    return index


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index with points, closed in order."""
    directory = tmp_path_factory.mktemp("whole")
    index = opened(directory)
    index.upsert(points())
    index.write_mark(MARK)
    index.close()
    return directory


@pytest.fixture
def copied(whole: Path, tmp_path: Path) -> Path:
    return shutil.copytree(whole, tmp_path / "index")


@pytest.mark.parametrize("seed", [*range(5), *(pytest.param(seed, marks=pytest.mark.release) for seed in range(5, 20))])
def test_random_damage_is_noticed_and_a_new_shard_takes_all_points(copied: Path, seed: int) -> None:
    """Given a random file damaged in a random way, when processes open it, then one of the first three goes on: either
    nothing is wrong and searches find everything, or a comparison with the rows says so; what is written then is
    complete."""
    rng = random.Random(seed)
    file = rng.choice(damaging.files(copied))
    how = rng.choice(damaging.HOW)
    damaging.damage(file, how, rng)
    for _ in range(KILLED + 1):
        run = [sys.executable, "-m", "tests.contract.index.damaged", str(copied)]
        ended = subprocess.run(run, cwd=REPOSITORY, capture_output=True, text=True, check=False)
        if ended.returncode == 0:
            break
    assert ended.returncode == 0, (file, how, ended.stderr[-2000:])
    report = json.loads(ended.stdout.splitlines()[-1])
    noticed = report["mark"] != MARK or report["complete"] is not True
    assert noticed or report["answers"] is True, (file, how, report)
    assert (report["filled"], report["answers_then"]) == (True, True), (file, how, report)


@pytest.mark.parametrize("ending", [damaging.VECTORS, damaging.TERMS, damaging.PAYLOAD])
def test_damage_under_an_open_index_is_noticed_and_set_aside(copied: Path, ending: str) -> None:
    """Given files that change while an index is open, when its points are compared, then they differ or can't be read,
    and after the next ``prepare`` the index is empty, without a mark, and takes points."""
    index = opened(copied)
    damaging.scramble(copied, ending, random.Random(1))
    try:
        assert index.differing(points())
        index.set_aside()
    except IndexUnavailable:
        index.prepare()
    assert (index.read_mark(), index.count(ACME)) == (None, 0)
    index.upsert(points(version=2))
    index.write_mark(MARK)
    assert not index.differing(points(version=2))
    index.close()


def test_nothing_is_found_in_an_index_that_was_set_aside_before_it_is_marked(copied: Path) -> None:
    """Given an index that was emptied, then a search is no answer until a comparison with the rows has begun."""
    index = opened(copied)
    index.set_aside()
    with pytest.raises(IndexUnavailable, match="is being filled from rows"):
        index.search([querying()])
    index.write_mark(MARK)
    assert list(index.search([querying()])[0]) == []
    index.close()


def test_what_was_set_aside_is_there_until_the_next_start(copied: Path) -> None:
    [shard] = copied.glob("memforest-*")
    aside = shard.with_name(f"{shard.name}.damaged")
    index = opened(copied)
    index.set_aside()
    assert read_all(aside) == len(points())
    index.close()
    opened(copied).close()
    assert not aside.exists()


def test_files_whose_opening_killed_processes_are_set_aside(copied: Path) -> None:
    """Given an opening that ended its process twice, as when it allocates more memory than there is, then the third
    begins an empty shard; given one that ended it once, then nothing is lost."""
    [shard] = copied.glob("memforest-*")
    begun = shard.with_name(f".{shard.name}.opening")
    for killed, count in ((KILLED - 1, len(points())), (KILLED, 0)):
        begun.write_bytes(b"." * killed)
        index = opened(copied)
        assert index.count(ACME) == count
        index.close()
        assert not begun.exists()


def test_a_directory_that_another_process_has_open_is_not_set_aside(copied: Path) -> None:
    owner, other = opened(copied), EdgeIndex(copied, MODEL, DIMENSION)
    with pytest.raises(IndexUnavailable, match="another process has it open") as raised:
        other.prepare()
    assert not isinstance(raised.value, IndexDamaged)
    assert owner.count(ACME) == len(points())
    owner.close()


def test_a_point_under_the_id_of_another_is_damage(copied: Path) -> None:
    """Given the engine's list of ids with a wrong one, then the point is not taken for the one that its payload names:
    a deletion would never reach it."""
    index = opened(copied)
    index.close()
    [ids] = [file for file in damaging.files(copied) if file.name == "mutable_id_tracker.mappings"]
    content = bytearray(ids.read_bytes())
    content[5] ^= 1
    ids.write_bytes(content)
    index = opened(copied)
    with pytest.raises(IndexUnavailable):
        index.scan(None, 1_000, ACME)
    index.prepare()
    assert index.count(ACME) == 0
    index.close()


def test_a_write_that_the_engine_ignores_is_refused_and_the_files_are_set_aside(copied: Path) -> None:
    """Given a log that lost its end, from which the engine counts on, when a point is written, then the write is not
    acknowledged, and after the next ``prepare`` it is done."""
    [log] = [file for file in damaging.files(copied) if file.name == "open-1"]
    log.write_bytes(log.read_bytes()[:1_000] + bytes(log.stat().st_size - 1_000))
    index = opened(copied)
    with pytest.raises(IndexDamaged, match="ignores writes"):
        index.upsert(points(version=2))
    index.prepare()
    index.upsert(points(version=2))
    index.write_mark(MARK)
    assert not index.differing(points(version=2))
    assert index.count(ACME) == len(points())
    index.close()


def test_the_doctor_reads_the_index_of_a_node_that_does_not_run(copied: Path) -> None:
    data = copied.parent / "node"
    shutil.copytree(copied, data / "qdrant")
    assert [(check.name, check.state, check.code) for check in stopped_index(data)] == [("index", State.OK, None)]
    damaging.scramble(data / "qdrant", damaging.VECTORS, random.Random(2))
    [check] = stopped_index(data)
    assert (check.state, check.code) == (State.FAIL, "index_damaged")
    assert "rebuilds the index when it starts" in check.says


@pytest.mark.parametrize(
    "changed",
    [
        {"dense": direction(0.0, 1.0)},
        {"sparse": terms(t1=1.0)},
        {"sparse": terms(t2=2.0)},
        {"sparse": terms()},
        {"kind": PointKind.CELL},
        {"session_id": UUID(int=1)},
        {"time_start": 1.0, "time_end": 2.0},
    ],
    ids=lambda changed: "-".join(changed),
)
def test_a_point_of_the_same_version_with_other_contents_differs(
    index: VectorIndex, changed: dict[str, object]
) -> None:
    written = [point(named(name), dense=direction(3.0, 4.0), sparse=terms(t1=2.0)) for name in "ab"]
    index.upsert(written)
    assert index.differing(written) == frozenset()
    other: Point = replace(written[0], **changed)  # type: ignore[arg-type]
    assert index.differing([other, written[1]]) == {named("a")}


def test_a_point_of_another_version_or_none_does_not_differ(index: VectorIndex) -> None:
    """Given a point that is missing or was written again meanwhile, then that is for the comparison of versions."""
    index.upsert([point(named("a"), version=2)])
    other = replace(point(named("a"), version=1), dense=direction(0.0, 1.0))
    assert index.differing([other, point(named("missing"))]) == frozenset()
    index.delete(keys(named("a")))
    assert index.differing([other]) == frozenset()
