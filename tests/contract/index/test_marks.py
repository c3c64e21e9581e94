"""Scans and the mark: everything stored is seen once, page by page; the mark is stored and never seen as a point."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memforest_core.domain.ids import TenantId
from memforest_core.index.qdrant import collection_schema as schema
from memforest_core.index.vector_index import PointKind, ScannedPoint, VectorIndex
from tests.contract.index.builders import ACME, ALICE, point, querying, terms

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
