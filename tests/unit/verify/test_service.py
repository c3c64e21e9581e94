"""Points and rows that change while they are compared are no violations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import UUID

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.index.records import PointRow, StalePoint
from memforest_core.index.vector_index import Point, PointKey, ScannedPoint, ScanPage
from memforest_core.lifecycle.verify.service import PointsCheck
from memforest_core.models.calls import OwnText, Vectors

ACME = TenantId("acme")
FOREST = ForestId(UUID(int=1))
ONE = UUID(int=1)


def row(version: int = 1) -> PointRow:
    return PointRow(ONE, FOREST, version, 1, deleted=False)


@dataclass
class Points:
    """Index rows and an index in memory; ``meanwhile`` happens once, right after the index was first read."""

    rows: dict[UUID, PointRow] = field(default_factory=dict)
    points: dict[UUID, int] = field(default_factory=dict)
    meanwhile: Callable[[], None] | None = None

    def _read(self) -> None:
        happens, self.meanwhile = self.meanwhile, None
        if happens is not None:
            happens()

    def versions(self, keys: Sequence[PointKey]) -> dict[UUID, int]:
        found = {key.id: self.points[key.id] for key in keys if key.id in self.points}
        self._read()
        return found

    def scan(self, cursor: str | None, limit: int, tenant: TenantId | None = None) -> ScanPage:
        found = tuple(ScannedPoint(id_, ACME, FOREST, version, "fact") for id_, version in self.points.items())
        self._read()
        return ScanPage(found, None)

    @contextmanager
    def indexing(self, tenant: TenantId) -> Iterator[Points]:
        yield self

    def point_rows(self, ids: Sequence[UUID]) -> dict[UUID, PointRow]:
        return {id_: self.rows[id_] for id_ in ids if id_ in self.rows}

    def written_rows(self, after: UUID | None, limit: int, forest: ForestId | None = None) -> Sequence[PointRow]:
        return [each for id_, each in self.rows.items() if after is None or id_ > after]

    def written_points(self, ids: Collection[UUID]) -> tuple[str, list[StalePoint]]:
        """None: contents are compared on the real stores (tests/integration/test_index_rebuild.py)."""
        return "a model", []

    def known_vectors(self, model: str, texts: Collection[OwnText]) -> dict[OwnText, Vectors]:
        return {}

    def differing(self, points: Sequence[Point]) -> frozenset[UUID]:
        return frozenset()


def checking(points: Points) -> PointsCheck:
    return PointsCheck(points.indexing, points, False)  # type: ignore[arg-type]


def test_a_row_that_changes_while_its_point_is_looked_for_is_no_violation() -> None:
    points = Points({ONE: row()})
    points.meanwhile = lambda: points.rows.update({ONE: row(version=2)})
    assert [found for _, found in checking(points).missing(ACME, None)] == [[]]


def test_a_point_that_goes_with_its_row_while_it_is_looked_at_is_no_stray() -> None:
    points = Points({}, {ONE: 1})
    points.meanwhile = points.points.clear
    assert [found for _, found in checking(points).strays(ACME)] == [[]]
