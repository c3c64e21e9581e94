"""Verification checks, repairs and re-checks, and comes to an end whatever repairs do."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import UUID

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.index.records import PointRow, StalePoint
from memforest_core.index.vector_index import Point, PointKey, ScannedPoint, ScanPage
from memforest_core.lifecycle.verify.point_checks import PointsCheck
from memforest_core.lifecycle.verify.records import Check, Found
from memforest_core.lifecycle.verify.service import FRUITLESS_ROUNDS, PER_ROUND, Verification
from memforest_core.models.calls import OwnText, Vectors

ACME = TenantId("acme")
FOREST = ForestId(UUID(int=1))
FORESTS = [ForestId(UUID(int=n)) for n in range(1, 46)]


def row(number: int, version: int = 1, indexed: int = 1) -> PointRow:
    return PointRow(UUID(int=number), FOREST, version, indexed, deleted=False)


@dataclass
class Points:
    """Index rows and an index in memory; ``meanwhile`` happens once, right after the index was first read."""

    rows: dict[UUID, PointRow] = field(default_factory=dict)
    points: dict[UUID, int] = field(default_factory=dict)
    meanwhile: Callable[[], None] | None = None
    marked: list[UUID] = field(default_factory=list)

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

    def count(self, tenant: TenantId, forest_id: ForestId | None = None) -> int:
        return len(self.points)

    def delete(self, keys: Sequence[PointKey]) -> None:
        for key in keys:
            self.points.pop(key.id, None)

    @contextmanager
    def indexing(self, tenant: TenantId) -> Iterator[Points]:
        yield self

    def point_rows(self, ids: Sequence[UUID]) -> dict[UUID, PointRow]:
        return {id_: self.rows[id_] for id_ in ids if id_ in self.rows}

    def mark_missing(self, rows: Sequence[PointRow], found: Mapping[UUID, int]) -> int:
        self.marked += [each.id for each in rows]
        return len(rows)

    def renew_points(self, points: Sequence[UUID]) -> int:
        self.marked += [id_ for id_ in points if id_ in self.rows]
        return len(points)

    def written_points(self, ids: Collection[UUID]) -> tuple[str, list[StalePoint]]:
        """None: contents are compared on the real stores (tests/integration/test_index_rebuild.py)."""
        return "a model", []

    def known_vectors(self, model: str, texts: Collection[OwnText]) -> dict[OwnText, Vectors]:
        return {}

    def differing(self, points: Sequence[Point]) -> frozenset[UUID]:
        return frozenset()

    def find_forest(self, owner: str) -> ForestId | None:
        return FORESTS[0] if owner == "bob" else None

    def written_rows(self, after: UUID | None, limit: int, forest: ForestId | None = None) -> Sequence[PointRow]:
        return [each for id_, each in self.rows.items() if after is None or id_ > after][:limit]

    def point_ids(self, after: UUID | None, limit: int, forest: ForestId) -> Sequence[UUID]:
        return [id_ for id_ in self.rows if after is None or id_ > after][:limit]

    def overtake(self, versions: Mapping[UUID, int]) -> int:
        return len(versions)


@dataclass
class Store:
    """Forests whose violations a test scripts: one number per check."""

    points: Points
    counts: dict[Check, list[int]] = field(default_factory=dict)
    repaired: list[tuple[Check, int]] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)

    def tenants(self) -> Sequence[TenantId]:
        return [ACME, TenantId("bolt")]

    def forests(self, tenant: TenantId, after: ForestId | None, limit: int) -> Sequence[ForestId]:
        return [forest for forest in FORESTS if after is None or forest > after][:limit]

    @contextmanager
    def snapshot(self, tenant: TenantId, forests: Sequence[ForestId]) -> Iterator[Store]:
        self.groups.append(len(forests))
        yield self

    def checked(self, check: Check) -> int:
        return 1

    def violations(self, check: Check) -> Iterator[Found]:
        script = self.counts.get(check, [0])
        count = script.pop(0) if len(script) > 1 else script[0]
        return (Found(UUID(int=n), "gap") for n in range(count))

    def stale_summaries(self, budget: int) -> Iterator[Found]:
        return iter(())

    def dead(self) -> Mapping[str, int]:
        return {}

    @contextmanager
    def repairing(self, tenant: TenantId) -> Iterator[Store]:
        yield self

    def repair(self, check: Check, found: Sequence[Found]) -> int:
        self.repaired.append((check, len(found)))
        return len(found)


def verification(store: Store) -> Verification:
    return Verification(store, store.points, store.points, 800, ACME)  # type: ignore[arg-type]


def checking(points: Points) -> PointsCheck:
    return PointsCheck(points, points, False)  # type: ignore[arg-type]


def test_forests_are_looked_at_in_groups_and_all_tenants_are_added_up() -> None:
    store = Store(Points(), {Check.TURNS: [2]})
    one = verification(store).run(ACME)
    assert (one.forests, one.violations) == (45, 6)
    assert max(store.groups) == 20
    assert verification(store).run_all().violations == 12


def test_without_repair_nothing_is_written() -> None:
    store = Store(Points({UUID(int=1): row(1)}, {UUID(int=2): 1}), {Check.LEASES: [5]})
    report = verification(store).run(ACME, "bob")
    assert report.violations == 7
    assert (store.repaired, store.points.marked, list(store.points.points)) == ([], [], [UUID(int=2)])


def test_more_violations_than_fit_a_round_are_repaired_round_by_round() -> None:
    store = Store(Points(), {Check.LEASES: [5 * PER_ROUND // 2, 3 * PER_ROUND // 2, PER_ROUND // 2, 0]})
    report = verification(store).run(ACME, "bob", repair=True)
    assert (report.violations, report.repaired) == (0, 5 * PER_ROUND // 2)


def test_a_repair_that_does_not_help_is_given_up() -> None:
    store = Store(Points(), {Check.LEASES: [3]})
    report = verification(store).run(ACME, "bob", repair=True)
    assert report.violations == 3
    assert len(store.repaired) == FRUITLESS_ROUNDS


def test_what_is_persistent_is_never_given_to_repair() -> None:
    store = Store(Points(), {Check.TURNS: [3]})
    assert verification(store).run(ACME, "bob", repair=True).violations == 3
    assert store.repaired == []


def test_missing_old_and_stray_points_are_found_and_repaired() -> None:
    """Given a row without a point, one with an old point, a point without a row and one ahead of its row."""
    rows = {UUID(int=n): row(n, 2, 2) for n in (1, 2, 3, 4)}
    points = Points(rows, {UUID(int=2): 1, UUID(int=3): 2, UUID(int=4): 9, UUID(int=5): 1})
    report = verification(Store(points)).run(ACME)
    kinds = {result.check: dict(result.kinds) for result in report.checks if result.violations}
    assert kinds == {Check.INDEX_POINTS: {"missing": 1, "older": 1}, Check.ORPHAN_POINTS: {"no_row": 1, "ahead": 1}}
    repaired = verification(Store(points)).run(ACME, repair=True)
    assert (repaired.violations, repaired.repaired) == (0, 4)
    assert points.marked == [UUID(int=1), UUID(int=2)]
    assert UUID(int=5) not in points.points


def test_a_row_that_changes_while_its_point_is_looked_for_is_no_violation() -> None:
    points = Points({UUID(int=1): row(1)})
    points.meanwhile = lambda: points.rows.update({UUID(int=1): row(1, version=2)})
    assert [found for _, found in checking(points).missing(ACME, None)] == [[]]


def test_a_point_that_goes_with_its_row_while_it_is_looked_at_is_no_stray() -> None:
    points = Points({}, {UUID(int=1): 1})
    points.meanwhile = points.points.clear
    assert [found for _, found in checking(points).strays(ACME)] == [[]]


def test_points_are_scanned_for_one_forest_only_when_rows_do_not_account_for_all() -> None:
    points = Points({UUID(int=1): row(1)}, {UUID(int=1): 1})
    assert verification(Store(points)).run(ACME, "bob").checks[-1].checked == 0
    points.points[UUID(int=2)] = 1
    assert verification(Store(points)).run(ACME, "bob").checks[-1].checked == 2
