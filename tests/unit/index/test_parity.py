"""What marks, points and rows say about each other."""

from __future__ import annotations

import hashlib
from uuid import UUID

import pytest

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.index.generations import Generation, GenerationState, judge, parse_generation
from memforest_core.index.qdrant.collection_schema import point_id, space
from memforest_core.index.rebuild import missing_points, unequal
from memforest_core.index.records import PointRow, StoredGeneration
from memforest_core.index.vector_index import PointKey, ScannedPoint

FOREST = ForestId(UUID(int=7))
OLD, NOW, NEXT, OTHER = (UUID(int=n) for n in range(1, 5))


def stored(generation: UUID | None = NOW, confirmed: str | None = "store", now: float = 1_000.0) -> StoredGeneration:
    return StoredGeneration("name", "model", 8, generation, confirmed, "store", now)


def mark(generation: UUID = NOW, previous: UUID | None = OLD, at: float = 900.0) -> Generation:
    return Generation(generation, previous, at)


@pytest.mark.parametrize(
    ("database", "index", "found"),
    [
        pytest.param(stored(), mark(), GenerationState.SAME, id="equal"),
        pytest.param(stored(now=4_500.0), mark(), GenerationState.RENEWED, id="equal, an hour old"),
        pytest.param(stored(), mark(NEXT, NOW), GenerationState.SAME, id="a process died between the two writes"),
        pytest.param(stored(), None, GenerationState.INDEX_CHANGED, id="index lost"),
        pytest.param(stored(), mark(OLD, OTHER), GenerationState.INDEX_CHANGED, id="index restored"),
        pytest.param(stored(), mark(OTHER, NEXT), GenerationState.INDEX_CHANGED, id="another index"),
        pytest.param(stored(confirmed="before"), mark(), GenerationState.STORE_RESTARTED, id="postgres restarted"),
        pytest.param(
            stored(confirmed="before"), mark(NEXT, NOW), GenerationState.STORE_RESTARTED, id="postgres restored"
        ),
        pytest.param(stored(confirmed="before"), None, GenerationState.INDEX_CHANGED, id="node without its index"),
        pytest.param(
            stored(confirmed="before"),
            mark(OTHER, NEXT),
            GenerationState.INDEX_CHANGED,
            id="postgres restored, long ago",
        ),
        pytest.param(stored(None, None), None, GenerationState.UNMARKED, id="first start"),
        pytest.param(stored(None, None), mark(), GenerationState.UNMARKED, id="new database on an old index"),
    ],
)
def test_what_two_marks_say(database: StoredGeneration, index: Generation | None, found: GenerationState) -> None:
    assert judge(database, index, 3_600.0) is found


@pytest.mark.parametrize("made", [mark(), mark(previous=None)])
def test_a_mark_is_read_as_it_was_written(made: Generation) -> None:
    assert parse_generation(made.text()) == made


@pytest.mark.parametrize("text", [None, "", "x", "1 2 3", f"{NOW} - soon"])
def test_anything_else_is_no_mark(text: str | None) -> None:
    assert parse_generation(text) is None


def point(number: int, version: int) -> ScannedPoint:
    return ScannedPoint(UUID(int=number), TenantId("acme"), FOREST, version, "fact")


def row(number: int, version: int, indexed: int, *, deleted: bool = False) -> PointRow:
    return PointRow(UUID(int=number), FOREST, version, indexed, deleted)


def test_points_without_a_row_are_orphans_and_points_no_row_saw_written_are_ahead() -> None:
    points = [point(1, 1), point(2, 3), point(3, 4), point(4, 2), point(5, 9)]
    rows = [row(2, 3, 3), row(3, 3, 3), row(4, 5, 4), row(5, 6, 6, deleted=True)]

    orphans, ahead = unequal(points, {each.id: each for each in rows})

    assert (orphans, ahead) == ([point(1, 1).key], {UUID(int=3): 4})


def test_a_point_of_the_version_that_is_wanted_but_that_nobody_confirmed_is_ahead() -> None:
    """Given a row that reached the version of a point of a lost future, then that point isn't taken for its own."""
    assert unequal([point(1, 4)], {UUID(int=1): row(1, 4, 3)}) == ([], {UUID(int=1): 4})


def test_the_point_of_a_cold_row_is_an_orphan_and_never_ahead() -> None:
    cold = PointRow(UUID(int=1), FOREST, 5, 5, deleted=False, cold=True)
    assert unequal([point(1, 9)], {cold.id: cold}) == ([point(1, 9).key], {})


def test_rows_whose_point_is_missing_or_older_lack_it() -> None:
    rows = [row(1, 2, 2), row(2, 2, 2), row(3, 2, 2), row(4, 3, 2)]
    found = {UUID(int=1): 2, UUID(int=2): 1, UUID(int=4): 3}
    assert missing_points(rows, found) == [rows[1], rows[2]]


# Names of points: the same as ever, because an index that was filled before must still be found by them


ACME, ALICE = TenantId("acme"), ForestId(UUID(int=0xA11CE))


def test_a_point_is_the_fifth_version_of_a_uuid_over_its_forest_and_its_row() -> None:
    rows = [UUID(int=number**9) for number in range(1, 200)]
    for row in rows:
        point = point_id(PointKey(ACME, ALICE, row))
        digest = hashlib.sha1(space(ACME, ALICE).bytes + row.bytes, usedforsecurity=False).digest()
        assert point == UUID(bytes=digest[:16], version=5)
        assert (point.version, hash(point), str(UUID(str(point)))) == (5, hash(UUID(str(point))), str(point))
