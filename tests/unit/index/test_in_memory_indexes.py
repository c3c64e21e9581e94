"""In-memory indexes are built for forests that are searched often, and hide no change."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from uuid import UUID

import numpy as np
import pytest

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.errors import IndexUnavailable
from memforest_core.index.memory import in_memory_indexes as module
from memforest_core.index.memory.in_memory_indexes import SEARCHES_BEFORE, Forest, InMemoryIndexes
from memforest_core.index.vector_index import (
    DenseVector,
    IndexFilter,
    IndexQuery,
    Point,
    PointKey,
    PointKind,
    SparseVector,
)
from tests.harness.timing import until

ACME = TenantId("acme")
DIMENSION = 16
FACTS: Forest = (ACME, ForestId(UUID(int=1)))
OTHERS: Forest = (ACME, ForestId(UUID(int=2)))
ROWS = [UUID(int=number) for number in range(1, 41)]


@pytest.fixture(autouse=True)
def of_few_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAST_POINTS", 10)


def unit(seed: int) -> DenseVector:
    drawn = np.random.default_rng(seed).standard_normal(DIMENSION, dtype=np.float32)
    made: DenseVector = (drawn / np.linalg.norm(drawn)).astype(np.float16).astype(np.float32)
    return made


class Indexes(InMemoryIndexes):
    """Indexes of forests of facts, all alike, and what is stored of these."""

    def __init__(self) -> None:
        super().__init__(self, "m", DIMENSION)
        self.rows: dict[UUID, DenseVector] = {row: unit(row.int) for row in ROWS}
        self.built = 0
        self.failing = False
        self.at_page, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()

    def count(self, tenant: TenantId, forest_id: ForestId | None = None) -> int:
        return len(self.rows)

    def pages(self, tenant: TenantId, forest_id: ForestId) -> Iterator[Sequence[Point]]:
        self.built += 1
        for at in range(0, len(self.rows), 10):
            self.at_page.set()
            assert self.go_on.wait(20.0)
            if self.failing:
                raise IndexUnavailable("gone")
            yield self.named(tenant, forest_id, list(self.rows)[at : at + 10])

    def named(self, tenant: TenantId, forest_id: ForestId, rows: Sequence[UUID]) -> Sequence[Point]:
        place, words = (tenant, forest_id, PointKind.FACT, 1), SparseVector((7,), (1.0,))
        return [Point(row, *place, self.rows[row], words) for row in rows if row in self.rows]

    def near(self, vector: DenseVector, n: int = 3, forest: Forest = FACTS) -> tuple[list[UUID], set[UUID]] | None:
        """The nearest rows, and those that the engine has to score; None: it has to answer all of it."""
        query = IndexQuery(vector, IndexFilter(*forest, (PointKind.FACT,)), n)
        hits, rest = self.answer(query)
        return None if rest is query else (hits.ids, set() if rest is None else set(rest.filter.ids or ()))

    def changes(self, *rows: UUID) -> None:
        self.forget([PointKey(*FACTS, row) for row in rows])

    def settle(self) -> None:
        until(lambda: not self.refreshing, 20.0)

    def often(self, forest: Forest = FACTS) -> None:
        """Search as often as an index takes to be built."""
        for _ in range(SEARCHES_BEFORE):
            self.near(unit(1), forest=forest)
        self.settle()


@pytest.fixture
def indexes() -> Indexes:
    return Indexes()


def test_a_forest_that_is_searched_often_has_one(indexes: Indexes) -> None:
    for _ in range(SEARCHES_BEFORE - 1):
        assert indexes.near(unit(1)) is None
    assert indexes.built == 0
    indexes.often()
    assert indexes.near(unit(ROWS[6].int), 1) == ([ROWS[6]], set())
    assert indexes.near(unit(1), forest=OTHERS) is None


def test_a_small_forest_has_none(indexes: Indexes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAST_POINTS", 41)
    indexes.often()
    assert (indexes.near(unit(1)), indexes.built) == (None, 0)


def test_what_changed_is_named_until_it_is_read(indexes: Indexes) -> None:
    """Given an index, when a point is written, another one changed and a third deleted, then none of them is found where
    it was and all are named to be scored; once they are read, they are found as they are."""
    indexes.often()
    written, changed, deleted = UUID(int=99), ROWS[3], ROWS[4]
    indexes.rows |= {written: unit(99), changed: unit(500)}
    del indexes.rows[deleted]
    indexes.changes(written, changed, deleted)
    near = indexes.near(unit(changed.int), 5)
    assert near is not None
    assert near[1] == {written, changed, deleted} and near[1].isdisjoint(near[0])
    indexes.settle()
    near = indexes.near(unit(99), 40)
    assert near is not None
    assert (near[0][0], near[1]) == (written, set()) and deleted not in near[0]
    assert indexes.near(unit(500), 1) == ([changed], set())


def test_what_is_written_while_an_index_is_built_is_named(indexes: Indexes) -> None:
    """Given an index that is being built, when a point is written that the builder has read before, then the search
    that meets the finished index names it."""
    indexes.go_on.clear()
    for _ in range(SEARCHES_BEFORE):
        assert indexes.near(unit(1)) is None
    assert indexes.at_page.wait(20.0)
    indexes.changes(ROWS[0])
    indexes.go_on.set()
    indexes.settle()
    near = indexes.near(unit(1))
    assert near is not None and near[1] == {ROWS[0]}


def test_the_engine_answers_when_much_of_a_small_forest_has_changed(indexes: Indexes) -> None:
    """Given 40 rows of which four changed, then the engine scores these; with a fifth one it answers alone, until they
    are read."""
    indexes.often()
    indexes.changes(*ROWS[:4])
    indexes._known[FACTS].refreshing = True  # nobody reads them
    assert indexes.near(unit(1)) is not None
    indexes.changes(ROWS[4])
    assert indexes.near(unit(1)) is None
    indexes._known[FACTS].refreshing = False
    indexes.near(unit(1))
    indexes.settle()
    assert indexes.near(unit(1)) is not None


def test_an_index_that_was_mostly_replaced_is_rebuilt(indexes: Indexes) -> None:
    indexes.often()
    for _ in range(6):
        indexes.changes(*ROWS[:10])
        indexes.near(unit(1))
        indexes.settle()
    assert indexes.built == 2
    assert indexes.near(unit(ROWS[6].int), 1) == ([ROWS[6]], set())


def test_an_index_of_which_most_changes_at_once_is_dropped(indexes: Indexes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given an index, when its forest is deleted, then it is dropped; when the forest is there again, the next searches
    have it rebuilt."""
    monkeypatch.setattr(module, "MOST_CHANGED", 10)
    indexes.often()
    indexes.changes(*ROWS)
    [known] = indexes._known.values()
    assert (known.index, known.changed) == (None, {})
    assert indexes.near(unit(1)) is None
    indexes.settle()
    assert (indexes.built, indexes.near(unit(ROWS[6].int), 1)) == (2, ([ROWS[6]], set()))


def test_the_forest_that_was_searched_longest_ago_loses_its_index(
    indexes: Indexes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_POINTS", 60)
    indexes.often()
    indexes.often(OTHERS)
    assert indexes.near(unit(1), forest=OTHERS) is not None
    assert indexes.near(unit(1)) is None


def test_an_engine_that_fails_is_read_later(indexes: Indexes) -> None:
    indexes.failing = True
    indexes.often()
    assert indexes.near(unit(1)) is None
    indexes.failing = False
    indexes.often()
    assert indexes.near(unit(1)) is not None


def test_closing_ends_the_building(indexes: Indexes) -> None:
    indexes.go_on.clear()
    for _ in range(SEARCHES_BEFORE):
        indexes.near(unit(1))
    assert indexes.at_page.wait(20.0)
    closing = threading.Thread(target=indexes.close)
    closing.start()
    indexes.go_on.set()
    closing.join(20.0)
    assert not closing.is_alive() and not indexes.refreshing
