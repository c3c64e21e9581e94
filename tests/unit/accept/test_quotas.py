"""Refusing early: how long counts are used, and waiting for room. What is refused is in integration/test_quotas.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import pytest

from memforest_core.domain.ids import TenantId
from memforest_core.errors import QuotaExceeded
from memforest_core.ingest.accept.quotas import DEPTH_S, MAX_TENANTS, RETRY_S, Quotas, when_there_is_room
from memforest_core.ingest.accept.records import TenantLimits
from memforest_core.ingest.accept.rows import AcceptRows
from memforest_core.settings import AcceptSettings
from memforest_core.work.jobs import Lane
from memforest_core.work.waiting import waited

ACME = TenantId("acme")


@dataclass
class Counted:
    """Counts as the store would return them, and how often each was made."""

    cells: int = 0
    turns: int = 0
    own: TenantLimits = field(default_factory=TenantLimits)
    made: int = 0
    days: int = 0

    def limits(self) -> TenantLimits:
        return self.own

    def waiting_cells(self, most: int) -> int:
        self.made += 1
        return self.cells

    def stored_turns(self, span_s: float) -> tuple[int, float]:
        self.days += 1
        return self.turns, 0.0


class Gate:
    """Quotas of at most 100 waiting cells, with counts and a clock of the test's own."""

    def __init__(self, per_day: int | None = None, waiting: int = 100) -> None:
        self.now = 1_000.0
        self.counted = Counted()
        self.quotas = Quotas(AcceptSettings(max_waiting_cells=waiting, max_turns_per_day=per_day), lambda: self.now)

    def passes(self, lane: Lane = Lane.LIVE, tenant: TenantId = ACME) -> bool:
        try:
            self.quotas.check(cast("AcceptRows", self.counted), tenant, lane)
        except QuotaExceeded:
            return False
        return True


def test_a_full_queue_refuses_and_says_when_to_come_back() -> None:
    gate = Gate()
    gate.counted.cells = 100
    with pytest.raises(QuotaExceeded, match=r"About 100 cells .* and 100 may: send it again in \d+ s\.") as refused:
        gate.quotas.check(cast("AcceptRows", gate.counted), ACME, Lane.LIVE)
    least, most = RETRY_S
    assert least <= refused.value.retry_after <= most
    with pytest.raises(QuotaExceeded) as later:
        gate.quotas.check(cast("AcceptRows", gate.counted), ACME, Lane.LIVE)
    assert later.value.retry_after != refused.value.retry_after
    gate.counted.cells = 99
    assert gate.passes()
    assert Gate(waiting=1).passes(Lane.BACKFILL)


@pytest.mark.parametrize(
    ("cells", "turns", "lane", "counts"),
    [(10, 0, Lane.LIVE, 1), (91, 0, Lane.LIVE, 3), (75, 0, Lane.BACKFILL, 3), (10, 95, Lane.LIVE, 3)],
)
def test_a_count_is_used_for_a_moment_only_far_from_the_limit(cells: int, turns: int, lane: Lane, counts: int) -> None:
    gate = Gate(per_day=100)
    gate.counted.cells, gate.counted.turns = cells, turns
    assert all(gate.passes(lane) for _ in range(3))
    assert gate.counted.made == counts
    gate.now += DEPTH_S
    assert gate.passes(lane)
    assert gate.counted.made == counts + 1


@pytest.mark.parametrize(("cells", "turns"), [(91, 0), (0, 91)])
def test_what_was_accepted_here_counts_at_once(cells: int, turns: int) -> None:
    gate = Gate(per_day=100)
    assert gate.passes()
    gate.quotas.note(ACME, cells, turns)
    gate.counted.cells = 100
    assert not gate.passes()


def test_the_day_is_counted_only_when_it_is_limited() -> None:
    gate = Gate()
    gate.counted.turns = 10**9
    assert gate.passes()
    gate.counted.own = TenantLimits(None, 50)
    gate.now += DEPTH_S
    assert not gate.passes()
    assert gate.counted.days == 1


def test_tenants_are_counted_separately_and_only_up_to_a_maximum() -> None:
    gate = Gate()
    assert all(gate.passes(tenant=TenantId(f"t{number}")) for number in range(MAX_TENANTS + 1))
    assert gate.passes(tenant=TenantId("t0"))
    assert gate.counted.made == MAX_TENANTS + 2


@pytest.mark.parametrize(
    ("refusals", "retry_after", "timeout_s", "slept", "gets_in"),
    [(2, 5.0, 60.0, [5.0, 5.0], True), (1, 5.0, 0.0, [], False), (10, 40.0, 60.0, [40.0, 20.0], False)],
)
def test_an_import_waits_for_room_as_long_as_it_may(
    refusals: int, retry_after: float, timeout_s: float, slept: list[float], gets_in: bool
) -> None:
    pauses: list[float] = []
    tries = 0

    def attempt() -> str:
        nonlocal tries
        tries += 1
        if tries <= refusals:
            raise QuotaExceeded("The queue is full.", retry_after=retry_after)
        return "in"

    def enter() -> str:
        return waited(when_there_is_room(attempt, timeout_s, lambda: sum(pauses)), pauses.append)

    if gets_in:
        assert enter() == "in"
    else:
        with pytest.raises(QuotaExceeded):
            enter()
    assert pauses == slept
