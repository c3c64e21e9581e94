"""In-memory indexes are built for forests that are searched often, and hide no change."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple
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


class Engine:
    """Facts, those of each forest alike; ``wait`` is called before each page."""

    def __init__(self, wait: Callable[[], None] = lambda: None) -> None:
        self.rows: dict[UUID, DenseVector] = {row: unit(row.int) for row in ROWS}
        self.wait = wait
        self.built = 0

    def count(self, tenant: TenantId, forest_id: ForestId | None = None) -> int:
        return len(self.rows)

    def pages(self, tenant: TenantId, forest_id: ForestId) -> Iterator[Sequence[Point]]:
        self.built += 1
        for at in range(0, len(self.rows), 10):
            self.wait()
            yield self.named(tenant, forest_id, list(self.rows)[at : at + 10])

    def named(self, tenant: TenantId, forest_id: ForestId, rows: Sequence[UUID]) -> Sequence[Point]:
        words = SparseVector((7,), (1.0,))
        return [
            Point(row, tenant, forest_id, PointKind.FACT, 1, self.rows[row], words) for row in rows if row in self.rows
        ]


class Near(NamedTuple):
    """The nearest rows, and those that changed since the index was refreshed."""

    found: list[tuple[UUID, float]]
    changed: set[UUID]


class Indexes(InMemoryIndexes):
    """Indexes of forests of facts."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine, "m", DIMENSION)

    def near(self, forest: Forest, vector: DenseVector, n: int) -> Near | None:
        query = IndexQuery(vector, IndexFilter(*forest, (PointKind.FACT,)), n)
        hits, rest = self.answer(query)
        if rest is query:
            return None
        changed = () if rest is None else rest.filter.ids or ()
        return Near([(hit.id, hit.score) for hit in hits], set(changed))


def settled(indexes: Indexes) -> None:
    until = time.monotonic() + 20.0
    while indexes.refreshing:
        assert time.monotonic() < until
        time.sleep(0.005)


def searched_often(indexes: Indexes, forest: Forest = FACTS) -> None:
    for _ in range(SEARCHES_BEFORE):
        indexes.near(forest, unit(1), 3)
    settled(indexes)


def nearest(indexes: Indexes, vector: DenseVector, forest: Forest = FACTS) -> UUID | None:
    near = indexes.near(forest, vector, 1)
    return None if near is None or not near.found else near.found[0][0]


def of_facts(rows: Sequence[UUID]) -> list[PointKey]:
    return [PointKey(*FACTS, row) for row in rows]


def test_a_forest_that_is_searched_often_has_one() -> None:
    indexes = Indexes(Engine())
    searched_often(indexes)
    assert nearest(indexes, unit(ROWS[6].int)) == ROWS[6]
    assert indexes.near(OTHERS, unit(1), 3) is None


@pytest.mark.parametrize("least", [41, 1_000])
def test_a_small_forest_has_none(least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAST_POINTS", least)
    engine = Engine()
    indexes = Indexes(engine)
    searched_often(indexes)
    assert indexes.near(FACTS, unit(1), 3) is None
    assert engine.built == 0


def test_what_changed_is_named_until_it_is_read() -> None:
    """Given an index, when a point is written, another one changed and a third deleted, then none of them is found where
    it was and all are named to be scored; once they are read, they are found as they are."""
    engine = Engine()
    indexes = Indexes(engine)
    searched_often(indexes)
    written, changed, deleted = UUID(int=99), ROWS[3], ROWS[4]
    engine.rows |= {written: unit(99), changed: unit(500)}
    del engine.rows[deleted]
    indexes.forget(of_facts([written, changed, deleted]))
    near = indexes.near(FACTS, unit(changed.int), 5)
    assert near is not None
    assert near.changed == {written, changed, deleted}
    assert near.changed.isdisjoint(row for row, _ in near.found)
    settled(indexes)
    near = indexes.near(FACTS, unit(99), 40)
    assert near is not None
    assert near.changed == set()
    assert near.found[0][0] == written
    assert deleted not in dict(near.found)
    assert nearest(indexes, unit(500)) == changed


def test_what_is_written_while_an_index_is_built_is_named() -> None:
    """Given an index that is being built, when a point is written that the builder has read before, then the search
    that meets the finished index names it."""
    at_page, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        at_page.set()
        assert go_on.wait(20.0)

    engine = Engine(wait)
    indexes = Indexes(engine)
    for _ in range(SEARCHES_BEFORE):
        assert indexes.near(FACTS, unit(1), 3) is None
    assert at_page.wait(20.0)
    indexes.forget(of_facts([ROWS[0]]))
    go_on.set()
    settled(indexes)
    near = indexes.near(FACTS, unit(1), 3)
    assert near is not None
    assert near.changed == {ROWS[0]}


def test_the_engine_answers_when_much_of_a_small_forest_has_changed() -> None:
    """Given 40 rows of which four changed, then the engine scores these; with a fifth one it answers alone, until they
    are read."""
    indexes = Indexes(Engine())
    searched_often(indexes)
    indexes.forget(of_facts(ROWS[:4]))
    indexes._known[FACTS].refreshing = True  # nobody reads them
    assert indexes.near(FACTS, unit(1), 3) is not None
    indexes.forget(of_facts([ROWS[4]]))
    assert indexes.near(FACTS, unit(1), 3) is None
    indexes._known[FACTS].refreshing = False
    indexes.near(FACTS, unit(1), 3)
    settled(indexes)
    assert indexes.near(FACTS, unit(1), 3) is not None


def test_an_index_that_was_mostly_replaced_is_rebuilt() -> None:
    """Given an index of which a quarter is replaced six times, then it is rebuilt once more rows were replaced
    than there are."""
    engine = Engine()
    indexes = Indexes(engine)
    searched_often(indexes)
    for _ in range(6):
        indexes.forget(of_facts(ROWS[:10]))
        indexes.near(FACTS, unit(1), 3)
        settled(indexes)
    assert engine.built == 2
    assert nearest(indexes, unit(ROWS[6].int)) == ROWS[6]


def test_an_index_of_which_most_changes_at_once_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given an index, when its forest is deleted, then it is dropped; when the forest is there again, the
    next searches have it rebuilt."""
    monkeypatch.setattr(module, "MOST_CHANGED", 10)
    engine = Engine()
    indexes = Indexes(engine)
    searched_often(indexes)
    indexes.forget(of_facts(ROWS))
    [known] = indexes._known.values()
    assert known.index is None
    assert known.changed == {}
    assert indexes.near(FACTS, unit(1), 3) is None
    settled(indexes)
    assert engine.built == 2
    assert nearest(indexes, unit(ROWS[6].int)) == ROWS[6]


def test_the_forest_that_was_searched_longest_ago_loses_its_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_POINTS", 60)
    indexes = Indexes(Engine())
    searched_often(indexes)
    searched_often(indexes, OTHERS)
    assert indexes.near(OTHERS, unit(1), 3) is not None
    assert indexes.near(FACTS, unit(1), 3) is None


def test_an_engine_that_fails_is_read_later(caplog: pytest.LogCaptureFixture) -> None:
    failing = True

    def wait() -> None:
        if failing:
            raise IndexUnavailable("gone")

    indexes = Indexes(Engine(wait))
    searched_often(indexes)
    assert indexes.near(FACTS, unit(1), 3) is None
    failing = False
    searched_often(indexes)
    assert indexes.near(FACTS, unit(1), 3) is not None


def test_closing_ends_the_building() -> None:
    at_page, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        at_page.set()
        assert go_on.wait(20.0)

    indexes = Indexes(Engine(wait))
    for _ in range(SEARCHES_BEFORE):
        indexes.near(FACTS, unit(1), 3)
    assert at_page.wait(20.0)
    closing = threading.Thread(target=indexes.close)
    closing.start()
    go_on.set()
    closing.join(20.0)
    assert not closing.is_alive()
    assert not indexes.refreshing
