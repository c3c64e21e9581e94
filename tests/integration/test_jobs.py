"""Work as rows: one worker per claim, endings guarded by the token, leases that end with workers, separate tenants."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from uuid import uuid4

import pytest
import sqlalchemy as sa

from memforest_core.client.producer import MemForestClient
from memforest_core.domain.facts import Outcome
from memforest_core.domain.ids import LeaseToken, TenantId, WorkerId
from memforest_core.errors import InvariantViolated, NotFound
from memforest_core.ingest.extract.extraction_prompt import ExtractionAnswer
from memforest_core.ingest.extract.records import CellResult, ClaimedWindow, WindowResult
from memforest_core.ingest.extract.rows import ExtractRows
from memforest_core.ingest.extract.service import window_of
from memforest_core.settings import ExtractSettings
from memforest_core.store.engine import tenant_transaction
from memforest_core.work.jobs import LeaseLimits, WorkKind, WorkState
from memforest_core.work.rows.job_rows import JobStore
from tests.harness.builders import candidate, statement
from tests.harness.sayings import said
from tests.harness.stack import Stack

SETTINGS = ExtractSettings(retry_s=60.0, retry_longest_s=3_600.0)
LIMITS = LeaseLimits(dead_after_s=30.0, max_lost_leases=3)
WORK = """SELECT ordinal, state, attempts, lost_leases, lease_token, worker_id, error_code, outcome
            FROM memforest.cell ORDER BY session_id, ordinal"""
EXPIRE = "UPDATE memforest.cell SET lease_until = clock_timestamp() WHERE state = 'running'"


@contextmanager
def extracting(pipeline: Stack) -> Iterator[ExtractRows]:
    with ExtractRows.opened(pipeline.services.engine, pipeline.tenant) as rows:
        yield rows


def claim(pipeline: Stack, worker: WorkerId | None = None, lease_s: float = 60.0) -> ClaimedWindow | None:
    with extracting(pipeline) as rows:
        return rows.claim_window(worker or pipeline.runtime.worker, lease_s)


def held(pipeline: Stack, worker: WorkerId | None = None) -> ClaimedWindow:
    """A claim that must succeed."""
    found = claim(pipeline, worker)
    assert found is not None
    return found


def result_of(window: ClaimedWindow, text: str = "Bob lives in Davis.") -> WindowResult:
    """One candidate for the window's first cell."""
    item = candidate(statement(text), cell=window.cells[0].id.int)
    cells = [CellResult(cell.id, Outcome.OK, f"Cell {cell.ordinal}.", ()) for cell in window.cells]
    cells[0] = CellResult(window.cells[0].id, Outcome.OK, "First.", (item,))
    answer = ExtractionAnswer.model_validate({"items": []}).model_dump(mode="json")
    return WindowResult(tuple(cells), {}, input_hash=b"key", answer=answer)


def finish(pipeline: Stack, window: ClaimedWindow, text: str = "Bob lives in Davis.") -> bool:
    with extracting(pipeline) as rows:
        return rows.finish_window(window, "model", result_of(window, text), SETTINGS)


def enqueue(pipeline: Stack, session: str = "s1", count: int = 4) -> None:
    pipeline.memory.client.enqueue("bob", session, said(*[f"Turn {number}." for number in range(count)]))


def states(pipeline: Stack) -> list[str]:
    return [str(row.state) for row in pipeline.rows(WORK)]


def free(pipeline: Stack, limits: LeaseLimits = LIMITS) -> int:
    """Free what was lost, as a round of the reconciler does; how much."""
    freed = 0
    for tenant in pipeline.services.jobs.lost(limits):
        with pipeline.services.jobs.upkeep(tenant) as rows:
            freed += rows.free_lost(limits)
    return freed


# Claims


def test_a_claim_takes_a_whole_window_with_what_its_extraction_reads(pipeline: Stack) -> None:
    enqueue(pipeline, count=7)

    first, second = held(pipeline), held(pipeline)

    assert [cell.ordinal for cell in first.cells] == [0, 1]
    assert ([turn.ordinal for turn in first.context], [turn.ordinal for turn in first.turns]) == ([], [0, 1, 2, 3])
    assert [cell.ordinal for cell in second.cells] == [2, 3]
    assert ([turn.ordinal for turn in second.context], [turn.ordinal for turn in second.turns]) == ([2, 3], [4, 5, 6])
    assert (first.owner, first.time_zone, first.attempts) == ("bob", "UTC", 1)
    assert first.token != second.token
    assert claim(pipeline) is None
    assert states(pipeline) == ["running"] * 4
    shown, cells = window_of(second)
    assert [turn.number for turn in (*shown.context, *shown.turns)] == [-1, 0, 1, 2, 3]
    assert list(cells.values()) == [cell.id for cell in second.cells]


def test_live_sessions_go_before_backfill_and_older_before_newer(pipeline: Stack) -> None:
    client = pipeline.memory.client
    for session, backfill in (("old bulk", True), ("old", False), ("new", False), ("new bulk", True)):
        client.enqueue("bob", session, said("One."), backfill=backfill)
    names = {row[0]: row[1] for row in pipeline.rows("SELECT session_id, external_id FROM memforest.session")}

    assert [names[held(pipeline).session_id] for _ in range(4)] == ["old", "new", "old bulk", "new bulk"]


def test_no_two_workers_claim_the_same_window(pipeline: Stack) -> None:
    """Given 40 windows and eight workers that claim at once, then each window is claimed exactly once."""
    for number in range(10):
        enqueue(pipeline, f"s{number}", 16)
    start, claims, lock = threading.Barrier(8), list[ClaimedWindow](), threading.Lock()

    def drain() -> None:
        worker = WorkerId(uuid4())
        start.wait()
        while (window := claim(pipeline, worker)) is not None:
            with lock:
                claims.append(window)

    threads = [threading.Thread(target=drain) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)

    cells = [cell.id for window in claims for cell in window.cells]
    assert len(cells) == len(set(cells)) == 80
    assert len(claims) == len({window.token for window in claims}) == 40


def test_a_locked_window_is_passed_over(pipeline: Stack) -> None:
    """Given a claim that has not committed, when another worker claims, then it takes the next window and waits not."""
    enqueue(pipeline, count=8)

    with extracting(pipeline) as rows:
        first = rows.claim_window(pipeline.runtime.worker, 60.0)
        second = claim(pipeline)

    assert first is not None and second is not None
    assert [cell.ordinal for cell in first.cells] == [0, 1]
    assert [cell.ordinal for cell in second.cells] == [2, 3]


# Endings


def test_a_finish_stores_everything_at_once(pipeline: Stack) -> None:
    enqueue(pipeline)
    window = held(pipeline)

    assert finish(pipeline, window)

    assert states(pipeline) == ["done", "done"]
    assert all(row.lease_token is None and row.worker_id is None for row in pipeline.rows(WORK))
    assert pipeline.rows("SELECT summary FROM memforest.cell ORDER BY ordinal") == [("First.",), ("Cell 1.",)]
    counts = pipeline.counts()
    assert (counts["candidate"], counts["extraction_cache"]) == (1, 1)


@pytest.mark.parametrize("fate", ["never had it", "freed", "freed and claimed again", "finished already"])
@pytest.mark.parametrize("ending", ["finish", "retry", "split", "bury"])
def test_without_the_lease_an_ending_changes_nothing(pipeline: Stack, fate: str, ending: str) -> None:
    enqueue(pipeline)
    window = held(pipeline)
    if fate == "never had it":
        window = replace(window, token=LeaseToken(uuid4()))
    elif fate == "finished already":
        assert finish(pipeline, window, "Bob lives in Davis.")
    else:
        pipeline.execute(EXPIRE)
        assert free(pipeline) == 2
        if fate == "freed and claimed again":
            held(pipeline)
    before, counts = pipeline.rows(WORK), pipeline.counts()

    with extracting(pipeline) as rows:
        if ending == "finish":
            assert not rows.finish_window(window, "model", result_of(window, "Bob lives in Miami."), SETTINGS)
        elif ending == "retry":
            rows.retry_window(window, 0.0, counts=True, code="late", text="Late.")
        elif ending == "split":
            rows.split_window(window, "late", "Late.")
        else:
            rows.bury_window(window, "late", "Late.")

    assert pipeline.rows(WORK) == before
    assert pipeline.counts() == counts
    assert pipeline.rows("SELECT count(*) FROM memforest.candidate WHERE statement->>'text' LIKE '%Miami%'")[0][0] == 0


def test_a_window_of_which_a_part_was_lost_is_not_finished(pipeline: Stack) -> None:
    """Given that one of two cells was lost meanwhile, then no cell is done without the facts that were read from it."""
    enqueue(pipeline)
    window = held(pipeline)
    pipeline.execute("UPDATE memforest.cell SET state = 'ready', lease_token = NULL WHERE ordinal = 1")
    before = pipeline.rows(WORK)

    stored = finish(pipeline, window)

    assert not stored
    assert pipeline.counts()["candidate"] == 0
    assert pipeline.rows(WORK) == before


@pytest.mark.parametrize(("counts", "attempts"), [(True, 1), (False, 0)])
def test_a_retry_counts_only_what_the_work_is_to_blame_for(pipeline: Stack, counts: bool, attempts: int) -> None:
    enqueue(pipeline)
    window = held(pipeline)
    with extracting(pipeline) as rows:
        rows.retry_window(window, 0.0, counts=counts, code="some_code", text="A reason.")

    assert [(row.state, row.attempts, row.error_code) for row in pipeline.rows(WORK)] == [
        ("ready", attempts, "some_code")
    ] * 2
    window = held(pipeline)
    assert window.attempts == attempts + 1
    with extracting(pipeline) as rows:
        rows.retry_window(window, 60.0, counts=counts, code="some_code", text="A reason.")
    assert claim(pipeline) is None
    assert pipeline.services.jobs.waiting(WorkKind.EXTRACT) == []


def test_a_split_window_comes_back_cell_by_cell(pipeline: Stack) -> None:
    enqueue(pipeline)
    window = held(pipeline)
    with extracting(pipeline) as rows:
        rows.split_window(window, "context_too_long", "Too long.")

    first, second = held(pipeline), held(pipeline)
    assert [[cell.ordinal for cell in each.cells] for each in (first, second)] == [[0], [1]]
    assert [turn.ordinal for turn in second.context] == [0, 1]


def test_buried_work_is_visible_and_claimed_no_more(pipeline: Stack) -> None:
    enqueue(pipeline)
    window = held(pipeline)
    with extracting(pipeline) as rows:
        rows.bury_window(window, "poison", "It cannot be read.")

    assert claim(pipeline) is None
    assert [(row.state, row.outcome, row.error_code) for row in pipeline.rows(WORK)] == [("dead", "dead", "poison")] * 2
    status = pipeline.memory.status("bob", "s1")
    assert (status.dead, status.cells) == (2, 2)


# Lost leases


def test_a_lease_that_is_past_its_deadline_is_lost_and_is_no_attempt(pipeline: Stack) -> None:
    enqueue(pipeline)
    held(pipeline)
    assert free(pipeline) == 0

    pipeline.execute(EXPIRE)

    assert pipeline.services.jobs.lost(LIMITS) == [pipeline.tenant]
    assert free(pipeline) == 2
    assert [(row.state, row.attempts, row.lost_leases) for row in pipeline.rows(WORK)] == [("ready", 0, 1)] * 2
    assert all(row.lease_token is None and row.worker_id is None for row in pipeline.rows(WORK))
    assert pipeline.services.jobs.lost(LIMITS) == []
    assert held(pipeline).attempts == 1


@pytest.mark.parametrize("fate", ["silent", "left", "struck off"])
def test_a_lease_ends_with_its_worker(pipeline: Stack, fate: str) -> None:
    """Given a lease of an hour, when its worker's heartbeat is gone, then the work is free at once; others' is not."""
    jobs = pipeline.services.jobs
    worker = WorkerId(uuid4())
    jobs.register(worker, "other", ["extract"])
    enqueue(pipeline, count=8)
    held(pipeline, worker)
    held(pipeline)
    assert free(pipeline) == 0

    if fate == "left":
        jobs.leave(worker)
    else:
        pipeline.execute(
            "UPDATE memforest.worker SET heartbeat_at = clock_timestamp() - interval '31 s' WHERE name = 'other'"
        )
    if fate == "struck off":
        assert jobs.delete_dead(30.0) == 1

    assert free(pipeline) == 2
    assert states(pipeline) == ["ready", "ready", "running", "running"]


def test_a_heartbeat_preserves_a_worker_and_its_leases(pipeline: Stack) -> None:
    jobs = pipeline.services.jobs
    enqueue(pipeline)
    held(pipeline)
    pipeline.execute("UPDATE memforest.worker SET heartbeat_at = clock_timestamp() - interval '1 h'")

    assert jobs.beat(pipeline.runtime.worker)

    assert jobs.lost(LIMITS) == []
    assert jobs.delete_dead(30.0) == 0
    jobs.leave(pipeline.runtime.worker)
    assert not jobs.beat(pipeline.runtime.worker)
    jobs.register(pipeline.runtime.worker, "back", ["extract"])
    assert jobs.beat(pipeline.runtime.worker)


def test_work_that_loses_its_workers_too_often_is_put_aside(pipeline: Stack) -> None:
    """Given at most three lost leases, when the fourth is lost, then the work is dead, visible and has its reason."""
    enqueue(pipeline)
    for lost in range(1, 4):
        held(pipeline)
        pipeline.execute(EXPIRE)
        assert free(pipeline) == 2
        assert [(row.state, row.lost_leases) for row in pipeline.rows(WORK)] == [("ready", lost)] * 2
    held(pipeline)
    pipeline.execute(EXPIRE)
    assert free(pipeline) == 2

    assert [(row.state, row.outcome, row.error_code) for row in pipeline.rows(WORK)] == [
        ("dead", "dead", "lease_lost")
    ] * 2
    assert claim(pipeline) is None
    assert pipeline.memory.status("bob", "s1").dead == 2


def test_index_rows_and_nodes_are_freed_too(pipeline: Stack) -> None:
    """Given index rows and nodes under leases of a worker that is gone, then both can be claimed again."""
    enqueue(pipeline)
    pipeline.drive()
    lease = "lease_token = gen_random_uuid(), lease_until = clock_timestamp() + interval '1 h', worker_id = :w"
    gone = uuid4()
    pipeline.execute("UPDATE memforest.index_row SET state = 'ready', version = version + 1 WHERE kind = 'cell'")
    pipeline.execute("UPDATE memforest.node SET version = version + 1 WHERE parent_id IS NULL")
    pipeline.execute(f"UPDATE memforest.index_row SET state = 'running', {lease} WHERE kind = 'cell'", w=gone)
    pipeline.execute(f"UPDATE memforest.node SET {lease} WHERE parent_id IS NULL", w=gone)

    assert pipeline.services.jobs.lost(LIMITS) == [pipeline.tenant]
    assert free(pipeline) > 2

    assert pipeline.rows("SELECT DISTINCT state, lost_leases FROM memforest.index_row WHERE kind = 'cell'") == [
        ("ready", 1)
    ]
    assert pipeline.rows("SELECT count(*) FROM memforest.node WHERE lease_until IS NOT NULL")[0][0] == 0


def test_one_worker_reconciles_at_a_time(pipeline: Stack) -> None:
    enqueue(pipeline)
    with pipeline.services.jobs.reconciling() as mine:
        assert mine
        with pipeline.services.jobs.reconciling() as second:
            assert not second
        assert not pipeline.services.reconciler.run().mine
    done = pipeline.services.reconciler.run()
    assert done.mine
    assert done.woken >= 1


# Separate tenants


TENANT_TABLES = (
    "SELECT table_name FROM information_schema.columns WHERE table_schema = 'memforest' AND column_name = 'tenant_id'"
)


@pytest.fixture
def two_tenants(pipeline: Stack) -> Stack:
    """Everything that a worked-through session writes, for the tenants default and other."""
    other = MemForestClient(pipeline.settings.model_copy(update={"tenant": "other"}))
    other.enqueue("bob", "s1", said("I live in Oslo.", "I adopted a cat.", "I work at a mill."))
    other.close()
    pipeline.memory.client.enqueue("bob", "s1", said("I live in Davis.", "I adopted a dog.", "I work at the lab."))
    pipeline.drive()
    return pipeline


def visible(connection: sa.Connection, tables: Sequence[str]) -> dict[str, list[str]]:
    """The tenants whose rows can be seen in each table."""
    found: dict[str, list[str]] = {}
    for table in tables:
        rows = connection.scalars(sa.text(f"SELECT DISTINCT tenant_id FROM memforest.{table} ORDER BY 1"))
        found[table] = [str(row) for row in rows]
    return found


def test_the_service_sees_and_writes_its_tenants_rows_only(two_tenants: Stack) -> None:
    """Given rows of two tenants in all tables, then a transaction sees those of its own, without one none, and
    changes no other's."""
    tables, before = sorted(str(row[0]) for row in two_tenants.rows(TENANT_TABLES)), two_tenants.counts()
    assert len(tables) >= 15
    filled = {table for table, count in before.items() if count} & set(tables)
    assert {"cell", "turn", "fact", "candidate", "tree", "node", "node_summary", "vector", "index_row"} <= filled

    engine = two_tenants.services.engine
    for tenant in ("default", "other"):
        with tenant_transaction(engine, TenantId(tenant)) as connection:
            seen = visible(connection, tables)
        assert {table for table, tenants in seen.items() if tenants} == filled
        assert all(tenants in ([], [tenant]) for tenants in seen.values())
    for unbound in (None, "", "nobody"):
        with engine.begin() as connection:
            if unbound is not None:
                connection.execute(sa.text("SELECT set_config('memforest.tenant', :t, true)"), {"t": unbound})
            assert all(tenants == [] for tenants in visible(connection, tables).values())
            assert connection.execute(sa.text("UPDATE memforest.cell SET state = 'dead'")).rowcount == 0
            assert connection.execute(sa.text("DELETE FROM memforest.llm_call")).rowcount == 0
    for attempt in (
        "INSERT INTO memforest.tenant (tenant_id) VALUES ('third')",
        "INSERT INTO memforest.forest (tenant_id, forest_id, owner) VALUES ('other', gen_random_uuid(), 'eve')",
        "UPDATE memforest.forest SET tenant_id = 'other'",
    ):
        with pytest.raises(InvariantViolated, match="42501"), tenant_transaction(engine, two_tenants.tenant) as bound:
            bound.execute(sa.text(attempt))
    third = MemForestClient(two_tenants.settings.model_copy(update={"tenant": "third"}))
    with pytest.raises(NotFound):
        third.status("bob", "s1")
    third.close()

    assert two_tenants.counts() == before


def test_the_service_cannot_change_the_schema_or_its_own_fences(pipeline: Stack) -> None:
    for attempt in (
        "DROP TABLE memforest.cell",
        "ALTER TABLE memforest.cell DISABLE ROW LEVEL SECURITY",
        "DROP POLICY tenant_isolation ON memforest.cell",
        "UPDATE memforest.schema_version SET version_num = '0'",
        "TRUNCATE memforest.cell",
        "SET ROLE postgres",
    ):
        with pytest.raises(sa.exc.ProgrammingError), pipeline.services.engine.begin() as connection:
            connection.execute(sa.text(attempt))


def test_who_has_work_is_found_past_any_number_of_tenants_who_have_none(two_tenants: Stack) -> None:
    """Given 200 more tenants, between the two and without work, then they are not even looked at."""
    two_tenants.execute("INSERT INTO memforest.tenant (tenant_id) SELECT 'idle-' || n FROM generate_series(1, 200) n")
    two_tenants.execute("UPDATE memforest.cell SET retry_at = now()")
    known = {row[0] for row in two_tenants.rows("SELECT DISTINCT tenant_id FROM memforest.cell")}
    assert len(known) == 2
    for kind in WorkKind:
        looked_at = {row[0] for row in two_tenants.rows(f"SELECT tenant_id FROM memforest.busy('{kind.value}')")}
        waiting = {row[0] for row in two_tenants.rows(f"SELECT tenant_id FROM memforest.waiting('{kind.value}')")}
        assert waiting <= looked_at <= known
    assert {row[0] for row in two_tenants.rows("SELECT tenant_id FROM memforest.waiting('reopen')")} == known


def test_what_waits_is_known_across_tenants_by_id_only(pipeline: Stack) -> None:
    """Given work of two tenants, then a worker learns whose turn it is, the live lane first, and nothing else."""
    for tenant, backfill in (("bulk", True), ("live", False)):
        client = MemForestClient(pipeline.settings.model_copy(update={"tenant": tenant}))
        client.enqueue("bob", "s1", said("One."), backfill=backfill)
        client.close()
    jobs = pipeline.services.jobs

    assert jobs.waiting(WorkKind.EXTRACT) == ["live", "bulk"]
    assert sorted(jobs.waiting(WorkKind.MAINTAIN)) == ["bulk", "live"]
    assert [jobs.waiting(kind) for kind in (WorkKind.REDUCE, WorkKind.REFRESH, WorkKind.REDO, WorkKind.HELD)] == [
        []
    ] * 4

    pipeline.execute("UPDATE memforest.cell SET state = 'running', worker_id = gen_random_uuid()")
    assert sorted(jobs.lost(LIMITS)) == ["bulk", "live"]
    with pipeline.services.engine.begin() as connection:
        for call in ("waiting('maintain')", "lost(interval '1 s')"):
            row = connection.execute(sa.text(f"SELECT * FROM memforest.{call}")).mappings().first()
            assert row is not None
            assert set(row) <= {"tenant_id", "lane"}


@pytest.fixture
def importing(pipeline: Stack) -> Stack:
    """A window of an import waits of each of ten tenants."""
    for number in range(10):
        settings = pipeline.settings.model_copy(update={"tenant": f"tenant-{number}"})
        client = MemForestClient(settings, producer=pipeline.services.producer)
        client.enqueue("bob", "s1", said("One."), backfill=True)
    return pipeline


def polls_of(running: Stack, kind: WorkKind, most: int, number: int) -> list[list[TenantId]]:
    """What so many polls name, after the first one of a process, which begins anywhere."""
    jobs = JobStore(running.services.engine)
    jobs.next_waiting(kind, most)
    return [jobs.next_waiting(kind, most) for _ in range(number)]


def test_each_of_many_tenants_has_its_turn_behind_the_live_lane(importing: Stack) -> None:
    """Given ten tenants at work, when each poll goes on after the one before, then after four polls of three all were
    named, and one of more than there are names each once; when one of them speaks, then each poll names it first; what is not due yet is not named."""
    names = {f"tenant-{number}" for number in range(10)}
    polls = polls_of(importing, WorkKind.EXTRACT, 3, 4)
    assert {len(poll) for poll in polls} == {3}
    assert {tenant for poll in polls for tenant in poll} == names
    assert sorted(importing.services.jobs.next_waiting(WorkKind.EXTRACT, 99)) == sorted(names)

    importing.execute("UPDATE memforest.cell SET lane = 0 WHERE tenant_id = 'tenant-7'")
    polls = polls_of(importing, WorkKind.EXTRACT, 3, 6)
    assert {poll[0] for poll in polls} == {"tenant-7"}
    assert all(len(set(poll)) == 3 for poll in polls)
    assert {tenant for poll in polls for tenant in poll} == names

    importing.execute(
        "UPDATE memforest.cell SET available_at = now() + interval '1 h' WHERE tenant_id IN ('tenant-3', 'tenant-7')"
    )
    polls = polls_of(importing, WorkKind.EXTRACT, 3, 4)
    assert {tenant for poll in polls for tenant in poll} == names - {"tenant-3", "tenant-7"}


def test_due_trees_are_named_by_turns_too(two_tenants: Stack) -> None:
    """Given due trees of two tenants, then polls for one name them in turn; none before it is due."""
    two_tenants.execute("UPDATE memforest.tree SET due_at = now()")
    polls = polls_of(two_tenants, WorkKind.REFRESH, 1, 2)
    assert sorted(tenant for poll in polls for tenant in poll) == ["default", "other"]
    two_tenants.execute("UPDATE memforest.tree SET due_at = now() + interval '1 h'")
    assert polls_of(two_tenants, WorkKind.REFRESH, 1, 1) == [[]]


def test_what_waits_is_nothing_to_others(pipeline: Stack) -> None:
    """Given a role that is no service, then it may not ask across tenants."""
    rights = pipeline.rows(
        """SELECT p.proname, a.privilege_type, a.grantee::regrole::text FROM pg_proc p, aclexplode(p.proacl) a
            WHERE p.pronamespace = 'memforest'::regnamespace AND a.grantee <> p.proowner"""
    )
    both = (
        "backlog",
        "key_caller",
        "lost",
        "next_waiting",
        "operation_rule",
        "packed",
        "refuse_moved",
        "tenants",
        "waiting",
        "waits_for",
    )
    assert {tuple(row) for row in rights} == {
        ("granted_tenants", "EXECUTE", "memforest_limited"),
        *((name, "EXECUTE", f"memforest_{group}") for name in both for group in ("limited", "service")),
    }


# One state machine, held by the database


_PAIRS = """held ready, ready running, running ready, running done, running dead, done ready, done dead,
    dead ready, dead done"""
LEGAL = {" ".join(pair.split()) for pair in _PAIRS.split(",")}


@pytest.mark.parametrize("table", ["cell", "index_row", "maintenance"])
def test_the_database_refuses_what_the_table_of_transitions_does_not_know(pipeline: Stack, table: str) -> None:
    """Given rows of work in every state, when a statement moves one, then it may exactly if some event does so."""
    enqueue(pipeline, count=2)
    pipeline.execute(
        "INSERT INTO memforest.maintenance (tenant_id, task_id, kind) VALUES (:t, gen_random_uuid(), 'test')",
        t=pipeline.tenant,
    )
    assert set(WorkState) == {state for pair in LEGAL for state in pair.split()}
    move = f"UPDATE memforest.{table} SET state = :new"
    for old, new in product(WorkState, WorkState):
        pipeline.execute(f"ALTER TABLE memforest.{table} DISABLE TRIGGER work_transition")
        pipeline.execute(move, new=old.value)
        pipeline.execute(f"ALTER TABLE memforest.{table} ENABLE TRIGGER work_transition")
        if old == new or f"{old} {new}" in LEGAL:
            pipeline.execute(move, new=new.value)
        else:
            with pytest.raises(sa.exc.IntegrityError, match="cannot become"):
                pipeline.execute(move, new=new.value)


def test_a_nodes_state_follows_from_its_row_and_is_held_to_the_same_table(pipeline: Stack) -> None:
    enqueue(pipeline)
    pipeline.drive()

    def state() -> str:
        return str(pipeline.rows("SELECT state FROM memforest.node WHERE parent_id IS NULL LIMIT 1")[0][0])

    lease = "lease_token = gen_random_uuid(), lease_until = clock_timestamp(), worker_id = gen_random_uuid()"
    assert state() == "done"
    with pytest.raises(sa.exc.IntegrityError, match="is done cannot become running"):
        pipeline.execute(f"UPDATE memforest.node SET {lease} WHERE parent_id IS NULL")
    pipeline.execute("UPDATE memforest.node SET version = version + 1 WHERE parent_id IS NULL")
    assert state() == "ready"
    pipeline.execute(f"UPDATE memforest.node SET {lease} WHERE parent_id IS NULL")
    assert state() == "running"
    pipeline.execute("UPDATE memforest.node SET dead = true, lease_token = NULL WHERE parent_id IS NULL")
    assert state() == "dead"
    pipeline.execute("UPDATE memforest.node SET dead = false WHERE parent_id IS NULL")
    assert state() == "ready"
