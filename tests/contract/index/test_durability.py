"""What survives a killed process, and who may open what: on real processes and directories."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from memforest_core.domain.ids import TenantId
from memforest_core.errors import IndexUnavailable, InvalidSettings
from memforest_core.index.qdrant import collection_schema as schema
from memforest_core.index.qdrant import edge_index
from memforest_core.index.qdrant.edge_index import EdgeIndex
from memforest_core.index.qdrant.server_index import QdrantServerIndex
from memforest_core.index.vector_index import PointKind, ScannedPoint, VectorIndex
from tests.contract.index.builders import ACME, ALICE, DIMENSION, MODEL, keys, named, point, querying, terms
from tests.harness.qdrant_http import QdrantHttp

WRITER = """
import sys
from pathlib import Path
from memforest_core.index.qdrant import edge_index
from memforest_core.index.qdrant.edge_index import EdgeIndex
from tests.contract.index.builders import DIMENSION, MODEL, named, point
edge_index.LOGGED = int(sys.argv[2])
index = EdgeIndex(Path(sys.argv[1]), MODEL, DIMENSION)
index.prepare()
for number in range(10_000):
    index.upsert([point(named(f"{number}-{each}"), version=number) for each in range(5)])
    print(number, flush=True)
"""
REPOSITORY = Path(__file__).parents[3]


@contextmanager
def process(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A Python process in the repository, killed with SIGKILL at the end."""
    started = subprocess.Popen([sys.executable, *arguments], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


def line(of: subprocess.Popen[str]) -> str:
    assert of.stdout is not None
    return of.stdout.readline().strip()


@pytest.mark.parametrize("logged", [1_000_000, 12, 1])
def test_acknowledged_points_survive_sigkill_however_often_the_log_is_cut(tmp_path: Path, logged: int) -> None:
    """Given a log that is never cut, after each third batch, and after each, when the writer is killed, then all is
    there: what the log held, and what was written out of it."""
    with process("-c", WRITER, str(tmp_path), str(logged)) as writer:
        while line(writer) != "60":
            assert writer.poll() is None
        writer.kill()
    index = EdgeIndex(tmp_path, MODEL, DIMENSION)
    index.prepare()
    expected = {named(f"{number}-{each}"): number for number in range(61) for each in range(5)}
    assert index.versions(keys(*expected)) == expected
    [hits] = index.search([querying(terms(t1=1.0), limit=100_000)])
    assert len(hits) == index.count(ACME, ALICE) >= len(expected)
    index.close()


def test_the_log_is_cut_after_so_many_points_and_when_it_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given an index that is written to and deleted from, then its engine has no need of what it wrote out."""
    monkeypatch.setattr(edge_index, "LOGGED", 10)
    index = EdgeIndex(tmp_path, MODEL, DIMENSION)
    index.prepare()
    cut = [_cut_at(tmp_path)]
    for number in range(6):
        index.upsert([point(named(f"{number}-{each}")) for each in range(5)])
        cut.append(_cut_at(tmp_path))
    index.delete(keys(*(named(f"0-{each}") for each in range(10))))
    cut.append(_cut_at(tmp_path))
    index.close()
    assert cut[0] > 0
    assert [after > before for before, after in pairwise(cut)] == [False, True, False, True, False, True, True]


def _cut_at(directory: Path) -> int:
    """The first operation that the engine would read of its log."""
    [log] = directory.glob("*/wal/first-index")
    operation: int = json.loads(log.read_text())["ack_index"]
    return operation


def test_a_second_process_gets_an_error_that_the_directory_is_taken(tmp_path: Path) -> None:
    with process("-c", WRITER, str(tmp_path), "5000") as writer:
        assert line(writer) == "0"
        with pytest.raises(IndexUnavailable, match="another process has it open"):
            EdgeIndex(tmp_path, MODEL, DIMENSION).prepare()


def test_indexes_of_several_models_and_dimensions_share_a_directory(tmp_path: Path) -> None:
    indexes = [EdgeIndex(tmp_path, model, size) for model, size in (("a/b", 4), ("a/b", 8), ("a-b", 8))]
    assert len({index.name for index in indexes}) == 3
    for index in indexes:
        index.prepare()
        assert index.count(ACME) == 0
        index.close()


def test_the_engine_says_when_it_was_not_prepared(tmp_path: Path) -> None:
    with pytest.raises(IndexUnavailable, match="prepare"):
        EdgeIndex(tmp_path, MODEL, DIMENSION).count(ACME)


def test_a_creation_that_was_cut_short_is_begun_again(tmp_path: Path) -> None:
    name = schema.collection_name(MODEL, DIMENSION)
    half_made = tmp_path / f".{name}.new" / "segments"
    half_made.mkdir(parents=True)
    index = EdgeIndex(tmp_path, MODEL, DIMENSION)
    index.prepare()
    index.upsert([point()])
    assert index.count(ACME) == 1
    index.close()


def test_a_directory_of_another_dimension_than_its_name_says_is_set_aside(tmp_path: Path) -> None:
    other = EdgeIndex(tmp_path, MODEL, 4)
    other.prepare()
    other.close()
    mine = EdgeIndex(tmp_path, MODEL, DIMENSION)
    (tmp_path / other.name).rename(tmp_path / mine.name)
    mine.prepare()
    mine.upsert([point()])
    assert mine.count(ACME) == 1
    assert (tmp_path / f"{mine.name}.damaged").is_dir()
    mine.close()


def test_a_collection_of_another_dimension_is_refused_with_what_to_do(qdrant_http: QdrantHttp) -> None:
    mine = QdrantServerIndex.at(qdrant_http.url, None, MODEL, DIMENSION, timeout_s=5)
    body = {"vectors": {schema.DENSE: {"size": 4, "distance": "Cosine"}}}
    qdrant_http.api.answer("PUT", f"/collections/{mine.name}", body)
    with pytest.raises(InvalidSettings, match=r"dimension 4 where.*dimension 384.*rebuild"):
        mine.prepare()
    mine.close()


def test_a_server_that_dies_and_comes_back_has_its_points_and_its_clients(tmp_path: Path) -> None:
    one = point()
    with process("-m", "tests.harness.qdrant_http", "--path", str(tmp_path)) as server:
        port = line(server)
        index = QdrantServerIndex.at(f"http://127.0.0.1:{port}", None, MODEL, DIMENSION, 5)
        index.prepare()
        index.upsert([one])
    with pytest.raises(IndexUnavailable, match="ConnectError"):
        index.count(ACME)
    with process("-m", "tests.harness.qdrant_http", "--path", str(tmp_path), "--port", port) as up:
        assert line(up) == port
        [[hit]] = index.search([querying()])
        assert hit.id == one.id
    index.close()


# Scans and the mark: everything stored is seen once, page by page; the mark is stored and never seen as a point


OTHER = TenantId("other")

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect in the local Qdrant")


def scanned(index: VectorIndex, limit: int, tenant: TenantId | None = None) -> list[ScannedPoint]:
    """All pages of a scan, each checked against its limit."""
    found: list[ScannedPoint] = []
    cursor: str | None = None
    while True:
        page = index.scan(cursor, limit, tenant)
        assert len(page.points) <= limit
        found += page.points
        cursor = page.cursor
        if cursor is None:
            return found


@pytest.mark.parametrize("limit", [1, 4, 10, 11, 100])
def test_a_scan_sees_every_point_once_in_one_order(index: VectorIndex, limit: int) -> None:
    stored = [point(version=number + 1, kind=PointKind.CELL) for number in range(10)]
    index.upsert(stored)
    index.write_mark("a mark")

    found = scanned(index, limit)

    assert len(found) == len(stored)
    assert set(found) == {ScannedPoint(each.id, ACME, ALICE, each.version, "cell") for each in stored}
    assert found == scanned(index, 3)


def test_a_scan_of_one_tenant_sees_that_tenants_points(index: VectorIndex) -> None:
    stored = [point() for _ in range(6)]
    theirs = [replace(point(), tenant=OTHER) for _ in range(3)]
    index.upsert([*stored, *theirs])
    assert {each.id for each in scanned(index, 2, OTHER)} == {each.id for each in theirs}
    assert {each.tenant for each in scanned(index, 2)} == {ACME, OTHER}


def test_points_deleted_during_a_scan_do_not_hide_others(index: VectorIndex) -> None:
    """Given a scan that deletes what it sees, as a sweep does, then it still comes past every point."""
    index.upsert([point() for _ in range(20)])
    seen, cursor = 0, None
    while True:
        page = index.scan(cursor, 3)
        seen += len(page.points)
        index.delete([each.key for each in page.points])
        cursor = page.cursor
        if cursor is None:
            break
    assert seen == 20
    assert scanned(index, 5) == []


def test_an_empty_index_has_no_mark_and_no_points(index: VectorIndex) -> None:
    assert index.read_mark() is None
    page = index.scan(None, 1)
    assert (page.points, page.cursor) == ((), None)


def test_the_last_mark_is_read_and_nothing_else_sees_it(index: VectorIndex) -> None:
    index.write_mark("first")
    index.write_mark("second")
    assert index.read_mark() == "second"
    assert index.count(ACME) == 0
    assert index.scan(None, 5).points == ()
    assert [list(hits) for hits in index.search([querying(), querying(terms(t1=1.0))])] == [[], []]
    index.upsert([point()])
    index.prepare()
    assert index.read_mark() == "second"
    assert index.count(ACME) == 1
    assert schema.MARK_ID not in {each.id for each in scanned(index, 1)}
