"""Visits are counted in memory and written in batches; an unavailable store costs a recall nothing."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from uuid import UUID

from memforest_core.domain.evidence import Evidence, EvidenceKind
from memforest_core.domain.ids import CellId, FactId, ForestId, SessionId, TenantId
from memforest_core.domain.times import UNKNOWN_TIME
from memforest_core.errors import StoreUnavailable
from memforest_core.recall.records import CellRef, TurnHead, Visited
from memforest_core.recall.visit_counter import VisitCounter, returned
from tests.harness.builders import FOREST, NOON

ACME, OTHER = TenantId("acme"), TenantId("other")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Shelf:
    """A store that can be unavailable."""

    def __init__(self) -> None:
        self.unavailable: set[TenantId] = set()
        self.written: list[tuple[TenantId, list[Visited]]] = []
        self.tries = 0

    def add(self, tenant: TenantId, visited: Sequence[Visited]) -> None:
        self.tries += 1
        if tenant in self.unavailable:
            raise StoreUnavailable("away")
        self.written.append((tenant, list(visited)))

    def visits(self, tenant: TenantId = ACME) -> Counter[UUID]:
        reported: Counter[UUID] = Counter()
        for whose, visited in self.written:
            if whose == tenant:
                reported.update({each.item: each.visits for each in visited})
        return reported


def item(number: int) -> UUID:
    return UUID(int=number)


def counter(shelf: Shelf, clock: Clock | None = None, items: int = 100) -> VisitCounter:
    return VisitCounter(shelf.add, items=items, every_s=60.0, clock=clock or Clock())


def test_most_recalls_write_nothing() -> None:
    shelf = Shelf()
    visits = counter(shelf)
    for _ in range(500):
        visits.note(ACME, FOREST, [item(1), item(2)])
    assert shelf.tries == 0
    visits.flush()
    assert (shelf.tries, shelf.visits()) == (1, Counter({item(1): 500, item(2): 500}))


def test_a_full_batch_is_written_by_who_fills_it() -> None:
    shelf = Shelf()
    visits = counter(shelf, items=10)
    for number in range(25):
        visits.note(ACME, FOREST, [item(number)])
    assert [len(visited) for _, visited in shelf.written] == [10, 10]


def test_what_is_old_is_written_by_the_next_recall_with_when_it_was() -> None:
    shelf, clock = Shelf(), Clock()
    visits = counter(shelf, clock)
    visits.note(ACME, FOREST, [item(1)])
    clock.now = 59.0
    visits.note(ACME, FOREST, [item(2)])
    assert shelf.tries == 0
    clock.now = 61.0
    visits.note(ACME, FOREST, [])
    assert {each.item: each.ago_s for _, visited in shelf.written for each in visited} == {item(1): 61.0, item(2): 2.0}
    clock.now = 200.0
    visits.note(ACME, FOREST, [])
    assert shelf.tries == 1, "nothing was noted since"


def test_each_tenant_is_written_separately() -> None:
    shelf = Shelf()
    visits = counter(shelf)
    visits.note(ACME, FOREST, [item(1)])
    visits.note(OTHER, ForestId(item(9)), [item(1), item(2)])
    visits.flush()
    assert [(tenant, len(visited)) for tenant, visited in shelf.written] == [(ACME, 1), (OTHER, 2)]


def test_an_unavailable_store_costs_one_tenants_batch_and_no_recall() -> None:
    shelf = Shelf()
    visits = counter(shelf, items=2)
    shelf.unavailable = {ACME}
    visits.note(ACME, FOREST, [item(1)])
    visits.note(OTHER, FOREST, [item(2)])
    assert (shelf.visits(), shelf.visits(OTHER)) == (Counter(), Counter({item(2): 1}))
    shelf.unavailable = set()
    visits.note(ACME, FOREST, [item(1)])
    visits.flush()
    assert shelf.visits() == Counter({item(1): 1})


def test_no_visit_is_lost_or_counted_twice_by_threads() -> None:
    shelf = Shelf()
    visits = counter(shelf, items=7)

    def recalls() -> None:
        for number in range(200):
            visits.note(ACME, FOREST, [item(number % 20), item(99)])

    threads = [threading.Thread(target=recalls) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    visits.flush()
    assert shelf.visits() == Counter({item(number): 80 for number in range(20)} | {item(99): 1_600})


def test_evidence_counts_for_its_facts_and_the_cells_that_said_it() -> None:
    """Given candidates of three cells, when one turn of the second is returned, then its facts and that cell count."""
    session = SessionId(item(50))

    def cell(number: int) -> CellRef:
        first = 2 * number
        return CellRef(CellId(item(number)), session, first, first + 1, None, None, True)

    def head(ordinal: int) -> TurnHead:
        return TurnHead(session, ordinal, f"turn-{ordinal}", "chat", "bob", "Bob", NOON, True, "user")

    piece = Evidence(
        text="Bob: I live in Davis.",
        time=UNKNOWN_TIME,
        time_label="",
        score=1.0,
        kind=EvidenceKind.TURN,
        fact_ids=(FactId(item(7)), FactId(item(8))),
        session_id="chat",
        turn_ids=("turn-3",),
        ordinal=3,
        speaker="Bob",
    )
    turns = {(session, ordinal): head(ordinal) for ordinal in range(6)}
    assert returned([cell(0), cell(1), cell(2)], turns, [piece]) == [item(7), item(8), item(1)]
    assert returned([cell(0)], turns, []) == []
