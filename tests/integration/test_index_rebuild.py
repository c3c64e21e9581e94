"""The index can be lost, restored, rebuilt or unavailable, and the database restored: afterwards both agree, and no
embedding is paid for twice."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from uuid import UUID, uuid4

import numpy as np
import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from memforest_core.client.api import MemForest
from memforest_core.client.services.service import Services, open_services
from memforest_core.domain.chat_messages import TurnInput
from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.errors import IndexUnavailable
from memforest_core.index import cli as command
from memforest_core.index.generations import GenerationState, parse_generation
from memforest_core.index.index_opening import Maintenance, open_index, open_maintenance
from memforest_core.index.records import PointLease
from memforest_core.index.rows import IndexRows
from memforest_core.index.service import PORTION_S, Indexer
from memforest_core.index.vector_index import Point, PointKind, ScannedPoint, SparseVector
from memforest_core.lifecycle.verify.records import Check, Report
from memforest_core.lifecycle.verify.service import open_verification
from memforest_core.models.calls import Embedded, Embedder
from memforest_core.recall.retrieve import CATCHING_UP
from memforest_core.settings import Settings
from memforest_core.work.messages import Queue
from memforest_workers.runtime import Runtime
from tests.harness import damaging
from tests.harness.sayings import said
from tests.harness.servers import SessionServers
from tests.harness.stack import Grown, Stack, admin, cloned, database, grown_by, settings_for, stack

LAMPS = said(*[f"I paid {n} dollars for a brass lamp numbered {n}." for n in range(8)])
KITES = said(*[f"I flew kite number {n} in Davis with Clara." for n in range(6)], start=1_700_900_000)
QUESTION = "Which lamp did I pay for?"
ONE_LAMP = "How many dollars did I pay for the brass lamp numbered 5?"
VERSIONS = "SELECT point_id, version, indexed_version, state FROM memforest.index_row ORDER BY point_id"


class Counting:
    """The real embedder, and how many texts it had to embed for storing."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self.texts = 0

    @property
    def model(self) -> str:
        return self._inner.model

    @property
    def dimension(self) -> int:
        return self._inner.dimension

    def embed(self, texts: Sequence[str]) -> Embedded:
        self.texts += len(texts)
        return self._inner.embed(texts)

    def embed_query(self, texts: Sequence[str]) -> Embedded:
        return self._inner.embed_query(texts)


def running_stack(settings: Settings, services: Services) -> Stack:
    """A stack over services that a test made itself."""
    runtime = Runtime(services, ["extract", "reduce", "refresh", "maintain"], name="again")
    services.jobs.register(runtime.worker, runtime.name, runtime.queues)
    return Stack(settings, services, runtime, MemForest(services))


@pytest.fixture
def counting(embedder: Embedder) -> Counting:
    return Counting(embedder)


@pytest.fixture(scope="module")
def worked(servers: SessionServers, tmp_path_factory: pytest.TempPathFactory, embedder: Embedder) -> Iterator[Grown]:
    """A session of Bob's, wholly processed."""
    with grown_by(
        lambda running: running.memory.ingest("bob", "lamps", LAMPS),
        servers,
        tmp_path_factory.mktemp("grown"),
        embedder,
    ) as made:
        yield made


@pytest.fixture
def grown(servers: SessionServers, worked: Grown, tmp_path: Path, counting: Counting) -> Iterator[Stack]:
    """A clone of it, and both stores marked."""
    with cloned(servers, worked, tmp_path, counting) as running:
        settle(running)
        counting.texts = 0
        yield running


def upkeep(pipeline: Stack, mark_s: float = 3_600.0) -> Maintenance:
    """The maintaining side of a process that has just started."""
    services = pipeline.services
    settings = pipeline.settings.model_copy(
        update={"index": pipeline.settings.index.model_copy(update={"mark_s": mark_s})}
    )
    return open_maintenance(services.engine, services.index, services.producer.wakeups, settings)


def work(pipeline: Stack, maintenance: Maintenance) -> None:
    """Do all maintenance tasks."""
    while maintenance.tasks.run_one(pipeline.tenant, pipeline.runtime.worker):
        pass


def settle(pipeline: Stack) -> GenerationState:
    """What a worker does at its start and then until nothing is left; what the check found."""
    maintenance = upkeep(pipeline)
    found = maintenance.generations.check(now=True)
    work(pipeline, maintenance)
    rest(pipeline)
    return found


def rest(pipeline: Stack) -> None:
    """Do all work until nothing moves; after a failure of the index the pause of its indexer is waited for."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return pipeline.drive()
        except AssertionError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def points(pipeline: Stack) -> list[ScannedPoint]:
    """All points of all tenants."""
    found: list[ScannedPoint] = []
    cursor: str | None = None
    while True:
        page = pipeline.services.index.scan(cursor, 7)
        found += page.points
        cursor = page.cursor
        if cursor is None:
            return found


def assert_agreement(pipeline: Stack) -> None:
    """Every row is up to date and has its point, and every point its row, in the same version."""
    rows = pipeline.rows(VERSIONS)
    assert {row.state for row in rows} == {"done"}
    assert all(row.version == row.indexed_version for row in rows)
    assert {row.point_id: row.version for row in rows} == {point.id: point.version for point in points(pipeline)}


def evidence(pipeline: Stack, question: str = QUESTION) -> list[str]:
    result = pipeline.memory.recall("bob", question)
    assert result.degraded == ()
    return [piece.text for piece in result.evidence]


def tasks(pipeline: Stack) -> list[tuple[str, str]]:
    return [tuple(row) for row in pipeline.rows("SELECT kind, state FROM memforest.maintenance ORDER BY created_at")]


def stray(tenant: str, dimension: int, version: int = 1) -> Point:
    """A point without a row."""
    dense = np.ones(dimension, dtype=np.float32)
    return Point(
        uuid4(), TenantId(tenant), ForestId(uuid4()), PointKind.FACT, version, dense, SparseVector((1,), (1.0,))
    )


# Damaged files


def damaged(pipeline: Stack, ending: str) -> None:
    """The index's file whose path ends so gets other bytes, under the open index."""
    assert pipeline.settings.index.path is not None
    damaging.scramble(Path(pipeline.settings.index.path), ending, random.Random(3))


def verified(pipeline: Stack, *, deep: bool = True) -> Report:
    services = pipeline.services
    return open_verification(services.engine, services.index, services.settings, deep=deep).run()


DAMAGED = [damaging.VECTORS, damaging.TERMS, damaging.PAYLOAD]


@pytest.mark.parametrize("ending", DAMAGED)
def test_damaged_files_are_set_aside_at_the_next_start_and_the_index_is_filled_from_rows(
    grown: Stack, counting: Counting, ending: str
) -> None:
    """Given bytes of the index that changed, when the stores are compared as at each start of a node, then the files
    are set aside, a new shard is filled without a call of a model, and recall finds what it found before."""
    before = evidence(grown)
    damaged(grown, ending)
    grown.execute("UPDATE memforest.collection SET store_started = 'an earlier start'")
    settle(grown)
    settle(grown)
    assert_agreement(grown)
    assert evidence(grown) == before
    assert verified(grown).violations == 0
    assert counting.texts == 0


@pytest.mark.parametrize("ending", DAMAGED)
@pytest.mark.parametrize("deep", [False, True])
def test_verification_sees_damaged_files_and_the_index_heals(grown: Stack, ending: str, deep: bool) -> None:
    """Given bytes of the index that changed, then verification finds points that differ, or says that the index could
    not be compared, and after the next check it finds nothing."""
    damaged(grown, ending)
    report = verified(grown, deep=deep)
    assert "differs" in report.results[Check.INDEX_POINTS].kinds or not report.complete
    settle(grown)
    assert verified(grown).violations == 0
    assert_agreement(grown)


def test_a_damaged_index_does_not_hold_up_a_running_node(grown: Stack) -> None:
    """Given payload that can't be read any more, when a session is ingested, then it is indexed after the next check,
    with everything else."""
    damaged(grown, damaging.PAYLOAD)
    grown.memory.ingest("bob", "kites", KITES)
    rest(grown)
    settle(grown)
    assert_agreement(grown)
    assert any("kite" in text for text in evidence(grown, "Which kite did I fly?"))


# Rebuild


def test_a_rebuild_rewrites_every_point_without_embedding_while_recall_goes_on(
    grown: Stack, counting: Counting
) -> None:
    """Given a rebuild, then recall answers the same at each of its steps, every point has a higher version, an orphan
    is swept, and nothing was embedded."""
    before = {point.id: point.version for point in points(grown)}
    calm = evidence(grown)
    orphan = stray(grown.tenant, counting.dimension)
    grown.services.index.upsert([orphan])
    maintenance = upkeep(grown)
    requested = maintenance.upkeep.rebuild()
    assert maintenance.upkeep.rebuild() == requested

    while maintenance.tasks.run_one(grown.tenant, grown.runtime.worker):
        assert evidence(grown) == calm
    found, behind = maintenance.upkeep.progress(requested)
    assert [task.state for task in found] == ["done"]
    assert found[0].progress["marked"] == behind == len(before)
    assert found[0].progress["deleted"] == 1
    while grown.services.indexer.run_one(grown.tenant, grown.runtime.worker, tuple(PointKind)):
        assert evidence(grown) == calm

    after = {point.id: point.version for point in points(grown)}
    assert after.keys() == before.keys()
    assert all(after[id] > before[id] for id in before)
    assert_agreement(grown)
    assert evidence(grown) == calm
    assert counting.texts == 0


def test_a_rebuild_of_one_owner_leaves_the_others_as_they_are(grown: Stack, counting: Counting) -> None:
    grown.memory.ingest("alice", "kites", KITES)
    grown.drive()
    alice = grown.rows("SELECT forest_id FROM memforest.forest WHERE owner = 'alice'")[0][0]
    others = "SELECT point_id, version FROM memforest.index_row WHERE forest_id <> :f ORDER BY point_id"
    calm = grown.rows(others, f=alice)
    counting.texts = 0
    maintenance = upkeep(grown)

    maintenance.upkeep.rebuild_owner(grown.tenant, "alice")
    work(grown, maintenance)
    grown.drive()

    assert grown.rows(others, f=alice) == calm
    assert grown.rows("SELECT min(version) FROM memforest.index_row WHERE forest_id = :f", f=alice)[0][0] > 1
    assert_agreement(grown)
    assert counting.texts == 0


def test_a_live_change_goes_before_what_a_rebuild_marked(grown: Stack) -> None:
    """Given a rebuild's rows, when a session comes, then its cells are indexed first, and no row stays in the
    backfill lane."""
    maintenance = upkeep(grown)
    maintenance.upkeep.rebuild()
    work(grown, maintenance)
    grown.memory.ingest("bob", "kites", KITES)
    with IndexRows.opened(grown.services.engine, grown.tenant) as rows:
        first = rows.claim_points(tuple(PointKind), PointLease(grown.runtime.worker), 3)
    assert all("kite" in point.text for point in first)
    grown.execute("UPDATE memforest.index_row SET lease_until = now() WHERE state = 'running'")
    grown.services.reconciler.run()
    grown.drive()
    assert grown.rows("SELECT count(*) FROM memforest.index_row WHERE lane <> 0")[0][0] == 0


# Generations


def test_a_first_mark_over_an_empty_index_compares_nothing(pipeline: Stack) -> None:
    """Given new stores with a session waiting, when the first worker starts, then nothing delays its indexing."""
    pipeline.memory.ingest("bob", "lamps", LAMPS)
    assert upkeep(pipeline).generations.check(now=True) is GenerationState.UNMARKED
    assert tasks(pipeline) == []
    assert upkeep(pipeline).generations.check(now=True) is GenerationState.SAME
    pipeline.drive()
    assert_agreement(pipeline)


def test_one_process_checks_at_most_every_few_seconds(grown: Stack) -> None:
    marks = upkeep(grown).generations
    assert [marks.check(), marks.check(), marks.check(now=True)] == [
        GenerationState.SAME,
        GenerationState.SKIPPED,
        GenerationState.SAME,
    ]


def test_an_old_mark_is_renewed_in_both_stores(grown: Stack) -> None:
    before = parse_generation(grown.services.index.read_mark())
    assert upkeep(grown, mark_s=1e-9).generations.check() is GenerationState.RENEWED
    after = parse_generation(grown.services.index.read_mark())
    assert before is not None and after is not None
    assert after.previous == before.generation
    assert grown.rows("SELECT generation FROM memforest.collection WHERE live")[0][0] == after.generation


def test_a_process_that_dies_between_the_two_writes_is_not_taken_for_a_restore(grown: Stack) -> None:
    """Given a mark in the index that the database never confirmed, when the next worker checks, it is confirmed."""
    confirmed = grown.rows("SELECT generation FROM memforest.collection WHERE live")[0][0]
    upkeep(grown, mark_s=1e-9).generations.check()
    grown.execute("UPDATE memforest.collection SET generation = :g", g=confirmed)

    assert settle(grown) is GenerationState.SAME

    renewed = parse_generation(grown.services.index.read_mark())
    assert renewed is not None
    assert grown.rows("SELECT generation FROM memforest.collection WHERE live")[0][0] == renewed.generation
    assert all(state == "done" for _, state in tasks(grown))


def test_a_check_that_dies_half_way_is_finished_and_requests_one_task(grown: Stack) -> None:
    """Given a restart, and a check that had requested the tasks but not confirmed the mark, then the next check
    requests the same tasks."""
    before = len(tasks(grown))
    grown.execute("UPDATE memforest.collection SET store_started = 'before'")
    generation = grown.rows("SELECT generation FROM memforest.collection")[0][0]
    upkeep(grown).generations.check()
    for mark in (grown.services.index.read_mark(), f"{generation} - 0"):
        grown.execute("UPDATE memforest.collection SET store_started = 'before', generation = :g", g=generation)
        assert mark is not None
        grown.services.index.write_mark(mark)
        assert upkeep(grown).generations.check() is GenerationState.STORE_RESTARTED
    assert len(tasks(grown)) == before + 1
    assert settle(grown) is GenerationState.SAME
    assert_agreement(grown)


def test_a_plain_restart_of_postgres_compares_and_changes_nothing(grown: Stack, counting: Counting) -> None:
    """Given a Postgres that started again, then until it was compared nothing is indexed, recall reports that it may
    miss something, and afterwards no row and no point has changed."""
    before, stored = grown.rows(VERSIONS), points(grown)
    forest = ForestId(grown.rows("SELECT forest_id FROM memforest.forest")[0][0])
    grown.execute("UPDATE memforest.collection SET store_started = 'before'")
    with IndexRows.opened(grown.services.engine, grown.tenant) as rows:
        assert rows.behind(forest, 100) == 100

    maintenance = upkeep(grown)
    assert maintenance.generations.check() is GenerationState.STORE_RESTARTED
    grown.memory.ingest("bob", "kites", KITES)
    assert grown.services.indexer.run_one(grown.tenant, grown.runtime.worker, tuple(PointKind)) == 0
    work(grown, maintenance)
    assert [row for row in grown.rows(VERSIONS) if row.state == "done"] == before
    assert points(grown) == stored
    with IndexRows.opened(grown.services.engine, grown.tenant) as rows:
        assert 0 < rows.behind(forest, 100) < 100
        assert rows.behind(forest, 2) == 2
    grown.drive()
    with IndexRows.opened(grown.services.engine, grown.tenant) as rows:
        assert rows.behind(forest, 100) == 0
    assert_agreement(grown)


# Restores and losses


def test_after_the_database_was_restored_to_an_earlier_point_both_stores_agree(
    servers: SessionServers, grown: Stack, counting: Counting
) -> None:
    """Given a copy of the database, a session and a changed node after it, and a restore from the copy, when workers
    start, then they notice, points of the lost future are gone, and recall and indexing are as if it had never been.
    Later changes reach the index, although it held the same versions before."""
    calm, versions = evidence(grown, ONE_LAMP), grown.rows(VERSIONS)
    name = sa.make_url(grown.settings.database.url.get_secret_value()).database
    copy = f"{name}_copy"
    grown.disconnect()
    admin(servers, f"CREATE DATABASE {copy} TEMPLATE {name}")
    try:
        grown.memory.ingest("bob", "kites", KITES)
        grown.drive()
        future = points(grown)
        assert len(future) > len(versions)
        grown.disconnect()
        admin(servers, f"DROP DATABASE {name} WITH (FORCE)")
        admin(servers, f"CREATE DATABASE {name} TEMPLATE {copy}")
    finally:
        admin(servers, f"DROP DATABASE IF EXISTS {copy} WITH (FORCE)")

    # A worker that did not notice yet indexes nothing, whatever is sent again, in other words this time.
    repeated = said(*[f"I sold kite number {n} to Rufus in Boston." for n in range(6)], start=1_700_900_000)
    grown.memory.ingest("bob", "kites", repeated)
    assert grown.services.indexer.run_one(grown.tenant, grown.runtime.worker, tuple(PointKind)) == 0
    counting.texts = 0
    maintenance = upkeep(grown)
    assert maintenance.generations.check() is GenerationState.STORE_RESTARTED
    work(grown, maintenance)
    assert counting.texts == 0
    done = maintenance.upkeep.state(grown.tenant)
    assert done is not None and done.tasks[0].state == "done"
    assert int(done.tasks[0].progress["deleted"]) + int(done.tasks[0].progress["overtaken"]) > 0

    grown.drive()

    assert_agreement(grown)
    assert len(points(grown)) == len(grown.rows(VERSIONS))
    assert evidence(grown, ONE_LAMP)[0] == calm[0]
    assert any("Rufus" in text for text in evidence(grown, "To whom did I sell my kite?"))
    assert upkeep(grown).generations.check() is GenerationState.SAME
    # Each point matches its row: when all are written once more, the same evidence is found.
    before = evidence(grown, "To whom did I sell my kite?")
    maintenance.upkeep.rebuild()
    work(grown, maintenance)
    grown.drive()
    assert evidence(grown, "To whom did I sell my kite?") == before


def test_an_index_that_was_dropped_is_written_again_without_embedding(
    servers: SessionServers, tmp_path: Path, counting: Counting
) -> None:
    """Given an index directory that is gone, when a worker starts, then everything is indexed again from the database."""
    with stack(servers, tmp_path, embedder=counting) as grown:
        grown.memory.ingest("bob", "lamps", LAMPS)
        grown.drive()
        settle(grown)
        calm = evidence(grown)
        counting.texts = 0
        grown.services.index.close()
        shutil.rmtree(tmp_path / "index")
        index = open_index(grown.settings, counting)
        index.prepare()
        reopened = running_stack(grown.settings, replace(grown.services, index=index))
        try:
            assert reopened.services.index.count(grown.tenant) == 0
            assert settle(reopened) is GenerationState.INDEX_CHANGED
            assert_agreement(reopened)
            assert evidence(reopened) == calm
            assert counting.texts == 0
        finally:
            reopened.services.index.close()


@pytest.mark.parametrize("restarted", [False, True])
def test_until_a_lost_index_was_compared_recall_says_that_it_may_lack_something(
    servers: SessionServers, tmp_path: Path, counting: Counting, restarted: bool
) -> None:
    """Given an index directory that is gone, also while Postgres was stopped, as with a node, then recall uses full
    text and says so from the first check on, workers are woken for the comparison, and after it all is as it was."""
    with stack(servers, tmp_path, embedder=counting) as grown:
        grown.memory.ingest("bob", "lamps", LAMPS)
        grown.drive()
        settle(grown)
        calm = evidence(grown)
        grown.services.index.close()
        shutil.rmtree(tmp_path / "index")
        if restarted:
            grown.execute("UPDATE memforest.collection SET store_started = 'before'")
        index = open_index(grown.settings, counting)
        index.prepare()
        reopened = running_stack(grown.settings, replace(grown.services, index=index))
        woken = Woken()
        generations = replace(upkeep(reopened).generations, wakeups=woken)
        try:
            assert generations.check() is GenerationState.INDEX_CHANGED
            assert woken.sent == [(Queue.MAINTAIN, grown.tenant)]
            result = reopened.memory.recall("bob", QUESTION)
            assert result.degraded == (CATCHING_UP,)
            assert result.evidence
            settle(reopened)
            assert evidence(reopened) == calm
        finally:
            reopened.services.index.close()


@dataclass
class Woken:
    """Wake-ups that go nowhere."""

    sent: list[tuple[str, TenantId]] = field(default_factory=list)

    def send(self, queue: str, tenant: TenantId, ref: UUID | str, count: int = 1) -> bool:
        self.sent.append((queue, tenant))
        return True


def test_points_of_tenants_that_the_database_does_not_know_are_deleted(grown: Stack, counting: Counting) -> None:
    theirs = [stray("nobody", counting.dimension) for _ in range(3)]
    grown.services.index.upsert(theirs)
    grown.services.index.write_mark("of another database")
    assert settle(grown) is GenerationState.INDEX_CHANGED
    assert grown.services.index.count(TenantId("nobody")) == 0
    assert_agreement(grown)


def test_every_tenant_is_compared_and_only_its_own_points_by_its_task(grown: Stack, counting: Counting) -> None:
    """Given two tenants and an index that lost a point of each, then each tenant's task brings its own back."""
    grown.execute("INSERT INTO memforest.tenant (tenant_id) VALUES ('aaa')")
    lost = [point.key for point in points(grown)[:2]]
    grown.execute(
        """INSERT INTO memforest.index_row (tenant_id, point_id, forest_id, kind, version, indexed_version, state)
           VALUES ('aaa', :p, :f, 'fact', 5, 5, 'done')""",
        f=uuid4(),
        p=UUID(int=77),
    )
    grown.services.index.delete(lost)
    grown.services.index.write_mark("of another time")
    maintenance = upkeep(grown)

    assert maintenance.generations.check() is GenerationState.INDEX_CHANGED
    assert maintenance.tasks.run_one(grown.tenant, grown.runtime.worker)
    behind = "SELECT tenant_id, point_id FROM memforest.index_row WHERE state = 'ready' AND indexed_version = 0"
    assert {tuple(found) for found in grown.rows(behind)} == {(grown.tenant, key.id) for key in lost}
    assert maintenance.tasks.run_one(TenantId("aaa"), grown.runtime.worker)
    assert len(grown.rows(behind)) == 3


# Outages


@contextmanager
def qdrant(directory: Path, port: int = 0) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A Qdrant server in a process of its own, killed at the end."""
    arguments = [sys.executable, "-m", "tests.harness.qdrant_http", "--path", str(directory), "--port", str(port)]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process, int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@contextmanager
def on_server(servers: SessionServers, tmp_path: Path, embedder: Embedder, port: int) -> Iterator[Stack]:
    """A stack whose index is a server."""
    with database(servers) as address:
        plain = settings_for(address, servers.broker_url, tmp_path / "index")
        at = {"kind": "qdrant", "url": f"http://127.0.0.1:{port}", "timeout_s": 3.0}
        settings = plain.model_copy(update={"index": plain.index.model_copy(update=at)})
        services = open_services(settings, embedder=embedder)
        try:
            services.index.prepare()
            yield running_stack(settings, services)
        finally:
            services.close()


def test_while_the_index_is_unavailable_rows_wait_untouched_and_are_caught_up_when_it_is_back(
    servers: SessionServers, tmp_path: Path, counting: Counting
) -> None:
    """Given a Qdrant that was killed, then one try is made in a pause, no row is blamed or put off, recall answers from
    full text; back with an empty directory it is made and filled, nothing embedded twice."""
    with qdrant(tmp_path / "points") as (server, port), on_server(servers, tmp_path, counting, port) as running:
        running.memory.ingest("bob", "lamps", LAMPS)
        running.drive()
        settle(running)
        calm = evidence(running, ONE_LAMP)
        server.kill()
        server.wait()
        running.memory.ingest("bob", "kites", KITES)
        for _round in range(5):
            running.runtime.extract()
            running.runtime.reduce()
            running.runtime.maintain()
        waiting = running.rows(
            """SELECT max(attempts), bool_and(state = 'ready'), max(available_at) <= clock_timestamp()
                     FROM memforest.index_row WHERE state <> 'done'"""
        )[0]
        assert tuple(waiting) == (0, True, True)
        embedded = counting.texts
        assert running.memory.recall("bob", "Who flew a kite in Davis?").evidence
        assert upkeep(running).generations.check() is GenerationState.UNAVAILABLE
        shutil.rmtree(tmp_path / "points")

        with qdrant(tmp_path / "points", port):
            time.sleep(1.1)
            assert settle(running) is GenerationState.INDEX_CHANGED
            deadline = time.monotonic() + 40
            while running.rows("SELECT 1 FROM memforest.index_row WHERE state <> 'done' LIMIT 1"):
                assert time.monotonic() < deadline
                running.drive()
                time.sleep(0.2)
            assert_agreement(running)
            assert evidence(running, ONE_LAMP)[0] == calm[0]
            texts = running.rows("SELECT count(*) FROM memforest.vector")[0][0]
            assert counting.texts - embedded <= texts


def test_nothing_is_claimed_between_two_tries_of_an_unavailable_index(grown: Stack, counting: Counting) -> None:
    """Given an unavailable index, then the first run finds out, and until the pause is over no run claims anything or
    embeds."""

    class Unavailable:
        """An index that a test switches off."""

        def __init__(self) -> None:
            self.calls = 0

        def __getattr__(self, name: str) -> object:
            self.calls += 1
            raise IndexUnavailable("away")

    now = [0.0]
    unavailable = Unavailable()
    indexer = Indexer(
        partial(IndexRows.opened, grown.services.engine),
        unavailable,  # type: ignore[arg-type]
        counting,
        16,
        random.Random(1),
        clock=lambda: now[0],
    )
    grown.memory.ingest("bob", "kites", KITES)
    worker = grown.runtime.worker
    assert indexer.run_one(grown.tenant, worker, tuple(PointKind)) == 0
    embedded, calls = counting.texts, unavailable.calls
    for _ in range(10):
        assert indexer.run_one(grown.tenant, worker, tuple(PointKind)) == 0
    assert (unavailable.calls, counting.texts) == (calls, embedded)
    now[0] += 1.0
    assert indexer.run_one(grown.tenant, worker, tuple(PointKind)) == 0
    assert (unavailable.calls, counting.texts) == (calls + 1, embedded)
    ready = grown.rows("SELECT max(attempts), count(*) FROM memforest.index_row WHERE state = 'ready'")[0]
    assert ready[0] == 0 and ready[1] > 0


BATCH = 128
"""Of a model that takes a second a text, more than a lease holds."""


class Slow(Counting):
    """An embedder that takes a second a text, by a test's clock and for the leases in the database."""

    def __init__(self, stack: Stack) -> None:
        super().__init__(stack.services.embedder)
        self.stack = stack
        self.now = 0.0
        self.requested: list[str] = []
        self.lost_at = 0
        """After so many texts all leases are lost."""

    def indexer(self) -> Indexer:
        """An indexer that embeds with this, by its clock."""
        services = self.stack.services
        open_rows = partial(IndexRows.opened, services.engine)
        return Indexer(open_rows, services.index, self, BATCH, random.Random(1), clock=lambda: self.now)

    def embed(self, texts: Sequence[str]) -> Embedded:
        """Time goes on, and what nobody renewed is freed, as the reconciler does."""
        self.requested += texts
        self.now += len(texts)
        self.stack.execute(
            "UPDATE memforest.index_row SET lease_until = lease_until - make_interval(secs => :s)", s=len(texts)
        )
        if self.lost_at and len(self.requested) >= self.lost_at:
            self.stack.execute("UPDATE memforest.index_row SET lease_until = clock_timestamp()")
        self.stack.services.reconciler.run()
        return super().embed(texts)


@pytest.mark.parametrize("lost_at", [0, 100])
def test_a_slow_model_makes_progress_under_a_lease_that_is_renewed(pipeline: Stack, lost_at: int) -> None:
    """Given a model that needs longer for a batch than a lease holds, then it is embedded in portions and written in
    one unit; and when the lease is lost half way, what was embedded before is not embedded again."""
    lamps: list[TurnInput] = [
        {"role": "user", "name": "Bob", "content": f"Lamp {at} hangs in room {at}.", "timestamp": 1.7e9 + at}
        for at in range(260)
    ]
    pipeline.memory.ingest("bob", "lamps", lamps)
    slow = Slow(pipeline)
    indexer = slow.indexer()
    worker = pipeline.runtime.worker
    slow.lost_at = lost_at
    indexer.run_one(pipeline.tenant, worker, [PointKind.CELL])
    slow.lost_at = 0
    written = pipeline.rows("SELECT count(*) FROM memforest.index_row WHERE state = 'done'")[0][0]
    assert written == (0 if lost_at else BATCH)
    while indexer.run_one(pipeline.tenant, worker, [PointKind.CELL]):
        pass
    repeated = len(slow.requested) - len(set(slow.requested))
    assert repeated == (PORTION_S if lost_at else 0)
    assert not pipeline.rows("SELECT 1 FROM memforest.index_row WHERE state <> 'done'")


def test_a_row_that_is_locked_while_a_portion_is_stored_is_written_with_its_vector_later(pipeline: Stack) -> None:
    """Given a row that a writer locks when the first portion is stored, then its point is not written before its
    vector is stored: the row is given back, and done by the next unit."""
    lamps = said(*[f"Lamp {at} hangs in room {at}." for at in range(260)])
    pipeline.memory.ingest("bob", "lamps", lamps)
    with pipeline.owner.connect() as writer:
        held: list[UUID] = []

        class Locking(Slow):
            """A row of the first portion is locked until that is stored."""

            def embed(self, texts: Sequence[str]) -> Embedded:
                if not self.requested:
                    lamp = str(texts[0]).split(" hangs")[0].rsplit("Lamp ")[-1]
                    rows = writer.execute(
                        sa.text(
                            "SELECT i.point_id FROM memforest.index_row i JOIN memforest.cell c ON c.cell_id = i.point_id"
                            " WHERE strpos(c.text, :lamp) > 0 FOR UPDATE OF i"
                        ),
                        {"lamp": f"Lamp {lamp} hangs"},
                    )
                    held.extend(row.point_id for row in rows)
                    self.requested += texts
                    self.now += len(texts)
                    return self._inner.embed(texts)
                writer.rollback()
                return super().embed(texts)

        indexer = Locking(pipeline).indexer()
        indexer.run_one(pipeline.tenant, pipeline.runtime.worker, [PointKind.CELL])
        assert len(held) == 1
        [(state,)] = pipeline.rows("SELECT state FROM memforest.index_row WHERE point_id = :id", id=held[0])
        assert state == "ready"
        while indexer.run_one(pipeline.tenant, pipeline.runtime.worker, [PointKind.CELL]):
            pass
    absent = """SELECT 1 FROM memforest.cell c WHERE NOT EXISTS (
                    SELECT 1 FROM memforest.vector v WHERE v.text_hash = c.text_hash)"""
    assert not pipeline.rows(absent)
    assert not pipeline.rows("SELECT 1 FROM memforest.index_row WHERE state <> 'done'")


# Start-up and commands


def test_the_commands_rebuild_and_tell_how_far_it_is(
    servers: SessionServers, tmp_path: Path, counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given running services, then ``rebuild`` requests a task and ``status`` shows it, the collection and what is
    behind; done, the same commands say so."""
    with qdrant(tmp_path / "points") as (_, port), on_server(servers, tmp_path, counting, port) as running:
        running.memory.ingest("bob", "lamps", LAMPS)
        running.drive()
        settle(running)
        settings = running.settings
        monkeypatch.setenv("MEMFOREST_DATABASE__URL", settings.database.url.get_secret_value())
        monkeypatch.setenv("MEMFOREST_BROKER__URL", settings.broker.url.get_secret_value())
        monkeypatch.setenv("MEMFOREST_INDEX__URL", settings.index.url)
        runner = CliRunner()

        requested = runner.invoke(command.app, ["rebuild", "--json"])
        assert requested.exit_code == 0, requested.output
        report = json.loads(requested.stdout)
        assert [task["state"] for task in report["tasks"]] == ["ready"]
        late = runner.invoke(command.app, ["rebuild", "--wait", "--timeout", "0.1", "--json"])
        assert late.exit_code == 75
        assert json.loads(late.stdout)["tasks"][0]["id"] == report["tasks"][0]["id"]
        missing = runner.invoke(command.app, ["rebuild", "--owner", "nobody"])
        assert missing.exit_code != 0

        maintenance = upkeep(running)
        work(running, maintenance)
        rows = len(running.rows(VERSIONS))
        shown = json.loads(runner.invoke(command.app, ["status", "--json"]).stdout)
        assert sum(shown["behind"].values()) == rows == shown["points"]
        assert (shown["model"], shown["dimension"], shown["agrees"]) == (counting.model, counting.dimension, True)
        running.drive()

        shown = json.loads(runner.invoke(command.app, ["status", "--json"]).stdout)
        assert shown["behind"] == {}
        assert shown["tasks"][0]["kind"] == "index_rebuild" and shown["tasks"][0]["progress"]["marked"] == rows
        reported = runner.invoke(command.app, ["status"])
        assert reported.exit_code == 0 and "the same in both stores" in reported.stdout
