"""Verification: what pipelines leave is clean, all damage is found under its name, derived damage is repaired."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID, uuid4

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from memforest_core.client.api import MemForest
from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.errors import IndexUnavailable, NotFound
from memforest_core.index.vector_index import Point, PointKey, PointKind, SparseVector
from memforest_core.lifecycle.verify import cli as command
from memforest_core.lifecycle.verify import service
from memforest_core.lifecycle.verify.records import Check, CheckResult, Found, Report, can_be_repaired
from memforest_core.lifecycle.verify.service import open_verification
from memforest_core.models.calls import Embedder
from tests.harness.sayings import said
from tests.harness.servers import SessionServers
from tests.harness.stack import Grown, Stack, cloned

LAMPS = said(*[f"I paid {n} dollars for a brass lamp numbered {n}." for n in range(24)])
LETTER = said(
    "I live in Davis.",
    "This is what I wrote to Clara. " + "We walked along the river and talked about boats. " * 400,
    "She moved to Miami.",
    start=1_700_900_000,
)


def tell(running: Stack) -> None:
    running.memory.client.enqueue("bob", "s1", LAMPS)
    running.memory.client.enqueue("bob", "s2", LETTER)
    running.memory.client.enqueue("alice", "s1", said("I adopted a cat named Rex.", name="Alice"))


@pytest.fixture(scope="module")
def shared(
    servers: SessionServers, grown: Grown, tmp_path_factory: pytest.TempPathFactory, embedder: Embedder
) -> Iterator[Stack]:
    """A clone shared by tests that restore what they damage, with a copy of its rows in another schema."""
    with cloned(servers, grown, tmp_path_factory.mktemp("shared"), embedder) as running:
        running.execute("CREATE SCHEMA saved")
        for table in running.counts():
            running.execute(f"CREATE TABLE saved.{table} AS TABLE memforest.{table}")
        yield running


@pytest.fixture
def restored(shared: Stack) -> Iterator[Stack]:
    """A pipeline at rest, whose rows are put back at the end; its index must be left alone."""
    yield shared
    columns = shared.rows(
        "SELECT table_name, string_agg(column_name, ', ') AS names FROM information_schema.columns"
        " WHERE table_schema = 'memforest' AND is_generated = 'NEVER' GROUP BY table_name"
    )
    everything = ", ".join(f"memforest.{row.table_name}" for row in columns)
    copies = "; ".join(
        f"INSERT INTO memforest.{row.table_name} ({row.names}) SELECT {row.names} FROM saved.{row.table_name}"
        for row in columns
    )
    damage(shared, f"TRUNCATE {everything}; {copies}")


def verify(pipeline: Stack, owner: str | None = None, *, repair: bool = False) -> Report:
    return open_verification(pipeline.services.engine, pipeline.services.index, pipeline.services.settings).run(
        None, owner, repair
    )


def broken(report: Report) -> dict[Check, set[str]]:
    return {result.check: set(result.kinds) for result in report.checks if result.violations}


def line(report: Report, check: Check) -> CheckResult:
    return next(result for result in report.checks if result.check is check)


def damage(pipeline: Stack, statement: str) -> None:
    """Change rows as nobody may: neither constraints nor triggers look."""
    pipeline.execute(f"SET LOCAL session_replication_role = replica; SET LOCAL search_path = memforest; {statement}")


def test_what_a_pipeline_at_rest_leaves_breaks_no_promise(rested: Stack) -> None:
    report = verify(rested)
    assert broken(report) == {}
    assert report.complete
    assert report.forests == 2
    idle = {Check.WINDOWS, Check.SESSION_WINDOWS, Check.CALENDAR, Check.TASKS, Check.DIRTY_PATHS, Check.PACKS}
    assert all(result.checked > 0 for result in report.checks if result.check not in idle)
    counts = rested.counts()
    assert line(report, Check.TREE_NODES).checked == counts["node"]
    assert line(report, Check.INDEX_POINTS).checked == counts["index_row"]
    assert line(report, Check.ORPHAN_POINTS).checked == rested.services.index.count(rested.tenant)


def test_work_on_its_way_is_no_violation(pipeline: Stack) -> None:
    """Given sessions at every step of the way, then verification finds nothing after any single step."""
    for number in range(3):
        pipeline.memory.client.enqueue("bob", f"s{number}", LAMPS[: 4 + 6 * number])
        pipeline.memory.client.append("bob", "talk", {"role": "user", "content": f"I bought kite number {number}."})
        assert broken(verify(pipeline)) == {}
        for step in (pipeline.services.extraction.run_one, pipeline.services.refresh.run_one):
            step(pipeline.tenant, pipeline.runtime.worker)
            assert broken(verify(pipeline)) == {}
        pipeline.services.reduction.run_one(pipeline.tenant)
        pipeline.execute("UPDATE memforest.tree SET due_at = now() WHERE due_at IS NOT NULL")
        assert broken(verify(pipeline)) == {}
        pipeline.services.indexer.run_one(pipeline.tenant, pipeline.runtime.worker, tuple(PointKind))
    pipeline.drive()
    assert broken(verify(pipeline)) == {}


def test_it_may_run_while_workers_do(pipeline: Stack) -> None:
    """Given a pipeline that works in another thread, then no look at it finds anything."""
    for number in range(6):
        pipeline.memory.client.enqueue(f"owner-{number % 2}", f"s{number}", LAMPS)
    worker = threading.Thread(target=pipeline.drive)
    worker.start()
    polls = 0
    while worker.is_alive() or not polls:
        assert broken(verify(pipeline)) == {}
        polls += 1
    worker.join()
    assert broken(verify(pipeline)) == {}


NODE = "(SELECT node_id FROM node WHERE level = {} AND parent_id IS NOT NULL ORDER BY node_id LIMIT 1)"
INNER, LEAF = NODE.format(1), NODE.format(0)
HIS = "forest_id = (SELECT forest_id FROM forest WHERE owner = 'bob')"
CELL = f"(SELECT cell_id FROM cell WHERE {HIS} ORDER BY cell_id LIMIT 1)"
FACT = f"(SELECT fact_id FROM fact WHERE {HIS} ORDER BY fact_id LIMIT 1)"
SESSION = "(SELECT session_id FROM session WHERE external_id = 's1' AND turn_count = 24)"
ROOTED = "(SELECT tree_id FROM tree WHERE kind = 'session' ORDER BY leaf_count DESC, tree_id LIMIT 1)"
SIBLINGS = f"(SELECT node_id FROM node WHERE tree_id = {ROOTED} AND level = 1 ORDER BY key_ordinal DESC)"
HERS = "(SELECT forest_id FROM forest WHERE owner = 'alice')"
MIDDLE = f"""(SELECT node_id FROM node WHERE tree_id = {ROOTED} AND level = 1
               ORDER BY key_ordinal OFFSET 1 LIMIT 1)"""

DAMAGE = [
    (Check.TURNS, "gap", f"DELETE FROM turn WHERE session_id = {SESSION} AND ordinal = 5"),
    (Check.TURNS, "words", f"UPDATE turn SET erased = true WHERE session_id = {SESSION} AND ordinal = 0"),
    (Check.TURNS, "uncovered", f"DELETE FROM cell WHERE session_id = {SESSION}"),
    (Check.CELLS, "ordinal_gap", f"DELETE FROM cell WHERE session_id = {SESSION} AND ordinal = 4"),
    (
        Check.CELLS,
        "turn_gap",
        f"UPDATE cell SET first_turn = first_turn + 1 WHERE session_id = {SESSION} AND ordinal = 4",
    ),
    (Check.CELLS, "turn_gap", "UPDATE cell SET char_start = char_start + 1 WHERE char_start > 0"),
    (
        Check.CELLS,
        "tail_missing",
        "DELETE FROM cell c WHERE ordinal = (SELECT max(ordinal) FROM cell x WHERE x.session_id = c.session_id)",
    ),
    (Check.CELLS, "other_forest", f"UPDATE cell SET forest_id = {HERS} WHERE session_id = {SESSION}"),
    (Check.SESSION_COUNTERS, "turn_count", "UPDATE session SET turn_count = turn_count + 1"),
    (Check.SESSION_COUNTERS, "cell_count", f"UPDATE session SET cell_count = 1 WHERE session_id = {SESSION}"),
    (Check.OUTCOMES, "none", f"UPDATE cell SET outcome = NULL WHERE cell_id = {CELL}"),
    (
        Check.CANDIDATES,
        "unattached",
        "DELETE FROM occurrence WHERE (cell_id, item) IN (SELECT cell_id, item FROM occurrence ORDER BY cell_id, "
        "item LIMIT 1)",
    ),
    (Check.CANDIDATES, "superseded", "UPDATE candidate SET item = -1 - item WHERE item = 0"),
    (Check.OCCURRENCES, "no_fact", f"DELETE FROM fact WHERE fact_id = {FACT}"),
    (Check.OCCURRENCES, "other_forest", f"UPDATE fact SET forest_id = {HERS} WHERE fact_id = {FACT}"),
    (Check.OCCURRENCES, "other_session", f"UPDATE occurrence SET session_id = {SESSION}"),
    (Check.OCCURRENCES, "no_turn", "UPDATE occurrence SET turn_ordinals = turn_ordinals || CAST(99 AS bigint)"),
    (Check.OCCURRENCES, "candidate_differs", "UPDATE candidate SET turn_ordinals = turn_ordinals || CAST(0 AS bigint)"),
    (
        Check.OCCURRENCES,
        "turns_elsewhere",
        "UPDATE occurrence o SET turn_ordinals = ARRAY[0] FROM cell c WHERE c.cell_id = o.cell_id AND c.first_turn > 0",
    ),
    (Check.FACTS, "no_occurrence", f"DELETE FROM occurrence WHERE fact_id = {FACT}"),
    (
        Check.FACTS,
        "no_scope",
        f"WITH gone AS (DELETE FROM placement WHERE payload_id = {FACT}) DELETE FROM node WHERE payload_id = {FACT}",
    ),
    (Check.TREE_HEADS, "root_missing", f"UPDATE tree SET root_id = NULL WHERE tree_id = {ROOTED}"),
    (Check.TREE_HEADS, "not_active", "UPDATE tree SET state = 'candidate' WHERE state = 'active'"),
    (Check.TREE_HEADS, "session_missing", f"DELETE FROM session WHERE session_id = {SESSION}"),
    (Check.TREE_HEADS, "second_root", "UPDATE node SET parent_id = node_id WHERE parent_id IS NULL"),
    (Check.TREE_NODES, "second_root", f"UPDATE node SET parent_id = NULL WHERE node_id = {LEAF}"),
    (Check.TREE_NODES, "parent_missing", f"UPDATE node SET parent_id = {CELL} WHERE node_id = {LEAF}"),
    (
        Check.TREE_NODES,
        "wrong_tree",
        "UPDATE node n SET parent_id = (SELECT node_id FROM node o WHERE o.level = 1 AND o.tree_id <> n.tree_id "
        f"ORDER BY node_id LIMIT 1) WHERE node_id = {LEAF}",
    ),
    (
        Check.TREE_NODES,
        "parent_level",
        "UPDATE node n SET parent_id = (SELECT root_id FROM tree r WHERE r.tree_id = n.tree_id) WHERE level = 0 "
        f"AND tree_id = {ROOTED}",
    ),
    (Check.TREE_NODES, "overfull", f"UPDATE node n SET parent_id = {MIDDLE} WHERE level = 0 AND tree_id = {ROOTED}"),
    (Check.TREE_NODES, "childless", f"DELETE FROM node WHERE parent_id = {MIDDLE}"),
    (
        Check.TREE_NODES,
        "underfull",
        f"DELETE FROM node WHERE node_id IN (SELECT node_id FROM node WHERE parent_id = {MIDDLE} ORDER BY "
        "key_ordinal LIMIT 2)",
    ),
    (Check.TREE_NODES, "payload_missing", f"UPDATE node SET payload_id = NULL WHERE node_id = {LEAF}"),
    (Check.TREE_NODES, "payload_unexpected", f"UPDATE node SET payload_id = {FACT} WHERE node_id = {INNER}"),
    (Check.TREE_NODES, "leaf_count", f"UPDATE node SET leaf_count = 77 WHERE node_id = {INNER}"),
    (Check.TREE_NODES, "interval", f"UPDATE node SET time_end = time_end + 1 WHERE node_id = {INNER}"),
    (Check.TREE_NODES, "key_unexpected", "UPDATE node SET key_ordinal = -5 WHERE parent_id IS NULL AND level > 0"),
    (
        Check.TREE_NODES,
        "key_missing",
        "UPDATE node n SET (key_time, key_ordinal, key_item, key_id) = (SELECT key_time, key_ordinal, key_item, "
        f"key_id FROM node x WHERE x.parent_id IS NULL AND x.level > 0 LIMIT 1) WHERE node_id = {MIDDLE}",
    ),
    (
        Check.TREE_NODES,
        "key_order",
        "UPDATE node SET key_time = 0, key_ordinal = 1, key_item = 0, key_id = 'x' WHERE level = 0 AND tree_id = "
        f"{ROOTED}",
    ),
    (Check.TREE_NODES, "key_bound", f"UPDATE node SET key_ordinal = key_ordinal + 7 WHERE node_id = {MIDDLE}"),
    (Check.TREE_COUNTERS, "leaf_count", f"UPDATE tree SET leaf_count = 3 WHERE tree_id = {ROOTED}"),
    (Check.TREE_COUNTERS, "height", f"UPDATE tree SET height = height + 1 WHERE tree_id = {ROOTED}"),
    (Check.TREE_COUNTERS, "members", f"UPDATE node SET payload_id = {CELL} WHERE tree_id = {ROOTED} AND level = 0"),
    (
        Check.PLACEMENTS,
        "unexpected",
        f"INSERT INTO placement SELECT tenant_id, tree_id, {FACT}, {SESSION} FROM tree WHERE tree_id = {ROOTED}",
    ),
    (Check.LEAVES, "no_payload", f"DELETE FROM cell WHERE cell_id = {CELL}"),
    (Check.LEAVES, "no_payload", f"DELETE FROM fact WHERE fact_id = {FACT}"),
    (Check.LEAVES, "key", f"UPDATE node SET key_item = 7 WHERE payload_id = {CELL}"),
    (Check.LEAVES, "key", f"UPDATE fact SET key_item = key_item + 1 WHERE fact_id = {FACT}"),
    (Check.LEAVES, "interval", f"UPDATE cell SET time_end = time_end + interval '1 hour' WHERE cell_id = {CELL}"),
    (Check.LEAVES, "other_forest", f"UPDATE fact SET forest_id = {HERS} WHERE fact_id = {FACT}"),
    (Check.PLACED_CELLS, "no_leaf", f"DELETE FROM node WHERE payload_id = {CELL}"),
    (Check.TURNS, "words", "UPDATE turn SET erased = true"),
    (Check.CHANGES, "no_successor", f"UPDATE fact SET superseded_at = now() WHERE fact_id = {FACT}"),
    (
        Check.CHANGES,
        "no_successor",
        f"UPDATE fact SET superseded_at = now(), superseded_by = gen_random_uuid() WHERE fact_id = {FACT}",
    ),
    (
        Check.SESSION_WINDOWS,
        "no_turn",
        "INSERT INTO session_window (tenant_id, session_id, forest_id, turns, text, source, model, input_hash, "
        "version) SELECT tenant_id, session_id, forest_id, 1000, '', 'joined', '', '', gen_random_uuid() FROM "
        f"cell WHERE cell_id = {CELL}",
    ),
    (
        Check.SESSION_WINDOWS,
        "no_turn",
        "INSERT INTO window_item (tenant_id, session_id, item_id, forest_id, place, said_in, ordinal) SELECT "
        "tenant_id, session_id, gen_random_uuid(), forest_id, 1, session_id, 1000 FROM cell WHERE cell_id = "
        f"{CELL}",
    ),
    (
        Check.CALENDAR,
        "no_turn",
        "INSERT INTO calendar_digest (tenant_id, forest_id, span, first_day, start_at, end_at, texts, sources, "
        "turns, left_out, source, model, input_hash, version) SELECT tenant_id, forest_id, 'day', date "
        "'2001-01-01', '2001-01-01', '2001-01-02', '[]', '[]', 1, 0, 'joined', '', '', gen_random_uuid() FROM "
        f"cell WHERE cell_id = {CELL}",
    ),
    (Check.LEASES, "leaked", f"UPDATE cell SET worker_id = gen_random_uuid() WHERE cell_id = {CELL}"),
    (Check.LEASES, "no_lease", f"UPDATE index_row SET state = 'running' WHERE point_id = {CELL}"),
    (Check.LEASES, "leaked", f"UPDATE index_row SET lease_token = gen_random_uuid() WHERE point_id = {CELL}"),
    (Check.LEASES, "no_lease", f"UPDATE node SET lease_token = gen_random_uuid() WHERE node_id = {INNER}"),
    (
        Check.TASKS,
        "no_lease",
        "INSERT INTO maintenance (tenant_id, task_id, kind, state) VALUES ('default', gen_random_uuid(), "
        "'unheard_of', 'running')",
    ),
    (
        Check.FORESTS,
        "abandoned",
        "INSERT INTO forest (tenant_id, forest_id, owner, state) VALUES ('default', gen_random_uuid(), 'bob', "
        "'hidden')",
    ),
    (Check.DUE_TREES, "not_due", "UPDATE node SET version = version + 1 WHERE parent_id IS NULL AND level > 0"),
    (
        Check.DUE_TREES,
        "not_settled",
        "UPDATE node_summary SET created_at = now() - interval '1 hour'; UPDATE tree SET due_at = now() - "
        "interval '1 hour', last_mark_at = now() - interval '1 hour' WHERE state = 'active'",
    ),
    (Check.DIRTY_PATHS, "clean_above", f"UPDATE node SET version = version + 1 WHERE node_id = {INNER}"),
    (Check.SUMMARIES, "missing", f"DELETE FROM node_summary WHERE node_id = {INNER}"),
    (Check.SUMMARIES, "version", f"UPDATE node_summary SET version = 0 WHERE node_id = {INNER}"),
    (Check.SUMMARIES, "inputs", f"UPDATE cell SET summary = 'We spoke of boats.' WHERE cell_id = {CELL}"),
    (Check.SUMMARIES, "inputs", "UPDATE fact SET text = text || ' Or so.'"),
    (Check.SUMMARIES, "text", "UPDATE node_summary SET text = text || '!' WHERE source IN ('joined', 'passed')"),
    (
        Check.INDEX_ROWS,
        "no_object",
        "INSERT INTO index_row (tenant_id, point_id, forest_id, kind, version) SELECT tenant_id, "
        "gen_random_uuid(), forest_id, 'fact', 1 FROM forest",
    ),
    (Check.INDEX_ROWS, "object_lives", f"UPDATE index_row SET deleted = true WHERE point_id = {CELL}"),
    (Check.INDEX_ROWS, "not_behind", f"UPDATE index_row SET version = version + 1 WHERE point_id = {CELL}"),
    (Check.INDEX_ROWS, "ahead", f"UPDATE index_row SET indexed_version = version + 1 WHERE point_id = {CELL}"),
    (Check.UNINDEXED, "cell", f"DELETE FROM index_row WHERE point_id = {CELL}"),
    (Check.UNINDEXED, "fact", f"DELETE FROM index_row WHERE point_id = {FACT}"),
    (Check.UNINDEXED, "node", f"DELETE FROM index_row WHERE point_id = {INNER}"),
]

PERSISTENT = ("session", "turn", "cell", "candidate", "fact", "occurrence", "placement", "tree", "node")
COLUMNS = {
    "session": "session_id, forest_id, external_id, started_at",
    "cell": "cell_id, forest_id, ordinal, first_turn, last_turn, text, placed, outcome, summary",
    "tree": "tree_id, forest_id, kind, scope_key, state, k, root_id",
    "node": "node_id, tree_id, parent_id, level, key_time, key_ordinal, key_item, key_id, payload_id",
}


def persistent(pipeline: Stack) -> dict[str, str]:
    """All that cannot be made again, as one hash per table."""
    hashes = " UNION ALL ".join(
        f"SELECT '{table}', md5(string_agg(CAST(x AS text), ',' ORDER BY CAST(x AS text)))"
        f" FROM (SELECT {COLUMNS.get(table, '*')} FROM memforest.{table}) x"
        for table in PERSISTENT
    )
    return {str(row[0]): str(row[1]) for row in pipeline.rows(hashes)}


@pytest.mark.parametrize(
    ("check", "what", "statement"), DAMAGE, ids=[f"{d[0]}-{d[1]}-{n}" for n, d in enumerate(DAMAGE)]
)
def test_damage_is_found_under_its_name_and_repaired_if_derived(
    request: pytest.FixtureRequest, check: Check, what: str, statement: str
) -> None:
    """Given rows changed behind everybody's back, then verification names the promise that they break. With repair,
    it leaves nothing wrong where everything is derived, and never touches what is not."""
    derived = can_be_repaired(check, Found(uuid4(), what))
    pipeline: Stack = request.getfixturevalue("rested" if derived else "restored")
    damage(pipeline, statement)
    assert what in broken(verify(pipeline)).get(check, set())
    if derived:
        before = persistent(pipeline)
        fixed = verify(pipeline, repair=True)
        assert persistent(pipeline) == before
        assert line(fixed, check).repaired > 0
        assert broken(fixed) == {}
        damage(pipeline, "DELETE FROM memforest.maintenance")
        pipeline.drive()
        assert broken(verify(pipeline)) == {}


@pytest.mark.parametrize("what", ["turn", "occurrence", "fact"])
def test_repair_leaves_persistent_state_alone_and_says_what_is_left(rested: Stack, what: str) -> None:
    """Given rows that nobody can make again are gone, then repair rebuilds what follows from the rest, and no more."""
    damage(rested, f"DELETE FROM memforest.{what}")
    before = persistent(rested)
    report = verify(rested, repair=True)
    assert report.violations > 0
    assert persistent(rested) == before


def test_more_violations_than_fit_a_round_are_repaired_round_by_round(
    rested: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "PER_ROUND", 1)
    damage(rested, "UPDATE memforest.session SET turn_count = turn_count + 1")
    fixed = verify(rested, repair=True)
    assert (fixed.violations, fixed.repaired) == (0, rested.counts()["session"])


def test_a_repair_that_does_not_help_is_given_up(rested: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []
    monkeypatch.setattr(service.RepairRows, "repair", lambda *given: tried.append(given) or 0)
    damage(rested, f"UPDATE memforest.session SET turn_count = 7 WHERE session_id = {SESSION}")
    assert verify(rested, repair=True).violations == 1
    assert len(tried) == service.FRUITLESS_ROUNDS


def test_cells_that_nobody_can_claim_are_given_back(rested: Stack) -> None:
    """Given a window whose first cell was left running by nobody, and one whose first cell is dead while the second
    waits, then repair makes all that waits claimable, and it becomes facts."""
    rested.memory.client.enqueue("bob", "new", said(*[f"I paid {n} dollars for a kite." for n in range(8)]))
    new = "session_id = (SELECT session_id FROM memforest.session WHERE external_id = 'new')"
    damage(
        rested,
        f"UPDATE memforest.cell SET state = 'running' WHERE {new} AND ordinal = 0; UPDATE memforest.cell"
        f" SET state = 'dead', outcome = 'dead' WHERE {new} AND ordinal = 2",
    )
    assert broken(verify(rested)) == {Check.LEASES: {"no_lease"}, Check.WINDOWS: {"unclaimable"}}
    assert verify(rested, repair=True).violations == 0
    rested.drive()
    assert rested.rows(f"SELECT ordinal, placed FROM memforest.cell WHERE {new} ORDER BY 1") == [
        (0, True),
        (1, True),
        (2, False),
        (3, True),
    ]
    assert broken(verify(rested)) == {}


def a_point(tenant: TenantId, forest: UUID, id_: UUID, version: int) -> Point:
    dense = np.zeros(384, np.float32)
    dense[0] = 1.0
    return Point(id_, tenant, ForestId(forest), PointKind.FACT, version, dense, SparseVector((), ()))


def forest_of(pipeline: Stack, owner: str) -> UUID:
    return UUID(str(pipeline.rows("SELECT forest_id FROM memforest.forest WHERE owner = :o", o=owner)[0][0]))


def test_points_that_the_index_lost_are_found_and_written_again(rested: Stack) -> None:
    found = rested.rows("SELECT forest_id, fact_id FROM memforest.fact ORDER BY 2 LIMIT 3")
    lost = {fact for _, fact in found}
    rested.services.index.delete([PointKey(rested.tenant, ForestId(forest), fact) for forest, fact in found])
    assert broken(verify(rested)) == {Check.INDEX_POINTS: {"missing"}}
    fixed = verify(rested, repair=True)
    assert (fixed.violations, line(fixed, Check.INDEX_POINTS).repaired) == (0, 3)
    rested.drive()
    assert set(rested.versions(lost)) == lost
    assert broken(verify(rested)) == {}


def test_points_without_a_matching_row_are_found_and_deleted(rested: Stack) -> None:
    """Given points without a row, and one that is newer than its row, then both are found, for all and for one owner."""
    bob, stray = forest_of(rested, "bob"), uuid4()
    fact = UUID(str(rested.rows("SELECT fact_id FROM memforest.fact WHERE text ILIKE '%davis%' LIMIT 1")[0][0]))
    rested.services.index.upsert([a_point(rested.tenant, bob, stray, 1), a_point(rested.tenant, bob, fact, 5_000)])
    assert broken(verify(rested)) == {Check.ORPHAN_POINTS: {"no_row", "ahead"}}
    assert broken(verify(rested, "bob")) == {Check.ORPHAN_POINTS: {"no_row", "ahead"}}
    assert broken(verify(rested, "alice")) == {}
    assert line(verify(rested, repair=True), Check.ORPHAN_POINTS).repaired == 2
    rested.drive()
    assert rested.versions([stray]) == {}
    assert broken(verify(rested)) == {}


def test_an_unavailable_index_is_reported_and_the_rest_is_checked(
    rested: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unavailable(*_: object) -> None:
        raise IndexUnavailable("away")

    for call in ("versions", "scan", "count"):
        monkeypatch.setattr(rested.services.index, call, unavailable)
    report = verify(rested)
    assert report.violations == 0
    assert not report.complete
    assert line(report, Check.INDEX_POINTS).not_checked == "the index is unavailable"
    assert command.exit_code(report) == 75
    damage(rested, f"DELETE FROM memforest.turn WHERE session_id = {SESSION}")
    assert command.exit_code(verify(rested, repair=True)) == 1


def test_one_owner_is_checked_alone(rested: Stack) -> None:
    damage(rested, f"UPDATE memforest.session SET turn_count = 7 WHERE session_id = {SESSION}")
    assert broken(verify(rested, "alice")) == {}
    assert broken(verify(rested, "bob")) == {Check.SESSION_COUNTERS: {"turn_count"}}
    with pytest.raises(NotFound, match="nobody"):
        verify(rested, "nobody")


def test_tenants_are_checked_separately_or_all_together(rested: Stack) -> None:
    """Given damage in another tenant, then only a check of all tenants finds it."""
    damage(
        rested,
        "INSERT INTO memforest.tenant (tenant_id) VALUES ('other'); INSERT INTO memforest.forest (tenant_id, forest_id,"
        " owner) VALUES ('other', gen_random_uuid(), 'carol'); INSERT INTO memforest.session (tenant_id, session_id,"
        " forest_id, external_id, time_zone, started_at, turn_count) SELECT tenant_id, gen_random_uuid(), forest_id,"
        " 'x', 'UTC', now(), 3 FROM memforest.forest WHERE tenant_id = 'other'",
    )
    verification = open_verification(rested.services.engine, rested.services.index, rested.services.settings)
    assert verification.run().violations == 0
    everything = verification.run_all()
    assert (everything.forests, everything.violations) == (3, 1)


def test_dead_work_is_reported_and_is_no_violation(rested: Stack) -> None:
    damage(rested, f"UPDATE memforest.cell SET state = 'dead', outcome = 'dead' WHERE cell_id = {CELL}")
    report = verify(rested)
    assert report.violations == 0
    assert report.dead == {"cells": 1, "nodes": 0, "index_rows": 0}


@pytest.fixture
def run(rested: Stack, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    """The command over the pipeline's own services."""

    @contextmanager
    def opened(_data: Path | None) -> Iterator[MemForest]:
        yield rested.memory

    monkeypatch.setattr(command, "opened_memory", opened)
    return CliRunner()


def program() -> typer.Typer:
    app = typer.Typer()
    app.callback()(lambda: None)
    app.command()(command.verify)
    return app


def test_the_command_prints_what_it_checked_and_ends_as_it_went(run: CliRunner, rested: Stack) -> None:
    calm = run.invoke(program(), ["verify"])
    assert calm.exit_code == 0
    assert "No violation in 2 forests." in calm.stdout
    damage(rested, f"UPDATE memforest.session SET turn_count = 7 WHERE session_id = {SESSION}")
    found = run.invoke(program(), ["verify"])
    assert found.exit_code == 1
    assert "session_counters: 1 turn_count" in found.stdout
    as_json = json.loads(run.invoke(program(), ["verify", "--json"]).stdout)
    counters = next(check for check in as_json["checks"] if check["check"] == "session_counters")
    assert (as_json["violations"], counters["violations"], counters["examples"][0]["what"]) == (1, 1, "turn_count")
    fixed = run.invoke(program(), ["verify", "--repair", "--json"])
    assert fixed.exit_code == 0
    assert json.loads(fixed.stdout)["repaired"] == 1
    assert run.invoke(program(), ["verify", "--owner", "bob", "--all-tenants"]).exit_code != 0
