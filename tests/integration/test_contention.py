"""Real deadlocks with another connection: nobody hears of them, and the work is done."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import cycle, islice
from uuid import uuid4

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from memforest_core.client.producer import MemForestClient
from memforest_core.domain.ids import TenantId, WorkerId
from memforest_core.domain.operation_rules import OperationKind
from memforest_core.errors import InvariantViolated, StoreContended, StoreUnavailable
from memforest_core.ingest.extract.records import ClaimedWindow
from memforest_core.ingest.extract.rows import _HOLD_WINDOW, NOTHING, Claim, ExtractRows
from memforest_core.ingest.reduce.records import WaitingForest
from memforest_core.ingest.reduce.rows import ReduceRows
from memforest_core.store.rows import FIRST
from memforest_core.work.jobs import Lane
from memforest_core.work.rows.operation_rows import OperationRows
from tests.harness.stack import Stack
from tests.integration.test_erasure import read_rows
from tests.integration.test_pipeline import said

ALL_FORESTS = "SELECT 1 FROM memforest.forest FOR UPDATE"


@pytest.fixture
def reported(pipeline: Stack) -> Stack:
    """A forest with facts, and a session whose last cell is open. The waiting connection of ours notices a deadlock
    and is cancelled; the other connection is patient."""
    pipeline.memory.client.enqueue("bob", "s1", said("I live in Davis.", "I adopted a dog named Rex."))
    pipeline.drive()
    append(pipeline, "I bought a lamp.")
    name = sa.make_url(pipeline.settings.database.url.get_secret_value()).database
    pipeline.execute(f"ALTER ROLE memforest_app IN DATABASE {name} SET deadlock_timeout = '2s'")
    pipeline.services.engine.dispose()
    return pipeline


def append(pipeline: Stack, text: str, transaction: sa.Connection | None = None) -> None:
    turn = {"role": "user", "content": text}
    pipeline.memory.client.append("bob", "stream", turn, transaction=transaction)


def pin(pipeline: Stack) -> None:
    fact = pipeline.rows("SELECT fact_id FROM memforest.fact WHERE text LIKE '%Davis%'")[0][0]
    pipeline.memory.lifecycle.pin("bob", fact, actor="test")


def place(pipeline: Stack) -> None:
    assert pipeline.services.reduction.run_one(pipeline.tenant).cells == 1


def erase(pipeline: Stack) -> None:
    assert pipeline.runtime.maintain() > 0


def blocked(pipeline: Stack) -> bool:
    waits = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'memforest_app' AND wait_event_type = 'Lock'"
    return bool(pipeline.rows(waits)[0][0])


def collide(pipeline: Stack, held: str, wanted: str, unit: Callable[[], None]) -> None:
    """Run a unit that waits for a lock we hold, then request a lock that the unit holds."""
    engine = pipeline.owner_engine()
    with engine.connect() as other, ThreadPoolExecutor(1) as pool, other.begin():
        other.execute(sa.text("SET LOCAL deadlock_timeout = '60s'"))
        other.execute(sa.text("SET LOCAL lock_timeout = 0"))
        other.execute(sa.text(held))
        running = pool.submit(unit)
        deadline = time.monotonic() + 30
        while not blocked(pipeline):
            assert time.monotonic() < deadline
            assert not running.done(), running.result()
            time.sleep(0.01)
        other.execute(sa.text(wanted))
        other.rollback()
        running.result()
    engine.dispose()


UNITS: dict[str, tuple[str, str, Callable[[Stack], None]]] = {
    "append": (
        "SELECT 1 FROM memforest.cell WHERE state = 'held' FOR UPDATE",
        "SELECT 1 FROM memforest.session FOR UPDATE",
        lambda pipeline: append(pipeline, "I sold a lamp."),
    ),
    "pin": ("SELECT 1 FROM memforest.fact FOR UPDATE", ALL_FORESTS, pin),
    "reduce": ("SELECT 1 FROM memforest.cell WHERE state = 'done' AND NOT placed FOR UPDATE", ALL_FORESTS, place),
    "erase": ("SELECT 1 FROM memforest.cell FOR UPDATE", ALL_FORESTS, erase),
}


@pytest.mark.parametrize("name", UNITS)
def test_a_deadlock_is_repeated_before_anybody_hears_of_it(reported: Stack, name: str) -> None:
    held, wanted, unit = UNITS[name]
    if name == "reduce":
        reported.memory.client.enqueue("bob", "s2", said("I planted a fig tree."))
        reported.runtime.extract()
    if name == "erase":
        reported.memory.lifecycle.forget("bob", session="s1", actor="test")
    with capture_logs() as logs:
        collide(reported, held, wanted, lambda: unit(reported))
    assert [line["state"] for line in logs if line["event"] == "transaction_repeated"] == ["40P01"]
    reported.drive()
    dead = reported.rows("SELECT count(*) FROM memforest.maintenance WHERE state = 'dead' OR attempts > 1")
    assert dead[0][0] == 0


def test_inside_the_callers_transaction_it_is_raised(reported: Stack) -> None:
    """Only the caller can run the whole of it again."""

    def join() -> None:
        with reported.services.engine.connect() as connection, connection.begin():
            append(reported, "I sold a lamp.", connection)

    with capture_logs() as logs, pytest.raises(StoreUnavailable, match="40P01") as raised:
        collide(reported, UNITS["append"][0], UNITS["append"][1], join)
    assert not isinstance(raised.value, StoreContended)
    assert not [line for line in logs if line["event"] == "transaction_repeated"]
    append(reported, "I sold a lamp.")


def waiting_cell(reported: Stack) -> WaitingForest:
    """The one extracted cell that is not placed yet, as the reducer sees it."""
    reported.memory.client.enqueue("bob", "s2", said("I planted a fig tree."))
    reported.runtime.extract()
    with ReduceRows.opened(reported.services.engine, reported.tenant) as rows:
        waiting = rows.queue.waiting(10)
    assert waiting is not None
    assert len(waiting.cells) == 1
    return waiting


def buried(reported: Stack, waiting: WaitingForest) -> bool:
    with ReduceRows.opened(reported.services.engine, reported.tenant) as rows:
        return rows.queue.bury_cell(waiting, "invariant_violated", "A stored statement is damaged.")


def test_a_cell_is_buried_only_as_it_was_seen(reported: Stack) -> None:
    waiting = waiting_cell(reported)
    reported.execute(
        "UPDATE memforest.cell SET extracted_at = now() + interval '1 s' WHERE state = 'done' AND NOT placed"
    )
    assert not buried(reported, waiting)
    with reported.owner_engine().connect() as other, other.begin():
        other.execute(sa.text("SELECT 1 FROM memforest.forest FOR NO KEY UPDATE"))
        assert not buried(reported, waiting_once_more(reported, waiting))
    assert buried(reported, waiting_once_more(reported, waiting))


def waiting_once_more(reported: Stack, waiting: WaitingForest) -> WaitingForest:
    (cell,) = waiting.cells
    seen = reported.rows("SELECT extracted_at FROM memforest.cell WHERE cell_id = :id", id=cell)[0][0]
    return replace(waiting, extracted_at={cell: seen})


def test_a_task_is_given_up_only_by_who_has_it(reported: Stack) -> None:
    """Given a worker whose lease went to another, when it gives the task up, then neither task nor audit say so."""
    reported.memory.lifecycle.forget("bob", session="s1", actor="test")
    service = reported.services.maintenance.tasks
    with OperationRows.opened(reported.services.engine, reported.tenant) as rows:
        claim = rows.claim((OperationKind.ERASE,), reported.runtime.worker, 60.0)
    assert claim is not None
    reported.execute("UPDATE memforest.maintenance SET lease_token = gen_random_uuid()")
    service._settle(reported.tenant, claim, InvariantViolated("It crashed."))
    assert reported.rows("SELECT state FROM memforest.maintenance")[0][0] == "running"
    assert reported.rows("SELECT count(*) FROM memforest.audit WHERE outcome = 'dead'")[0][0] == 0


def test_forests_take_turns_in_the_live_lane(pipeline: Stack) -> None:
    """Given: many sessions of one owner wait. When: others come after them. Then: each of them is next but a few."""
    client = pipeline.memory.client
    for number in range(30):
        client.enqueue("first", f"s{number}", said(f"I bought lamp {number}.", f"I sold lamp {number}."))
    for owner in ("second", "third"):
        client.enqueue(owner, "s", said("I live in Davis.", "I adopted a dog named Rex."))
    for _ in range(6):
        pipeline.services.extraction.run_one(pipeline.tenant, pipeline.runtime.worker)
    done = pipeline.rows(
        "SELECT f.owner, count(*) FROM memforest.cell c JOIN memforest.forest f USING (tenant_id, forest_id)"
        " WHERE c.state = 'done' GROUP BY f.owner"
    )
    assert dict((row[0], row[1]) for row in done) == {"first": 4, "second": 1, "third": 1}


def test_owners_take_turns_in_an_import_and_a_live_session_is_next(pipeline: Stack) -> None:
    """Given 500 sessions of one owner and then one each of 50, when two processes claim, then each owner is served
    once in one round of both; a session that comes live is next; and the import goes on."""
    sizes = {"first": 500} | {f"owner-{number}": 1 for number in range(50)}
    pipeline.memory.client.enqueue_many(
        (owner, f"s{number}", said("I bought a lamp.")) for owner, size in sizes.items() for number in range(size)
    )
    both = [[NOTHING, NOTHING], [NOTHING, NOTHING]]

    def claims(number: int) -> list[ClaimedWindow]:
        """So many windows, claimed by each process in turn."""
        made = []
        for after in islice(cycle(both), number):
            with ExtractRows.opened(pipeline.services.engine, pipeline.tenant) as rows:
                window = rows.claim_window(pipeline.runtime.worker, 60.0, after)
            assert window is not None
            after[not window.live] = window.forest_id, window.lease_until
            made.append(window)
        return made

    assert Counter(window.owner for window in claims(len(sizes))) == dict.fromkeys(sizes, 1)

    given = {"t": pipeline.tenant, "live": FIRST, "live_at": NOTHING[1], "backfill": FIRST, "backfill_at": NOTHING[1]}
    plan = pipeline.rows(f"EXPLAIN {_HOLD_WINDOW.text}", **given, first=FIRST, lease=60.0)
    assert any("Index Cond" in line and "forest_id >" in line and "available_at <=" in line for (line,) in plan)

    pipeline.memory.client.enqueue("ann", "s1", said("I sold a lamp."))
    assert [window.owner for window in claims(3)] == ["ann", "first", "first"]


@pytest.mark.parametrize("backfill", [False, True])
def test_an_owners_turn_is_that_of_its_tenant_and_lane(pipeline: Stack, backfill: bool) -> None:
    """Given ten owners with two sessions each, when another tenant's windows are claimed in between, or live ones of
    an eleventh owner, then each of the ten has had its turn after ten claims."""
    for number in range(20):
        pipeline.memory.client.enqueue(f"owner-{number // 2}", f"s{number}", said("One."), backfill=backfill)
    tenants = [pipeline.tenant, TenantId("other")]
    settings = pipeline.settings.model_copy(update={"tenant": pipeline.tenant if backfill else tenants[1]})
    with MemForestClient(settings, producer=pipeline.services.producer) as client:
        ends = []
        for number in range(10):
            client.enqueue("eve", f"s{number}", said("Two."))
            for tenant in (tenants[not backfill], pipeline.tenant):
                ends.append(pipeline.services.extraction.run_one(tenant, pipeline.runtime.worker))

    assert len({end.forest_id for end in ends[::2]}) == 1
    assert len({end.forest_id for end in ends[1::2]}) == 10


WAITING = (
    """INSERT INTO memforest.forest (tenant_id, forest_id, owner)
       SELECT :t, md5('f' || i)::uuid, 'owner-' || i FROM generate_series(0, 49) i""",
    """INSERT INTO memforest.session (tenant_id, session_id, forest_id, external_id, time_zone, started_at)
       SELECT :t, md5('s' || i)::uuid, md5('f' || i % 50)::uuid, 's' || i, 'UTC', now() FROM generate_series(1, 1000) i""",
    """INSERT INTO memforest.turn (tenant_id, session_id, ordinal, external_id, role, content, occurred_at, dated,
                                    speaker_id, name)
       SELECT :t, md5('s' || i)::uuid, n, 't' || n, 'user', 'word', now(), true, 'p', 'p'
         FROM generate_series(1, 1000) i, generate_series(1, 5) n""",
    """INSERT INTO memforest.cell (tenant_id, cell_id, forest_id, session_id, ordinal, window_ordinal, first_turn,
                                    last_turn, text, text_hash, time_start, time_end, state, lane)
       SELECT :t, md5(i || 'cell' || n)::uuid, md5('f' || i % 50)::uuid, md5('s' || i)::uuid, n, n, n, n, 'word',
              '\\x00', now(), now(), 'ready', 1 FROM generate_series(1, 1000) i, generate_series(1, 5) n""",
)
"""5,000 windows of 50 owners."""


def test_a_claim_does_not_read_what_waits(pipeline: Stack) -> None:
    """Given a plan that was made when nothing waited, and no statistics, when an import comes, then each claim, wherever
    its round is, reads a few rows; and nobody has two turns in a round while another process holds a longer lease."""

    def claim(served: list[Claim], lease_s: float = 60.0) -> ClaimedWindow | None:
        with ExtractRows.opened(pipeline.services.engine, pipeline.tenant) as rows:
            claimed = rows.claim_window(WorkerId(uuid4()), lease_s, served)
        if claimed is not None:
            served[Lane.BACKFILL] = claimed.forest_id, claimed.lease_until
        return claimed

    assert [claim([NOTHING, NOTHING]) for _ in range(10)] == [None] * 10
    for statement in WAITING:
        pipeline.execute(statement, t=pipeline.tenant)
    served, other = [NOTHING, NOTHING], [NOTHING, NOTHING]
    claim(other, lease_s=600.0)
    turns = [each.forest_id for _ in range(50) if (each := claim(served)) is not None]
    assert len(set(turns)) == 50
    assert read_rows(pipeline)["cell"] < 5_000
