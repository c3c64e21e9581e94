"""Refusing early on real Postgres: nothing is written, what is stored is never refused, and imports wait for room."""

from __future__ import annotations

import gc
import json
import threading
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from memforest_core.cli.program import app
from memforest_core.client.handles import SessionHandle
from memforest_core.client.producer import MemForestClient
from memforest_core.domain.ids import TenantId
from memforest_core.errors import InvalidInput, QuotaExceeded, SessionConflict
from memforest_core.ingest.accept.quotas import DAY_S, DEPTH_S
from memforest_core.ingest.accept.records import TenantLimits
from memforest_core.ingest.accept.rows import SAMPLE_WINDOWS, AcceptRows
from memforest_core.ingest.accept.service import Acceptance
from memforest_core.settings import AcceptSettings
from memforest_core.store.engine import tenant_transaction
from memforest_core.work.jobs import Lane
from tests.harness.sayings import said
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack, stack

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def tight(servers: SessionServers, tmp_path: Path) -> Iterator[Stack]:
    """At most ten cells wait, eight of them of a backfill."""
    with stack(servers, tmp_path, accept={"max_waiting_cells": 10}) as running:
        yield running


def sessions(count: int, turns: int = 4) -> Iterator[tuple[str, str, Sequence[object]]]:
    """Sessions as an import sends them, two cells each by default."""
    for number in range(count):
        yield "bob", f"s{number}", said(*[f"Sentence {n} of {number}." for n in range(turns)])


def fill(pipeline: Stack, cells: int) -> None:
    pipeline.memory.client.enqueue("full", f"f{cells}", said(*[f"Sentence {n}." for n in range(2 * cells)]))


def test_a_full_queue_refuses_and_writes_nothing(tight: Stack) -> None:
    """Given as many waiting cells as may wait, then a new owner's session, a longer one and a turn are refused whole."""
    client = tight.memory.client
    client.enqueue("bob", "s1", said("One.", "Two."))
    client.append("bob", "chat", said("One.")[0])
    fill(tight, 9)
    before = tight.counts()

    longer, turn = said("One.", "Two.", "Three."), said("Two.", start=1_700_000_100)[0]
    calls: list[Callable[[], SessionHandle]] = [
        lambda: client.enqueue("new", "s1", said("Hello.")),
        lambda: client.enqueue("bob", "s1", longer),
        lambda: client.append("bob", "chat", turn),
        lambda: client.append("bob", "other", turn),
    ]
    for call in calls:
        with pytest.raises(QuotaExceeded) as refused:
            call()
        assert refused.value.code == "quota_exceeded"
        assert 1.0 <= refused.value.retry_after <= 300.0
    assert tight.counts() == before
    assert client.status("bob", "s1").turns == 2

    tight.drive()
    assert client.enqueue("bob", "s1", longer).accepted.new_turns == 1
    assert client.append("bob", "chat", turn).accepted.new_turns == 1


def test_what_is_stored_already_is_never_refused(tight: Stack) -> None:
    client = tight.memory.client
    client.enqueue("bob", "s1", said("One.", "Two."))
    turn = said("One.")[0] | {"id": "m1"}
    client.append("bob", "chat", turn)
    fill(tight, 9)

    assert client.enqueue("bob", "s1", said("One.", "Two.")).accepted.new_turns == 0
    assert client.enqueue("bob", "s1", said("One.")).accepted.new_turns == 0
    assert client.append("bob", "chat", turn).accepted.new_turns == 0
    with pytest.raises(SessionConflict):
        client.enqueue("bob", "s1", said("Uno."))


def test_a_backfill_leaves_the_last_fifth_to_live_sessions(tight: Stack) -> None:
    client = tight.memory.client
    fill(tight, 8)
    with pytest.raises(QuotaExceeded, match="8 may for a backfill"):
        client.enqueue("bob", "s1", said("One.", "Two."), backfill=True)
    client.enqueue("bob", "s1", said("One.", "Two."))
    with pytest.raises(QuotaExceeded):
        client.enqueue("bob", "s1", said("One.", "Two.", "Three."), backfill=True)


def test_other_tenants_are_not_held_up(tight: Stack) -> None:
    fill(tight, 10)
    with pytest.raises(QuotaExceeded):
        fill(tight, 11)
    other = tight.settings.model_copy(update={"tenant": "other"})
    with MemForestClient(other) as client:
        assert client.enqueue("bob", "s1", said("One.")).accepted.new_turns == 1


def test_other_processes_see_what_was_accepted_within_a_moment(tight: Stack) -> None:
    """Given a process that counted an empty queue, when another fills it, then it refuses once its count is old."""
    clock = [0.0]
    mine = Acceptance(
        tight.services.engine,
        tight.services.producer.wakeups,
        tight.settings.accept,
        1,
        lambda: datetime.now(UTC),
        lambda: clock[0],
    )
    mine.enqueue(tight.tenant, "bob", "s1", said("One."))
    fill(tight, 10)
    assert mine.enqueue(tight.tenant, "bob", "s2", said("One.")).new_turns == 1
    clock[0] += DEPTH_S
    with pytest.raises(QuotaExceeded):
        mine.enqueue(tight.tenant, "bob", "s3", said("One."))


def test_waiting_cells_are_counted_one_by_one_while_there_are_few(pipeline: Stack) -> None:
    """Given windows of one, two and no waiting cells, and an open one, then only what is ready counts."""
    client = pipeline.memory.client
    client.enqueue("bob", "s1", said("One.", "Two.", "Three."))
    client.enqueue("bob", "s2", said(*[f"Sentence {n}." for n in range(22)]))
    client.append("bob", "chat", said("One.")[0])
    assert client.quota().waiting_cells == 2 + 11
    pipeline.execute("UPDATE memforest.cell SET state = 'running' WHERE ordinal IN (0, 1) AND state = 'ready'")
    assert client.quota().waiting_cells == 9


def test_past_the_sample_the_number_of_cells_is_near(pipeline: Stack) -> None:
    """Given more windows than are looked into, then cells are as many as those windows hold each."""
    turns = said(*[f"Sentence {n}." for n in range(8 * SAMPLE_WINDOWS)])
    pipeline.memory.client.enqueue("bob", "s1", turns)
    windows = 2 * SAMPLE_WINDOWS
    with tenant_transaction(pipeline.services.engine, pipeline.tenant) as connection:
        counted = AcceptRows(connection, pipeline.tenant)
        assert counted.waiting_cells(10**6) == 2 * windows
        assert counted.waiting_cells(300) == 600


def test_a_session_over_the_whole_limit_still_gets_in_when_nothing_waits(tight: Stack) -> None:
    fill(tight, 50)
    assert tight.memory.client.quota().waiting_cells >= 11


# A day's turns


def test_a_full_day_refuses_until_turns_fall_out_of_it(servers: SessionServers, tmp_path: Path) -> None:
    with stack(servers, tmp_path, accept={"max_turns_per_day": 10}) as pipeline:
        client = pipeline.memory.client
        client.enqueue("bob", "s1", said(*[f"Sentence {n}." for n in range(10)]))
        for backfill in (False, True):
            with pytest.raises(QuotaExceeded, match="10 turns within 24 hours and may store 10") as refused:
                client.enqueue("bob", "s2", said("One."), backfill=backfill)
            assert refused.value.retry_after == 3_600.0
        assert client.enqueue("bob", "s1", said("Sentence 0.")).accepted.new_turns == 0

        pipeline.execute("UPDATE memforest.session SET created_at = now() - interval '23 hours 59 minutes'")
        with pytest.raises(QuotaExceeded) as refused:
            client.enqueue("bob", "s2", said("One."))
        assert 50 < refused.value.retry_after <= 60
        pipeline.execute(
            "UPDATE memforest.session SET created_at = now() - interval '2 days', updated_at = now() - interval '2 days'"
        )
        pipeline.execute("UPDATE memforest.cell SET created_at = now() - interval '2 days'")
        assert client.enqueue("bob", "s2", said("One.")).accepted.new_turns == 1


def test_a_long_lived_session_counts_what_came_today(pipeline: Stack) -> None:
    """Given a session of two days ago that goes on, then only what it stored since counts."""
    client = pipeline.memory.client
    old, new = said(*[f"Sentence {n}." for n in range(50)]), said("More.", "And more.", "Enough.", start=1_700_100_000)
    client.enqueue("bob", "s1", old)
    pipeline.execute("UPDATE memforest.session SET created_at = now() - interval '2 days'")
    pipeline.execute("UPDATE memforest.cell SET created_at = now() - interval '2 days'")
    client.enqueue("bob", "s1", old + new)
    client.enqueue("bob", "s2", said("One.", "Two."))
    with tenant_transaction(pipeline.services.engine, pipeline.tenant) as connection:
        turns, oldest_s = AcceptRows(connection, pipeline.tenant).stored_turns(DAY_S)
    assert turns == 5
    assert 0 <= oldest_s < 60


# Imports that wait for room


def test_an_import_waits_for_room_and_loses_nothing(tight: Stack) -> None:
    """Given twice what may wait, when workers drain the queue meanwhile, then all of it gets in, in order."""
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            if not tight.runtime.extract():
                stop.wait(0.05)

    worker = threading.Thread(target=work)
    worker.start()
    most = 0
    try:
        handles = []
        for handle in tight.memory.enqueue_stream(sessions(12), room_timeout_s=60.0):
            handles.append(handle.session_id)
            most = max(most, tight.memory.client.quota().waiting_cells)
    finally:
        stop.set()
        worker.join()
    assert handles == [f"s{n}" for n in range(12)]
    assert most <= 10
    assert tight.rows("SELECT count(*), count(DISTINCT lane) FROM memforest.session") == [(12, 1)]


def test_an_import_without_room_in_time_ends_and_can_go_on(tight: Stack) -> None:
    """Given nobody who drains the queue, then the import takes no more than fits, and the same call later goes on."""
    taken = []

    def watched() -> Iterator[tuple[str, str, Sequence[object]]]:
        for session in sessions(100):
            taken.append(session[1])
            yield session

    with pytest.raises(QuotaExceeded):
        tight.memory.ingest_many(watched(), room_timeout_s=0.2)
    assert taken == ["s0", "s1", "s2", "s3", "s4"]
    assert tight.rows("SELECT count(*) FROM memforest.session") == [(4,)]

    tight.drive()
    handles = tight.memory.ingest_many(sessions(6), wait="none", room_timeout_s=0.2)
    assert [handle.accepted.new_turns for handle in handles] == [0, 0, 0, 0, 4, 4]


def test_a_stream_of_sessions_takes_the_memory_of_one(pipeline: Stack) -> None:
    """Given many sessions of 50 KB, then the memory in use after many is no more than after a few."""

    def large() -> Iterator[tuple[str, str, Sequence[object]]]:
        for number in range(90):
            yield "bob", f"s{number}", said(*[f"{number} {n} " + "x" * 5_000 for n in range(10)])

    def measured() -> Iterator[int]:
        for number, _ in enumerate(pipeline.memory.client.enqueue_stream(large())):
            if number in (20, 89):
                gc.collect()  # only what can be reached counts
                yield tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        early, late = measured()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert late - early < 1_000_000
    assert peak < 20_000_000


# A tenant's own limits


def test_a_tenants_own_limits_are_set_seen_and_taken_back(pipeline: Stack) -> None:
    client = pipeline.memory.client
    assert client.quota().own == TenantLimits()
    client.set_limits(TenantLimits(max_waiting_cells=1, max_turns_per_day=7))
    client.enqueue("bob", "s1", said("One."))
    quota = client.quota()
    assert (quota.max_waiting_cells, quota.max_turns_per_day) == (1, 7)
    assert (quota.waiting_cells, quota.turns_in_a_day) == (1, 1)
    with pytest.raises(QuotaExceeded):
        client.enqueue("bob", "s2", said("One."))

    client.set_limits(TenantLimits())
    client.enqueue("bob", "s2", said("One."))
    assert client.quota().max_waiting_cells == AcceptSettings().max_waiting_cells


@pytest.mark.parametrize("value", [0, -1, 2**31])
def test_an_impossible_limit_is_refused(pipeline: Stack, value: int) -> None:
    for limits in (TenantLimits(max_waiting_cells=value), TenantLimits(max_turns_per_day=value)):
        with pytest.raises(InvalidInput, match="between 1 and 2147483647"):
            pipeline.memory.client.set_limits(limits)
    assert pipeline.memory.client.quota().own == TenantLimits()


def test_limits_of_one_tenant_are_not_anothers(pipeline: Stack) -> None:
    client = pipeline.memory.client
    client.set_limits(TenantLimits(5, 6), "other")
    assert client.quota().own == TenantLimits()
    assert client.quota("other").own == TenantLimits(5, 6)
    assert pipeline.rows("SELECT tenant_id, max_waiting_cells FROM memforest.tenant") == [("other", 5)]


@pytest.fixture
def shell(tight: Stack, monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    """The commands, over the tight stack's services."""
    monkeypatch.setenv("MEMFOREST_DATABASE__URL", tight.settings.database.url.get_secret_value())
    monkeypatch.setenv("MEMFOREST_BROKER__URL", tight.settings.broker.url.get_secret_value())
    monkeypatch.setenv("MEMFOREST_ACCEPT__MAX_WAITING_CELLS", "10")
    return app


def test_the_command_shows_and_changes_limits(tight: Stack, shell: typer.Typer) -> None:
    def run(*arguments: str) -> dict[str, object]:
        result = CliRunner().invoke(shell, ["tenants", "limits", *arguments, "--json"])
        assert result.exit_code == 0, result.stderr
        shown: dict[str, object] = json.loads(result.stdout)
        return shown

    fill(tight, 3)
    shown = run()
    assert shown["tenant"] == "default"
    assert shown["quota"] == {
        "own": {"max_waiting_cells": None, "max_turns_per_day": None},
        "max_waiting_cells": 10,
        "max_turns_per_day": None,
        "waiting_cells": 3,
        "turns_in_a_day": 6,
    }
    run("acme", "--max-waiting-cells", "50", "--max-turns-per-day", "9")
    run("acme", "--max-turns-per-day", "none")
    assert run("acme")["quota"] == {
        "own": {"max_waiting_cells": 50, "max_turns_per_day": None},
        "max_waiting_cells": 50,
        "max_turns_per_day": None,
        "waiting_cells": 0,
        "turns_in_a_day": 0,
    }
    table = CliRunner().invoke(shell, ["tenants", "limits", "acme"]).stdout
    assert "0, of 50 (its own)" in table and "0, unlimited (by the settings)" in table
    bad = CliRunner().invoke(shell, ["tenants", "limits", "--max-waiting-cells", "many"])
    assert (bad.exit_code, "a whole number or none" in bad.stderr) == (2, True)


# Traces


def test_the_trace_of_a_session_is_the_one_it_was_created_under(pipeline: Stack) -> None:
    client = pipeline.memory.client
    client.enqueue("bob", "s1", said("One.", "Two."), trace=TRACE)
    client.enqueue("bob", "s1", said("One.", "Two.", "Three."), trace="00-" + "1" * 32 + "-" + "2" * 16 + "-01")
    client.append("bob", "chat", said("One.")[0], trace=TRACE)
    client.enqueue("bob", "untraced", said("One."))
    stored = {row.external_id: row.trace for row in pipeline.rows("SELECT external_id, trace FROM memforest.session")}
    assert stored == {"s1": TRACE, "chat": TRACE, "untraced": None}


def test_the_lane_decides_however_the_session_was_created(tight: Stack) -> None:
    """Given a session that a backfill began, when its owner goes on live, then it has the live lane's room."""
    acceptance = tight.services.producer.acceptance
    acceptance.enqueue(TenantId("default"), "bob", "s1", said("One."), lane=Lane.BACKFILL)
    fill(tight, 8)
    assert (
        acceptance.enqueue(TenantId("default"), "bob", "s1", said("Two.", start=1_700_000_100), appends=True).new_turns
        == 1
    )
