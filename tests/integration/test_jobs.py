"""Leases, fencing, heartbeats and tenants, on real Postgres."""

from __future__ import annotations

import threading
from dataclasses import replace
from uuid import uuid4

import pytest
import sqlalchemy as sa

from memforest_core.adapters.postgres.engine import set_tenant
from memforest_core.adapters.postgres.extract import PostgresExtractStore
from memforest_core.domain.facts import Outcome
from memforest_core.domain.ids import LeaseToken, TenantId, WorkerId
from memforest_core.ports.extract import CellResult, ClaimedWindow, WindowResult
from memforest_core.ports.jobs import LeaseLimits, WorkKind
from tests.integration.test_pipeline import said
from tests.support.stack import Stack

LIMITS = LeaseLimits(dead_after_s=30.0, max_lost_leases=2)


@pytest.fixture
def filled(pipeline: Stack) -> Stack:
    """Ten windows of two cells, ready for extraction."""
    pipeline.memory.ingest("bob", "s1", said(*[f"I paid {n} dollars." for n in range(40)]))
    return pipeline


def claim(pipeline: Stack, worker: WorkerId | None = None, lease_s: float = 60.0) -> ClaimedWindow | None:
    store = PostgresExtractStore(pipeline.services.engine)
    with store.extracting(pipeline.tenant) as rows:
        return rows.claim_window(worker or pipeline.runtime.worker, lease_s)


def empty_result(window: ClaimedWindow) -> WindowResult:
    return WindowResult(tuple(CellResult(cell.id, Outcome.EMPTY, "", ()) for cell in window.cells), {})


def test_no_window_is_claimed_twice(filled: Stack) -> None:
    claimed: list[ClaimedWindow] = []

    def take() -> None:
        while (window := claim(filled)) is not None:
            claimed.append(window)

    threads = [threading.Thread(target=take) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    cells = [cell.id for window in claimed for cell in window.cells]
    assert len(claimed) == 10
    assert len(cells) == len(set(cells)) == 20


def test_a_claim_brings_its_turns_and_two_before_them(filled: Stack) -> None:
    first, second = claim(filled), claim(filled)
    assert first is not None
    assert second is not None
    assert [turn.ordinal for turn in first.turns] == [0, 1, 2, 3]
    assert first.context == ()
    assert [turn.ordinal for turn in second.context] == [2, 3]


def test_a_finish_without_the_lease_changes_nothing(filled: Stack) -> None:
    """Given a worker that lost its lease, when it finishes late, then the work of the other one stands."""
    window = claim(filled)
    assert window is not None
    store = PostgresExtractStore(filled.services.engine)
    late = replace(window, token=LeaseToken(uuid4()))
    with store.extracting(filled.tenant) as rows:
        assert not rows.finish_window(late, "m", empty_result(window))
    assert filled.rows("SELECT count(*) FROM memforest.cell WHERE state = 'done'")[0][0] == 0
    with store.extracting(filled.tenant) as rows:
        assert rows.finish_window(window, "m", empty_result(window))
    with store.extracting(filled.tenant) as rows:
        assert not rows.finish_window(window, "m", empty_result(window))


def test_a_lease_ends_with_its_deadline_and_is_no_failure(filled: Stack) -> None:
    assert claim(filled, lease_s=0.0) is not None
    assert filled.services.jobs.lost(LIMITS) == [filled.tenant]
    with filled.services.jobs.upkeep(filled.tenant) as rows:
        assert rows.free_lost(LIMITS) == 2
    row = filled.rows("SELECT state, attempts, lost_leases FROM memforest.cell ORDER BY ordinal LIMIT 1")[0]
    assert tuple(row) == ("ready", 0, 1)


def test_a_lease_ends_with_its_workers_heartbeat(filled: Stack) -> None:
    worker = WorkerId(uuid4())
    filled.services.jobs.enlist(worker, "other", ["extract"])
    assert claim(filled, worker) is not None
    assert filled.services.jobs.lost(LIMITS) == []
    filled.execute("UPDATE memforest.worker SET heartbeat_at = now() - interval '31 seconds' WHERE name = 'other'")
    assert filled.services.jobs.lost(LIMITS) == [filled.tenant]
    filled.services.jobs.beat(worker)
    assert filled.services.jobs.lost(LIMITS) == []
    filled.services.jobs.leave(worker)
    assert filled.services.jobs.lost(LIMITS) == [filled.tenant]


def test_work_that_keeps_losing_its_workers_is_put_aside(filled: Stack) -> None:
    for _ in range(3):
        assert claim(filled, lease_s=0.0) is not None
        filled.execute("UPDATE memforest.cell SET available_at = now() + interval '1 hour' WHERE ordinal > 1")
        with filled.services.jobs.upkeep(filled.tenant) as rows:
            rows.free_lost(LIMITS)
    rows_ = filled.rows("SELECT state, error_code FROM memforest.cell ORDER BY ordinal LIMIT 2")
    assert [tuple(row) for row in rows_] == [("dead", "lease_lost")] * 2


def test_one_reconciler_at_a_time(filled: Stack) -> None:
    with filled.services.jobs.reconciling() as mine:
        assert mine
        assert not filled.services.reconciler.run().mine
    assert filled.services.reconciler.run().mine


def test_live_sessions_go_before_a_backfill(pipeline: Stack) -> None:
    pipeline.memory.client.enqueue("bob", "old", said("I live in Davis."), backfill=True)
    pipeline.memory.client.enqueue("bob", "new", said("I live in Miami."))
    window = claim(pipeline)
    assert window is not None
    assert "Miami" in window.turns[0].content


def test_a_transaction_sees_and_writes_its_own_tenant_only(filled: Stack) -> None:
    engine = filled.services.engine
    count = sa.text("SELECT count(*) FROM memforest.turn")
    with engine.begin() as connection:
        assert connection.scalar(count) == 0
        set_tenant(connection, TenantId("other"))
        assert connection.scalar(count) == 0
        set_tenant(connection, filled.tenant)
        assert connection.scalar(count) == 40
    theirs = sa.text("INSERT INTO memforest.tenant (tenant_id) VALUES (:t)")
    with engine.connect() as connection:
        set_tenant(connection, TenantId("other"))
        with pytest.raises(sa.exc.ProgrammingError, match="row-level security"):
            connection.execute(theirs, {"t": str(filled.tenant)})
    with engine.begin() as connection:
        set_tenant(connection, TenantId("other"))
        assert connection.execute(sa.text("DELETE FROM memforest.turn")).rowcount == 0


def test_across_tenants_only_names_are_seen(filled: Stack) -> None:
    assert filled.services.jobs.waiting(WorkKind.EXTRACT) == [filled.tenant]
    assert filled.services.jobs.waiting(WorkKind.REDUCE) == []
    with filled.services.engine.begin() as connection:
        found = connection.execute(sa.text("SELECT * FROM memforest.waiting('extract')"))
        assert list(found.keys()) == ["tenant_id", "lane"]


def test_two_tenants_share_owners_names_and_nothing_else(filled: Stack) -> None:
    from memforest_core.client import MemForestClient

    other = MemForestClient(filled.settings.model_copy(update={"tenant": "other"}))
    other.enqueue("bob", "s1", said("I live in Oslo."))
    assert other.status("bob", "s1").turns == 1
    assert filled.memory.status("bob", "s1").turns == 40
    filled.drive()
    texts = [e.text for e in filled.memory.recall("bob", "Where does Bob live? Oslo?", k=50).evidence]
    assert texts
    assert not any("Oslo" in text for text in texts)
    other.close()
