"""A tenant moves to another database while it is written to: nothing is lost or doubled, however often the mover dies."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from uuid import uuid4

import pytest
from typer.testing import CliRunner

from memforest_core.cli.program import app
from memforest_core.domain.ids import TenantId
from memforest_core.errors import (
    InvalidInput,
    InvariantViolated,
    MemForestError,
    NotFound,
    StoreUnavailable,
    TenantMoved,
)
from memforest_core.lifecycle.move import cli
from memforest_core.lifecycle.move.rows import _ALONE, _decide, cancel, forget, move
from memforest_core.models.calls import Embedder
from memforest_core.store.engine import place_of
from memforest_core.work.jobs import WorkKind
from tests.harness.kill_mover import killed
from tests.harness.sayings import said
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack, stack

OWNERS = ("ann", "ben", "cleo")
QUESTION = "Where did Bob move?"
COMMITTED = "SELECT memforest.index_row.forest_id, memforest.index_row.point_id"
"""The first statement after the other database has committed."""
DECIDING, SERVING = "memforest.moved_tenant SET move_id", "memforest.moved_tenant SET place"
"""The other database has committed the copy; this one has given the tenant up."""
KILLED_AT = (
    ("CREATE TEMP TABLE", 20),  # while everything is copied
    ("pg_prepared_xacts", 1),  # just refused
    ("SET state = 'ready', indexed_version = 0", 1),  # copied, not committed
    (DECIDING, 1),
    (SERVING, 1),
    (COMMITTED, 1),
    ("DELETE FROM memforest.fact", 1),  # while rows are deleted here
)
LEFT = ("audit", "worker", "collection", "migration", "schema_version")
"""What has rows of no tenant, and the audit."""
STORED = """
    SELECT f.owner, s.external_id, count(*) FROM memforest.turn t JOIN memforest.session s USING (tenant_id, session_id)
      JOIN memforest.forest f USING (tenant_id, forest_id) GROUP BY 1, 2
    """


@pytest.fixture
def other(servers: SessionServers, tmp_path: Path, embedder: Embedder) -> Iterator[Stack]:
    with stack(servers, tmp_path / "other", embedder=embedder) as running:
        yield running


def _address(running: Stack) -> str:
    assert running.settings.database.migration_url is not None
    return running.settings.database.migration_url.get_secret_value()


def _found(running: Stack) -> list[str]:
    return [each.text for each in running.memory.recall("ann", QUESTION).evidence]


def _moved(source: Stack, target: Stack) -> tuple[int, float]:
    return move(source.settings.database, _address(target), source.tenant, source.services.index)


def _tell(running: Stack) -> None:
    for owner in OWNERS:
        running.memory.enqueue(owner, "first", said("I moved to Lisbon in May.", "My cat is called Plum."))
    running.drive()


def _ran(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["tenants", "move", *arguments])
    assert done.exit_code == 0, done.output
    return done.output


def test_a_rested_tenant_arrives_whole_and_leaves_only_where_it_went(
    pipeline: Stack, other: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    _tell(pipeline)
    rows, found = pipeline.counts(), _found(pipeline)
    copied, _ = _moved(pipeline, other)
    assert copied == sum(rows[name] for name in rows if name not in LEFT)
    other.drive()
    assert _found(other) == found != []
    other.assert_verified()
    assert pipeline.services.index.count(pipeline.tenant) == 0
    assert {name for name, left in pipeline.counts().items() if left} <= {*LEFT, "schema_version", "moved_tenant"}
    with pytest.raises(TenantMoved, match=r"was moved to .*: use it there"):
        _found(pipeline)
    with pytest.raises(TenantMoved):
        pipeline.memory.enqueue("ann", "again", said("One more."))
    with pytest.raises(InvalidInput, match="was moved"):
        _moved(pipeline, other)
    # New rows get higher numbers than those that came; then all of it goes back.
    other.memory.enqueue("ann", "after", said("I sold my car."))
    other.drive()
    other.assert_verified()
    monkeypatch.setattr(cli, "opened_memory", lambda _: nullcontext(other.memory))
    monkeypatch.setattr("memforest_core.settings.load_settings", lambda: pipeline.settings)
    assert "Nothing of" in _ran(pipeline.tenant, "--forget")
    assert "compared" in _ran(pipeline.tenant, "--to", _address(pipeline))
    assert pipeline.counts()["session"] == len(OWNERS) + 1
    pipeline.drive()
    pipeline.assert_verified()


@pytest.mark.timeout(400)
def test_a_mover_that_is_killed_at_each_step_under_writes_loses_and_doubles_nothing(
    pipeline: Stack, other: Stack
) -> None:
    _tell(pipeline)
    accepted = {(owner, "first"): 2 for owner in OWNERS}
    refused, stop = [0], threading.Event()

    def write() -> None:
        while not stop.wait(0.05):
            owner, session = OWNERS[len(accepted) % 3], f"s{len(accepted)}"
            try:
                pipeline.memory.enqueue(owner, session, said(f"I bought lamp number {len(accepted)}.", "It is green."))
                accepted[owner, session] = 2
                pipeline.runtime.extract()
                pipeline.runtime.reduce()
            except StoreUnavailable:
                refused[0] += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for words, count in KILLED_AT:
            assert killed(pipeline.settings.database, _address(other), pipeline.tenant, words, count), words
        _moved(pipeline, other)
    finally:
        stop.set()
        writer.join()
    assert len(accepted) > len(OWNERS) and refused[0]
    assert not pipeline.services.jobs.waiting(WorkKind.EXTRACT)
    other.drive()
    other.assert_verified()
    assert {(owner, session): turns for owner, session, turns in other.rows(STORED)} == accepted


def test_an_interrupted_move_ends_also_when_the_tenant_has_gone_on(
    pipeline: Stack, other: Stack, servers: SessionServers, tmp_path: Path, embedder: Embedder
) -> None:
    _tell(pipeline)
    assert killed(pipeline.settings.database, _address(other), pipeline.tenant, COMMITTED)
    with stack(servers, tmp_path / "third", embedder=embedder) as third:
        _moved(other, third)
        assert _moved(pipeline, other) == (0, 0.0)
        assert [each.counts()["turn"] for each in (pipeline, other, third)] == [0, 0, 2 * len(OWNERS)]


def _refused(running: Stack) -> bool:
    try:
        running.memory.sessions("ann")
    except TenantMoved:
        return True
    return False


@pytest.mark.timeout(400)
def test_a_move_that_was_killed_is_cancelled_until_it_is_decided_and_never_do_both_serve(
    pipeline: Stack, other: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    _tell(pipeline)
    monkeypatch.setattr("memforest_core.settings.load_settings", lambda: pipeline.settings)
    here, to, tenant = pipeline.settings.database, _address(other), pipeline.tenant
    for number, (words, count) in enumerate((KILLED_AT[1], KILLED_AT[2], (DECIDING, 1))):
        assert killed(here, to, tenant, words, count), words
        assert _refused(pipeline) and (words != DECIDING or _refused(other))
        assert "served here again" in _ran(tenant, "--cancel")
        assert not _refused(pipeline) and (words != DECIDING or _refused(other))
        with pytest.raises(InvalidInput, match="not being moved"):
            cancel(here, tenant)
        # What was copied and then erased here is not in the copy that a later move makes.
        pipeline.memory.enqueue("ann", f"after{number}", said("I sold my car."))
        if words == DECIDING:
            pipeline.memory.lifecycle.forget("ben", session="first", actor="ann")
        pipeline.drive()
    # A mover that only slept finds its move cancelled.
    with pytest.raises(StoreUnavailable, match="cancelled"):
        _decide(pipeline.owner, tenant, uuid4())
    for words, count in ((SERVING, 2), (COMMITTED, 1)):
        assert killed(here, to, tenant, words, count), words
        assert _refused(pipeline)
        for each in (pipeline, other):
            with pytest.raises(InvalidInput, match="by now" if each is pipeline else "not being moved"):
                cancel(each.settings.database, tenant)
    assert _moved(pipeline, other) == (0, 0.0)
    other.drive()
    other.assert_verified()
    stored = {(owner, session) for owner, session, _ in other.rows(STORED)}
    assert stored == {("ann", "first"), ("cleo", "first"), *(("ann", f"after{n}") for n in range(3))}
    assert pipeline.counts()["turn"] == 0


def test_a_deletion_after_a_move_waits_for_the_points_of_what_it_deletes(pipeline: Stack, other: Stack) -> None:
    """Versions go on after those that came: a deletion's mark is above the version of what was erased before it."""
    _tell(pipeline)
    pipeline.execute("UPDATE memforest.index_row SET version = version + 1000, indexed_version = version + 1000")
    _moved(pipeline, other)
    other.drive()
    other.memory.lifecycle.forget("ann", session="first", actor="ann")
    while other.services.maintenance.tasks.run_one(other.tenant, other.runtime.worker):
        pass
    erased = "SELECT count(*) FROM memforest.index_row WHERE erased_version > 0"
    assert other.rows(erased)[0][0] == 0
    other.drive()
    other.assert_verified()


def test_a_log_that_does_not_fit_moves_nothing(pipeline: Stack, other: Stack) -> None:
    """There was a tenant of this name there, and its log cannot be deleted."""
    _tell(pipeline)
    for each in (pipeline, other):
        each.execute(
            "INSERT INTO memforest.audit (tenant_id, actor, action, outcome) VALUES (:t, 'x', 'x', 'done')",
            t=each.tenant,
        )
    with pytest.raises(InvariantViolated, match="nothing was moved"):
        _moved(pipeline, other)
    assert _found(pipeline) and not other.counts()["turn"]


def test_what_cannot_move_is_refused_in_a_sentence(pipeline: Stack, other: Stack) -> None:
    pipeline.memory.enqueue("ann", "s", said("I moved to Lisbon in May."))
    here, index = pipeline.settings.database, pipeline.services.index
    assert place_of("postgresql://owner:word@h:1/d") == "d at h:1" != place_of("postgresql://owner@h/d")

    def refused(kind: type[MemForestError], sentence: str, to: str, tenant: str = pipeline.tenant) -> None:
        with pytest.raises(kind, match=sentence):
            move(here, to, TenantId(tenant), index)

    refused(InvalidInput, "one database", _address(pipeline))
    refused(NotFound, "no tenant", _address(other), "nobody")
    refused(InvalidInput, "postgresql://OWNER@HOST", "nonsense")
    refused(StoreUnavailable, "check the address", "postgresql://nobody@127.0.0.1:1/none")
    other.memory.enqueue("ben", "s", said("I have a dog."))
    refused(InvalidInput, "has a tenant of this name", _address(other))
    for each in (pipeline, other):
        with each.owner.connect() as mover:
            assert mover.scalar(_ALONE)
            refused(StoreUnavailable, "Another process moves a tenant", _address(other))
    with pytest.raises(InvalidInput, match="not moved from here"):
        forget(here, pipeline.tenant)
    pipeline.drive()
    pipeline.assert_verified()
