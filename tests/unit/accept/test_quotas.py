"""Refusing early: what is believed for how long, who may fill the queue how far, and when to come back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import pytest

from memforest_core.domain.ids import TenantId
from memforest_core.errors import QuotaExceeded, StoreUnavailable
from memforest_core.ingest.accept.quotas import (
    BACKFILL_SHARE,
    DAY_S,
    DEPTH_S,
    LONGEST_DAY_RETRY_S,
    LONGEST_RETRY_S,
    MAX_TENANTS,
    RETRY_S,
    TURNS_S,
    Quotas,
    when_there_is_room,
)
from memforest_core.ingest.accept.records import TenantLimits
from memforest_core.ingest.accept.rows import AcceptRows
from memforest_core.settings import AcceptSettings
from memforest_core.work.jobs import Lane
from memforest_core.work.waiting import waited

ACME = TenantId("acme")


@dataclass
class Counted:
    """Counts as the store would return them, and the number of calls."""

    cells: int = 0
    turns: int = 0
    oldest_s: float = 0.0
    own: TenantLimits = field(default_factory=TenantLimits)
    complete: bool = True
    depths: int = 0
    days: int = 0

    def limits(self) -> TenantLimits:
        return self.own

    def waiting_cells(self, most: int) -> tuple[int, bool]:
        self.depths += 1
        return self.cells, self.complete

    def stored_turns(self, span_s: float) -> tuple[int, float]:
        assert span_s == DAY_S
        self.days += 1
        return self.turns, self.oldest_s


@dataclass
class Clock:
    """Seconds that pass when the test says so."""

    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now


def gate(most: int = 100, per_day: int | None = None) -> tuple[Quotas, Counted, Clock]:
    clock = Clock()
    return Quotas(AcceptSettings(max_waiting_cells=most, max_turns_per_day=per_day), clock), Counted(), clock


def check(quotas: Quotas, counted: Counted, lane: Lane = Lane.LIVE, tenant: TenantId = ACME) -> None:
    quotas.check(cast("AcceptRows", counted), tenant, lane)


def refused(quotas: Quotas, counted: Counted, lane: Lane = Lane.LIVE) -> QuotaExceeded:
    with pytest.raises(QuotaExceeded) as caught:
        check(quotas, counted, lane)
    return caught.value


def test_a_full_queue_refuses_and_says_when_to_come_back() -> None:
    quotas, counted, _ = gate(100)
    counted.cells = 100
    error = refused(quotas, counted)
    assert error.retry_after == RETRY_S
    assert error.message == ("About 100 cells of the tenant wait for extraction and 100 may: send it again in 5 s.")
    counted.cells = 99
    check(quotas, counted)


def test_a_backfill_leaves_room_for_live_sessions() -> None:
    quotas, counted, _ = gate(100)
    counted.cells = int(100 * BACKFILL_SHARE)
    assert "80 may for a backfill" in refused(quotas, counted, Lane.BACKFILL).message
    check(quotas, counted, Lane.LIVE)
    counted.cells -= 1
    check(quotas, counted, Lane.BACKFILL)


def test_a_limit_of_one_still_lets_a_backfill_in() -> None:
    quotas, counted, _ = gate(1)
    check(quotas, counted, Lane.BACKFILL)


def test_a_tenants_own_limits_go_before_the_settings() -> None:
    quotas, counted, clock = gate(100, per_day=10)
    counted.cells, counted.turns = 50, 50
    counted.own = TenantLimits(50, 60)
    refused(quotas, counted)
    counted.own = TenantLimits(60, 51)
    check(quotas, counted)
    counted.own = TenantLimits(None, 50)
    clock.now += DEPTH_S
    assert "stored 50 turns within 24 hours and may store 50" in refused(quotas, counted).message


def test_a_count_is_believed_for_a_moment_far_from_the_limit() -> None:
    quotas, counted, clock = gate(100)
    counted.cells = 10
    for _ in range(3):
        check(quotas, counted)
    assert counted.depths == 1
    clock.now += DEPTH_S
    check(quotas, counted)
    assert counted.depths == 2


def test_near_the_limit_every_call_counts() -> None:
    quotas, counted, _ = gate(100)
    counted.cells = 91
    for _ in range(3):
        check(quotas, counted)
    assert counted.depths == 3
    counted.cells = 75
    for _ in range(3):
        check(quotas, counted, Lane.BACKFILL)
    assert counted.depths == 6


def test_what_was_accepted_here_counts_at_once() -> None:
    """Given a count that is believed, when this process fills the queue meanwhile, then it notices by itself."""
    quotas, counted, _ = gate(100)
    check(quotas, counted)
    quotas.note(ACME, cells=91, turns=182)
    counted.cells = 100
    refused(quotas, counted)
    assert counted.depths == 2


def test_retry_after_follows_the_rate_at_which_the_queue_drains() -> None:
    """Given 400 cells that became 200 in ten seconds while 100 came in, then 101 too many take as long as they did."""
    quotas, counted, clock = gate(100)
    counted.cells = 400
    refused(quotas, counted)
    quotas.note(ACME, cells=100, turns=200)
    clock.now += 10.0
    counted.cells = 200
    assert refused(quotas, counted).retry_after == pytest.approx(101 / 30.0)


@pytest.mark.parametrize("cells, wait", [(400, RETRY_S), (399, LONGEST_RETRY_S), (1, 1.0)])
def test_the_time_to_come_back_is_bounded(cells: int, wait: float) -> None:
    """Given a queue that does not move, one that hardly moves and one that drains at once, then the wait is bounded."""
    quotas, counted, clock = gate(1)
    counted.cells = 400
    refused(quotas, counted)
    clock.now += 10.0
    counted.cells = cells
    assert refused(quotas, counted).retry_after == wait


def test_a_count_that_was_ended_early_gives_no_rate() -> None:
    quotas, counted, clock = gate(100)
    counted.cells, counted.complete = 101, False
    refused(quotas, counted)
    clock.now += 10.0
    counted.cells, counted.complete = 100, True
    assert refused(quotas, counted).retry_after == RETRY_S


def test_the_day_is_counted_only_when_it_is_limited() -> None:
    quotas, counted, _ = gate(100)
    counted.turns = 10**9
    check(quotas, counted)
    assert counted.days == 0


def test_a_day_that_is_full_refuses_until_its_oldest_turns_fall_out() -> None:
    quotas, counted, clock = gate(100, per_day=10)
    counted.turns, counted.oldest_s = 10, DAY_S - 90
    assert refused(quotas, counted).retry_after == 90
    counted.oldest_s = 60.0
    assert refused(quotas, counted).retry_after == LONGEST_DAY_RETRY_S
    counted.turns = 9
    check(quotas, counted)
    counted.turns = 5
    clock.now += TURNS_S
    days = counted.days
    for _ in range(3):
        check(quotas, counted)
    assert counted.days == days + 1
    quotas.note(ACME, cells=1, turns=5)
    counted.turns = 10
    refused(quotas, counted)


def test_tenants_are_counted_separately_and_only_up_to_a_maximum() -> None:
    quotas, counted, _ = gate(100)
    check(quotas, counted)
    for number in range(MAX_TENANTS):
        check(quotas, counted, tenant=TenantId(f"t{number}"))
    assert len(quotas._depths) <= MAX_TENANTS
    check(quotas, counted)
    assert counted.depths == MAX_TENANTS + 2


# Waiting for room


@dataclass
class Door:
    """Refuses so many times, then lets in."""

    refusals: int
    retry_after: float = 5.0
    tried: int = 0

    def __call__(self) -> str:
        self.tried += 1
        if self.tried <= self.refusals:
            raise QuotaExceeded("The queue is full.", retry_after=self.retry_after)
        return "in"


def patient(door: Door, timeout_s: float) -> tuple[str, list[float]]:
    clock, slept = Clock(), list[float]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock.now += seconds

    return waited(when_there_is_room(door, timeout_s, clock), sleep), slept


def test_it_waits_for_the_named_time_and_goes_on() -> None:
    assert patient(Door(2), 60.0) == ("in", [5.0, 5.0])


def test_it_does_not_wait_without_leave() -> None:
    door = Door(1)
    with pytest.raises(QuotaExceeded):
        patient(door, 0.0)
    assert door.tried == 1


def test_it_gives_up_when_the_time_is_over_after_a_last_try() -> None:
    door = Door(10, retry_after=40.0)
    with pytest.raises(QuotaExceeded):
        patient(door, 60.0)
    assert door.tried == 3


def test_other_errors_are_not_waited_for() -> None:
    def attempt() -> str:
        raise StoreUnavailable("Postgres is away.")

    with pytest.raises(StoreUnavailable):
        waited(when_there_is_room(attempt, 60.0, Clock()), lambda _: None)
