"""What is kept beside the engine is built for large forests that are asked often, and hides no change."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

import numpy as np
import pytest
from numpy.typing import NDArray

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.errors import IndexUnavailable
from memforest_core.index.qdrant import tended as module
from memforest_core.index.qdrant.graph import Graph
from memforest_core.index.qdrant.kept import Group
from memforest_core.index.qdrant.tended import ASKED_BEFORE, Tended
from memforest_core.index.vector_index import DenseVector, PointKind

ACME = TenantId("acme")
DIMENSION = 16
FACTS: Group = (ACME, ForestId(UUID(int=1)), PointKind.FACT)
OTHERS: Group = (ACME, ForestId(UUID(int=2)), PointKind.FACT)
ROWS = [UUID(int=number) for number in range(1, 41)]


def unit(seed: int) -> NDArray[np.float32]:
    drawn = np.random.default_rng(seed).standard_normal(DIMENSION, dtype=np.float32)
    made: NDArray[np.float32] = drawn / np.linalg.norm(drawn)
    return made


class Engine:
    """Vectors in memory, those of each forest alike; ``wait`` is called before each page."""

    def __init__(self, wait: Callable[[], None] = lambda: None) -> None:
        self.rows: dict[UUID, DenseVector] = {row: unit(row.int) for row in ROWS}
        self.wait = wait
        self.built = 0

    def counted(self, group: Group) -> int:
        return len(self.rows)

    def pages(self, group: Group) -> Iterator[Mapping[UUID, DenseVector]]:
        self.built += 1
        for at in range(0, len(self.rows), 10):
            self.wait()
            yield dict(list(self.rows.items())[at : at + 10])

    def named(self, group: Group, rows: Sequence[UUID]) -> Mapping[UUID, DenseVector]:
        return {row: self.rows[row] for row in rows if row in self.rows}


class Near(NamedTuple):
    """What a graph finds, and what changed since it took that in."""

    found: list[tuple[UUID, float]]
    changed: set[UUID]


class Graphs(Tended[Group, DenseVector, Graph]):
    """Graphs of the facts of forests."""

    def __init__(self, engine: Engine, dimension: int, least: int) -> None:
        super().__init__(engine, lambda _group, _points: Graph(dimension), least)

    def near(self, group: Group, vector: NDArray[np.float32], n: int) -> Near | None:
        found = self.find(group)
        if found is None:
            return None
        rows = found.kept.near(vector, n + len(found.changed))
        return Near([(row, cosine) for row, cosine in rows if row not in found.changed], found.changed)


def settled(graphs: Graphs) -> None:
    until = time.monotonic() + 20.0
    while graphs.tending:
        assert time.monotonic() < until
        time.sleep(0.005)


def asked_often(graphs: Graphs, group: Group = FACTS) -> None:
    for _ in range(ASKED_BEFORE):
        graphs.near(group, unit(1), 3)
    settled(graphs)


def nearest(graphs: Graphs, vector: NDArray[np.float32], group: Group = FACTS) -> UUID | None:
    near = graphs.near(group, vector, 1)
    return None if near is None or not near.found else near.found[0][0]


def of_facts(rows: Sequence[UUID]) -> list[tuple[Group, UUID]]:
    return [(FACTS, row) for row in rows]


def test_a_forest_that_is_asked_seldom_has_no_graph() -> None:
    engine = Engine()
    graphs = Graphs(engine, DIMENSION, least=10)
    for _ in range(ASKED_BEFORE - 1):
        assert graphs.near(FACTS, unit(1), 3) is None
    assert engine.built == 0


def test_a_forest_that_is_asked_often_has_one() -> None:
    graphs = Graphs(Engine(), DIMENSION, least=10)
    asked_often(graphs)
    assert nearest(graphs, unit(ROWS[6].int)) == ROWS[6]
    assert graphs.near(OTHERS, unit(1), 3) is None


def test_looking_at_rows_counts_as_no_search() -> None:
    """Given a forest whose rows are looked at again and again, then no graph is built; once it was searched, there is one
    to look at, with what changed since."""
    engine = Engine()
    graphs = Graphs(engine, DIMENSION, least=10)
    for _ in range(2 * ASKED_BEFORE):
        assert graphs.known(FACTS) is None
    settled(graphs)
    assert engine.built == 0
    asked_often(graphs)
    graphs.forget(of_facts(ROWS[:2]))
    found = graphs.known(FACTS)
    assert found is not None
    assert found.changed == set(ROWS[:2])
    assert found.kept.of(unit(3), ROWS[2:4]).keys() == set(ROWS[2:4])
    graphs.forget(of_facts(ROWS[:20]))
    assert graphs.known(FACTS) is None


@pytest.mark.parametrize("least", [0, 41])
def test_a_small_forest_has_none(least: int) -> None:
    """Given fewer points than graphs are for, or that graphs are switched off, then the engine is always asked."""
    engine = Engine()
    graphs = Graphs(engine, DIMENSION, least)
    asked_often(graphs)
    assert graphs.near(FACTS, unit(1), 3) is None
    assert engine.built == 0


def test_what_changed_is_named_until_it_is_taken_in() -> None:
    """Given a graph, when a point is written, another one changed and a third deleted, then none of them is found where
    it was and all are named to be scored; once they are taken in, they are found as they are."""
    engine = Engine()
    graphs = Graphs(engine, DIMENSION, least=10)
    asked_often(graphs)
    written, changed, deleted = UUID(int=99), ROWS[3], ROWS[4]
    engine.rows |= {written: unit(99), changed: unit(500)}
    del engine.rows[deleted]
    graphs.forget(of_facts([written, changed, deleted]))
    near = graphs.near(FACTS, unit(changed.int), 5)
    assert near is not None
    assert near.changed == {written, changed, deleted}
    assert near.changed.isdisjoint(row for row, _ in near.found)
    settled(graphs)
    near = graphs.near(FACTS, unit(99), 40)
    assert near is not None
    assert near.changed == set()
    assert near.found[0][0] == written
    assert deleted not in dict(near.found)
    assert nearest(graphs, unit(500)) == changed


def test_what_is_written_while_a_graph_is_built_is_named() -> None:
    """Given a graph that is being built, when a point is written that the builder has read before, then the search
    that meets the finished graph names it."""
    at_page, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        at_page.set()
        assert go_on.wait(20.0)

    engine = Engine(wait)
    graphs = Graphs(engine, DIMENSION, least=10)
    for _ in range(ASKED_BEFORE):
        assert graphs.near(FACTS, unit(1), 3) is None
    assert at_page.wait(20.0)
    graphs.forget(of_facts([ROWS[0]]))
    go_on.set()
    settled(graphs)
    near = graphs.near(FACTS, unit(1), 3)
    assert near is not None
    assert near.changed == {ROWS[0]}


def test_the_engine_is_asked_when_too_much_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CHANGED", 2)
    graphs = Graphs(Engine(), DIMENSION, least=10)
    asked_often(graphs)
    graphs.forget(of_facts(ROWS[:3]))
    assert graphs.near(FACTS, unit(1), 3) is None
    settled(graphs)
    assert graphs.near(FACTS, unit(1), 3) is not None


def test_the_engine_is_asked_when_much_of_a_small_group_has_changed() -> None:
    """Given 40 rows of which four changed, then they are scored beside; with a fifth one the engine is asked, until they
    are taken in."""
    graphs = Graphs(Engine(), DIMENSION, least=10)
    asked_often(graphs)
    graphs.forget(of_facts(ROWS[:4]))
    graphs._known[FACTS].tended = True  # nobody takes them in
    assert graphs.near(FACTS, unit(1), 3) is not None
    graphs.forget(of_facts([ROWS[4]]))
    assert graphs.near(FACTS, unit(1), 3) is None
    graphs._known[FACTS].tended = False
    graphs.near(FACTS, unit(1), 3)
    settled(graphs)
    assert graphs.near(FACTS, unit(1), 3) is not None


def test_a_graph_that_was_mostly_replaced_is_built_anew() -> None:
    """Given a graph of which a quarter is replaced again and again, then it is built anew once more rows were replaced
    than there are."""
    engine = Engine()
    graphs = Graphs(engine, DIMENSION, least=10)
    asked_often(graphs)
    for _ in range(6):
        graphs.forget(of_facts(ROWS[:10]))
        graphs.near(FACTS, unit(1), 3)
        settled(graphs)
    assert engine.built == 2
    assert nearest(graphs, unit(ROWS[6].int)) == ROWS[6]


def test_a_graph_of_which_most_changes_at_once_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a graph, when its forest is deleted, then nothing of it is held any more; when the forest is there again, the
    next search has it built."""
    monkeypatch.setattr(module, "MOST_CHANGED", 10)
    engine = Engine()
    graphs = Graphs(engine, DIMENSION, least=10)
    asked_often(graphs)
    graphs.forget(of_facts(ROWS))
    [known] = graphs._known.values()
    assert known.kept is None
    assert known.changed == {}
    assert graphs.near(FACTS, unit(1), 3) is None
    settled(graphs)
    assert engine.built == 2
    assert nearest(graphs, unit(ROWS[6].int)) == ROWS[6]


def test_the_forest_that_was_not_asked_for_longest_loses_its_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_POINTS", 60)
    graphs = Graphs(Engine(), DIMENSION, least=10)
    asked_often(graphs)
    asked_often(graphs, OTHERS)
    assert graphs.near(OTHERS, unit(1), 3) is not None
    assert graphs.near(FACTS, unit(1), 3) is None


def test_searches_of_endless_forests_are_not_counted_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_KNOWN", 3)
    graphs = Graphs(Engine(), DIMENSION, least=10)
    for number in range(10):
        graphs.near((ACME, ForestId(UUID(int=100 + number)), PointKind.FACT), unit(1), 3)
    assert len(graphs._known) == 3
    asked_often(graphs)
    assert graphs.near(FACTS, unit(1), 3) is not None


def test_an_engine_that_fails_is_asked_again_later(caplog: pytest.LogCaptureFixture) -> None:
    failing = True

    def wait() -> None:
        if failing:
            raise IndexUnavailable("gone")

    graphs = Graphs(Engine(wait), DIMENSION, least=10)
    asked_often(graphs)
    assert graphs.near(FACTS, unit(1), 3) is None
    failing = False
    asked_often(graphs)
    assert graphs.near(FACTS, unit(1), 3) is not None


def test_closing_ends_the_building() -> None:
    at_page, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        at_page.set()
        assert go_on.wait(20.0)

    graphs = Graphs(Engine(wait), DIMENSION, least=10)
    for _ in range(ASKED_BEFORE):
        graphs.near(FACTS, unit(1), 3)
    assert at_page.wait(20.0)
    closing = threading.Thread(target=graphs.close)
    closing.start()
    go_on.set()
    closing.join(20.0)
    assert not closing.is_alive()
    assert not graphs.tending
