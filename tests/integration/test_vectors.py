"""Vectors belong to forests: what one owner or tenant does to its own never touches another's, and none is missed."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from memforest_core.client.api import MemForest
from memforest_core.domain.ids import TenantId
from memforest_core.errors import ModelAuthFailed
from memforest_core.index.records import PointLease, StalePoint
from memforest_core.index.rows import IndexRows
from memforest_core.index.vector_index import PointKind
from memforest_core.ingest.reduce.service import Reduced
from memforest_core.lifecycle.verify.service import open_verification
from memforest_core.models.calls import Embedded, Embedder
from memforest_core.store.vectors import from_bytes, text_hash, to_bytes
from tests.harness.sayings import said
from tests.harness.sealing import reseal
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack, stack

MOVED = said("I moved from Boston to Denver last month.", "I have a dog called Rex.")
ALLERGIC = said("I live in Boston and I am allergic to peanuts.")


class Failing:
    """An embedder that can be made to refuse, as one whose key has expired does."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self.model, self.dimension = inner.model, inner.dimension
        self.refuses = False
        self.meanwhile: Callable[[], object] | None = None
        """What others do while the next call that is refused is on its way; they are served."""

    def embed(self, texts: list[str]) -> Embedded:
        if self.refuses:
            if self.meanwhile is not None:
                self.refuses = False
                self.meanwhile()
            raise ModelAuthFailed("The key has expired.")
        return self._inner.embed(texts)

    def embed_query(self, texts: list[str]) -> Embedded:
        return self._inner.embed_query(texts)


@pytest.fixture
def failing(embedder: Embedder) -> Failing:
    return Failing(embedder)


@pytest.fixture
def running(servers: SessionServers, tmp_path: Path, failing: Failing) -> Iterator[Stack]:
    with stack(servers, tmp_path, embedder=failing) as made:  # type: ignore[arg-type]
        yield made


def violations(pipeline: Stack) -> dict[str, dict[str, int]]:
    report = open_verification(pipeline.services.engine, pipeline.services.index, pipeline.services.settings).run(
        None, None
    )
    return {check.check.value: dict(check.kinds) for check in report.checks if check.violations}


def test_forgetting_an_owner_leaves_what_another_extracted_meanwhile(running: Stack) -> None:
    """Given two owners who say the same, when the first is forgotten between the other's extraction and its reduction,
    then every cell of the other is placed and its vectors are there."""
    running.memory.ingest("anna", "s", MOVED)
    running.drive()
    running.memory.ingest("bert", "s", MOVED)
    running.runtime.extract()
    operation = running.memory.lifecycle.forget("anna", everything=True, actor="tester")
    while running.services.maintenance.tasks.run_one(running.tenant, running.runtime.worker):
        pass
    assert running.memory.lifecycle.receipt(operation.id).clean
    running.drive()
    assert (running.memory.status("bert", "s").placed, len(running.memory.dead.list())) == (1, 0)
    missing = """SELECT 1 FROM memforest.candidate k JOIN memforest.cell c USING (tenant_id, cell_id) WHERE NOT EXISTS (
                     SELECT 1 FROM memforest.vector v WHERE v.forest_id = c.forest_id AND v.text_hash = k.text_hash)"""
    assert running.rows(missing) == []
    assert violations(running) == {}


def test_a_vector_that_is_missing_is_made_again_and_buries_nothing(running: Stack, failing: Failing) -> None:
    """Given extracted cells whose vectors are gone, when the embedder refuses, then the cells wait; when it is back,
    they are placed and the vectors are stored."""
    running.memory.ingest("bert", "s", MOVED)
    running.runtime.extract()
    running.execute("DELETE FROM memforest.vector")
    failing.refuses = True
    assert running.services.reduction.run_one(running.tenant).ended is Reduced.LATER
    assert running.rows("SELECT DISTINCT state, placed FROM memforest.cell") == [("done", False)]

    failing.refuses = False
    running.execute("UPDATE memforest.forest SET reduce_available_at = now()")
    running.drive()
    assert (running.memory.status("bert", "s").placed, len(running.memory.dead.list())) == (1, 0)
    assert (
        running.rows(
            "SELECT 1 FROM memforest.fact f WHERE NOT EXISTS (SELECT 1 FROM memforest.vector v"
            " WHERE v.forest_id = f.forest_id AND v.text_hash = f.text_hash)"
        )
        == []
    )
    assert violations(running) == {}


def test_a_reduction_that_fails_after_others_did_its_work_delays_nothing(running: Stack, failing: Failing) -> None:
    """Given a batch that another process reduces, when the first process fails, then the forest is not delayed."""
    running.memory.ingest("bert", "s", MOVED)
    running.runtime.extract()
    running.execute("DELETE FROM memforest.vector")
    failing.refuses, failing.meanwhile = True, lambda: running.services.reduction.run_one(running.tenant)
    assert running.services.reduction.run_one(running.tenant).ended is Reduced.LATER
    assert running.memory.status("bert", "s").placed == 1
    assert running.rows("SELECT reduce_available_at > now(), reduce_failures FROM memforest.forest") == [(False, 0)]


def test_verify_finds_and_collects_orphan_vectors(running: Stack) -> None:
    running.memory.ingest("bert", "s", MOVED)
    running.drive()
    running.execute(
        "INSERT INTO memforest.vector SELECT tenant_id, forest_id, model, sha256('nobody says this'), vector"
        " FROM memforest.vector LIMIT 1"
    )
    assert violations(running) == {"orphan_vectors": {"unused": 1}}
    open_verification(running.services.engine, running.services.index, running.services.settings).run(None, None, True)
    assert violations(running) == {}


def test_a_turn_that_joins_a_waiting_cell_leaves_no_vector_of_the_shorter_text(running: Stack) -> None:
    running.memory.append("bert", "s", MOVED[0])
    running.services.indexer.run_one(running.tenant, running.runtime.worker, (PointKind.CELL,))
    assert running.rows("SELECT count(*) FROM memforest.vector") == [(1,)]
    running.memory.append("bert", "s", MOVED[1])
    running.drive()
    assert violations(running) == {}


def test_a_bundle_in_another_tenant_owns_its_own_points(running: Stack, tmp_path: Path) -> None:
    """Given a forest that another tenant imports with all its ids before anything is indexed, then each has its own
    points, and what one forgets stays with the other."""
    other = MemForest(running.services)
    other._tenant = TenantId("other")
    running.memory.ingest("anna", "s", MOVED)
    path = tmp_path / "anna.memforest"
    running.memory.lifecycle.export("anna", path, actor="tester")
    taken = other.lifecycle.import_(path, "bert", actor="tester")
    assert taken["same_ids"] == 1
    running.drive(100)
    index = running.services.index
    counts = {tenant: index.count(tenant) for tenant in (running.tenant, other.tenant)}
    assert counts[running.tenant] == counts[other.tenant] > 0

    other.lifecycle.forget("bert", everything=True, actor="tester")
    running.drive(100)
    assert {tenant: index.count(tenant) for tenant in counts} == {**counts, other.tenant: 0}
    assert "Denver" in running.memory.recall("anna", "Where did Bob move?").evidence[0].text


def test_vectors_that_were_stored_in_full_are_read_and_go_on(running: Stack) -> None:
    """Given vectors of the version before, in float32 and with each mean vector, when the owner says more, then what is
    made of both is as good as new: nothing is embedded twice, nothing is damaged."""
    running.memory.ingest("alice", "s", MOVED)
    running.drive()
    assert {len(row.vector) for row in running.rows("SELECT vector FROM memforest.vector")} == {2 * 384 + 1}
    assert running.rows("SELECT 1 FROM memforest.node_summary WHERE pooled IS NOT NULL") == []
    running.execute("UPDATE memforest.node_summary SET pooled = vector")
    for table, key, columns in (("vector", "text_hash", ["vector"]), ("node_summary", "node_id", ["vector", "pooled"])):
        for column in columns:
            for row in running.rows(f"SELECT {key} AS key, {column} AS raw FROM memforest.{table}"):
                change = f"UPDATE memforest.{table} SET {column} = :v WHERE {key} = :k"
                running.execute(change, v=to_bytes(from_bytes(row.raw)), k=row.key)
    calls = "SELECT count(*) FROM memforest.llm_call WHERE step = 'embed'"
    before = running.rows(calls)
    running.execute(
        "UPDATE memforest.index_row SET state = 'ready', version = version + 1, indexed_version = 0 WHERE state = 'done'"
    )
    running.drive()
    assert running.rows(calls) == before
    running.memory.ingest("alice", "again", MOVED)
    running.drive()
    assert "Denver" in running.memory.recall("alice", "Where did Alice move?").evidence[0].text
    assert violations(running) == {}


CLAIMED = {"state", "attempts", "lease_token", "lease_until", "worker_id"}


@pytest.mark.parametrize(("table", "changed"), [("index_row", CLAIMED), ("node", CLAIMED - {"state"})])
def test_no_index_has_a_column_that_a_claim_changes(running: Stack, table: str, changed: set[str]) -> None:
    """Then Postgres writes a claimed row in its page, and nothing to the indexes."""
    definitions = running.rows(
        f"SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = 'memforest.{table}'::regclass"
    )
    words = set(re.findall(r"\w+", " ".join(row[0].split(" USING ")[1] for row in definitions)))
    assert {"tenant_id", "version"} <= words
    assert not words & changed


def test_a_claimed_row_is_found_until_it_is_written(running: Stack) -> None:
    """Given points that one worker has claimed, then nobody else gets them, they count as behind, and are freed with the
    lease."""
    running.memory.ingest("alice", "s", MOVED)
    open_rows = running.services.indexer.open_rows

    def claimed(rows: IndexRows) -> list[StalePoint]:
        return rows.claim_points(tuple(PointKind), PointLease(running.runtime.worker), 500)

    with open_rows(running.tenant) as rows:
        points = claimed(rows)
    with open_rows(running.tenant) as rows:
        assert claimed(rows) == []
        assert rows.behind_by_kind() == {PointKind.CELL: len(points)}
        assert rows.behind(points[0].forest_id, 100) == len(points) > 0
    running.execute("UPDATE memforest.index_row SET lease_until = now()")
    running.services.reconciler.run()
    with open_rows(running.tenant) as rows:
        assert {point.id for point in claimed(rows)} == {point.id for point in points}


def test_vectors_of_a_bundle_are_believed_for_its_forest_only(running: Stack, tmp_path: Path) -> None:
    """Given a bundle whose vectors were changed, when another owner says the same sentences, then its vectors are made
    from what it says."""
    running.memory.ingest("mallory", "s", ALLERGIC)
    running.drive()
    honest, poisoned = tmp_path / "honest.memforest", tmp_path / "poisoned.memforest"
    running.memory.lifecycle.export("mallory", honest, actor="tester")
    evil = np.eye(1, running.services.embedder.dimension, dtype="<f4")[0].tobytes()
    poison(honest, poisoned, evil)
    running.memory.lifecycle.import_(poisoned, "imported", actor="tester")
    running.memory.ingest("victim", "s", ALLERGIC)
    running.drive()
    [(fact,)] = running.rows(
        "SELECT text FROM memforest.fact JOIN memforest.forest USING (tenant_id, forest_id)"
        " WHERE owner = 'victim' ORDER BY seq LIMIT 1"
    )
    stored = running.rows(
        "SELECT f.owner, v.vector FROM memforest.vector v JOIN memforest.forest f USING (tenant_id, forest_id)"
        " WHERE v.text_hash = :h",
        h=text_hash(fact),
    )
    assert {row.owner: to_bytes(from_bytes(row.vector)) == evil for row in stored} == {
        "mallory": False,
        "imported": True,
        "victim": False,
    }


def test_an_erased_row_that_comes_again_is_newer_than_it_was(running: Stack) -> None:
    running.memory.ingest("bert", "s", MOVED)
    running.drive()
    cell = "SELECT point_id, version FROM memforest.index_row WHERE kind = 'cell'"
    [before] = running.rows(cell)
    running.memory.lifecycle.forget("bert", session="s", actor="tester")
    running.drive()
    assert running.rows(cell) == []
    running.memory.ingest("bert", "s", MOVED)
    [after] = running.rows(cell)
    assert after.point_id == before.point_id and after.version > before.version


def poison(bundle: Path, to: Path, vector: bytes) -> None:
    """Give all texts of a bundle one vector, and the bundle the checksums that fit."""
    shutil.copy(bundle, to)
    with closing(sqlite3.connect(to)) as database:
        database.execute("UPDATE vector SET vector = ?", (vector,))
        reseal(database)
        database.commit()


def reduced_under_a_lease(running: Stack) -> PointLease:
    """Facts that are in the trees, whose index rows are under a lease of the worker's."""
    running.memory.ingest("alice", "s", MOVED)
    while running.runtime.extract():
        pass
    lease = PointLease(running.runtime.worker)
    assert running.services.reduction.run_one(running.tenant, lease).new_facts == len(lease.points) > 0
    return lease


def fact_states(running: Stack) -> set[tuple[str, bool, bool]]:
    """State of the facts' index rows, whether they are behind, and whether they are under a lease."""
    rows = running.rows(
        "SELECT state, indexed_version < version, lease_token IS NOT NULL FROM memforest.index_row WHERE kind = 'fact'"
    )
    return {(row[0], row[1], row[2]) for row in rows}


def test_rows_that_a_writer_indexes_itself_are_made_under_its_lease(running: Stack) -> None:
    """Given new facts of a reducer that indexes them, then nobody else claims their rows, and it needs no claim."""
    lease = reduced_under_a_lease(running)
    assert fact_states(running) == {("running", True, True)}
    indexer = running.services.indexer
    assert indexer.run_one(running.tenant, running.runtime.worker, (PointKind.FACT,)) == 0
    assert indexer.run_one(running.tenant, running.runtime.worker, (PointKind.FACT,), lease) == len(lease.points)
    assert fact_states(running) == {("done", False, False)}
    assert running.versions(sorted(lease.points, key=str)).keys() == lease.points


def test_rows_under_the_lease_of_a_writer_that_died_are_indexed_by_others(running: Stack) -> None:
    """Given a reducer that ends between its commit and the index, then its rows are freed with its lease."""
    reduced_under_a_lease(running)
    running.execute("UPDATE memforest.index_row SET lease_until = now() WHERE state = 'running'")
    running.services.reconciler.run()
    assert fact_states(running) == {("ready", True, False)}
    running.drive()
    assert fact_states(running) == {("done", False, False)}


def test_rows_are_given_back_when_the_index_is_unavailable(running: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a reducer whose facts can't be indexed now, then their rows wait for anybody."""
    lease = reduced_under_a_lease(running)
    monkeypatch.setattr(type(running.services.indexer), "_reachable", lambda _: False)
    assert running.services.indexer.run_one(running.tenant, running.runtime.worker, (PointKind.FACT,), lease) == 0
    assert fact_states(running) == {("ready", True, False)}


def test_no_row_is_made_under_a_lease_while_points_may_be_newer(running: Stack) -> None:
    """Given a store that may have been restored, then new rows wait, as if they were to be claimed."""
    running.memory.ingest("alice", "s", MOVED)
    while running.runtime.extract():
        pass
    running.execute("UPDATE memforest.collection SET store_started = 'another' WHERE live")
    lease = PointLease(running.runtime.worker)
    assert running.services.reduction.run_one(running.tenant, lease).new_facts > 0
    assert lease.points == set()
    assert fact_states(running) == {("ready", True, False)}
