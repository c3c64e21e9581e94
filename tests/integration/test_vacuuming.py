"""What stays in Postgres' own files: no word in statistics and indexes ever, none in pages once they are vacuumed."""

from __future__ import annotations

import json

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from memforest_core.cli.program import app
from memforest_core.lifecycle.erase.records import Receipt
from memforest_core.lifecycle.erase.rows.vacuum_rows import held_back
from memforest_core.store.engine import tenant_transaction
from memforest_core.work.records import TaskId
from tests.harness.sayings import said
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack

CODES = {
    *("tenant_id", "tenant", "state", "kind", "step", "outcome", "error_code", "action", "source", "role", "time_zone"),
    *("model", "vector_model", "version_num", "revision", "follows", "key_id"),
    *("text_hash", "routing_hash", "input_hash", "owner_hash", "hash"),
}
"""Columns of text or bytes, in any table, whose values are codes, ids or hashes."""
WORDS = ("zanzibarium", "quixotelia", "bromeliadix")
OWNER = "planty"
TABLES = """SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id'
             WHERE c.relnamespace = 'memforest'::regnamespace AND c.relkind = 'r' ORDER BY 1"""
FILES = """SELECT relname, pg_relation_filepath(oid) AS path FROM pg_class
            WHERE pg_relation_filepath(oid) IS NOT NULL AND (relnamespace = 'memforest'::regnamespace
               OR relname = 'pg_statistic' OR relname LIKE 'pg_toast%')"""


def tell(running: Stack) -> None:
    for number in range(12):
        first, second = WORDS[number % 3], WORDS[(number + 1) % 3]
        said_here = said(
            f"I moved to {first.title()} in May 2023 with my dog {second}{number}.",
            f"My friend {second.title()} works at {first.title()} Corp as a {second} number {number}.",
        )
        said_here[1] |= {"speaker_id": f"{second}-{number}", "name": second.title(), "metadata": {"mark": first}}
        running.memory.client.enqueue(OWNER, f"{first}-{number}", said_here)
    for number in range(60):
        running.memory.client.enqueue("other", f"s-{number}", said(f"I like tea number {number}.", "Nice."))


def maintained(pipeline: Stack, *statements: str) -> None:
    """As the owner, each outside of a transaction."""
    engine = pipeline.owner_engine()
    with engine.connect() as raw:
        connection = raw.execution_options(isolation_level="AUTOCOMMIT")
        for statement in statements:
            connection.exec_driver_sql(statement)
    engine.dispose()


def forgotten(pipeline: Stack) -> TaskId:
    operation = pipeline.memory.lifecycle.forget(OWNER, everything=True, actor="test")
    pipeline.drive(300)
    return operation.id


def receipt(pipeline: Stack, task: TaskId) -> Receipt:
    return pipeline.memory.lifecycle.receipt(task)


def due(pipeline: Stack) -> None:
    pipeline.execute("UPDATE memforest.maintenance SET available_at = now() WHERE kind = 'vacuum' AND state = 'ready'")


def vacuums(pipeline: Stack) -> list[tuple[str, dict[str, object]]]:
    rows = pipeline.rows("SELECT state, progress FROM memforest.maintenance WHERE kind = 'vacuum' ORDER BY created_at")
    return [(row.state, row.progress) for row in rows]


def in_statistics(pipeline: Stack) -> list[str]:
    """Columns and index expressions whose samples hold a planted word."""
    rows = pipeline.rows(
        """SELECT tablename || '.' || attname AS place, concat_ws(' ', most_common_vals::text, histogram_bounds::text,
                  most_common_elems::text) AS samples FROM pg_stats WHERE schemaname = 'memforest'"""
    )
    assert len(rows) > 50, "nothing was analyzed"
    return sorted(row.place for row in rows if any(word in row.samples.lower() for word in WORDS))


def in_rows_of_pages(pipeline: Stack) -> list[str]:
    """Tables in whose pages a line pointer, dead or alive, leads to a planted word: what any query could read."""
    maintained(pipeline, "CREATE EXTENSION IF NOT EXISTS pageinspect")
    found = []
    for row in pipeline.rows(TABLES):
        items = pipeline.rows(
            f"""SELECT i.t_data FROM generate_series(0, pg_relation_size('memforest.{row.relname}') / 8192 - 1) AS block,
                       heap_page_items(get_raw_page('memforest.{row.relname}', block::int)) AS i
                 WHERE i.t_data IS NOT NULL"""
        )
        if any(word.encode() in bytes(item.t_data).lower() for item in items for word in WORDS):
            found.append(str(row.relname))
    return found


def in_items_of_indexes(pipeline: Stack) -> list[str]:
    """B-trees in whose pages an entry contains a planted word."""
    maintained(pipeline, "CREATE EXTENSION IF NOT EXISTS pageinspect")
    found = []
    indexes = pipeline.rows(
        """SELECT i.relname, m.amname FROM pg_class i JOIN pg_am m ON m.oid = i.relam
            WHERE i.relnamespace = 'memforest'::regnamespace AND i.relkind = 'i'"""
    )
    assert {row.amname for row in indexes} == {"btree"}, "read the entries of the other kind of index too"
    for row in indexes:
        items = pipeline.rows(
            f"""SELECT i.data FROM generate_series(1, pg_relation_size('memforest.{row.relname}') / 8192 - 1) AS block,
                       bt_page_items('memforest.{row.relname}', block) AS i
                 WHERE (bt_page_stats('memforest.{row.relname}', block)).type IN ('l', 'r')
                   AND i.itemoffset > 0 AND NOT coalesce(i.dead, false)"""
        )
        if any(word.encode() in bytes.fromhex(item.data or "").lower() for item in items for word in WORDS):
            found.append(str(row.relname))
    return found


def in_files(pipeline: Stack, servers: SessionServers) -> list[str]:
    """Tables and indexes whose files hold a planted word in any byte."""
    assert servers.embedded is not None
    maintained(pipeline, "CHECKPOINT")
    data = servers.embedded.directory.path / "pg"
    found = []
    for row in pipeline.rows(FILES):
        content = (data / row.path).read_bytes().lower()
        if any(word.encode() in content for word in WORDS):
            found.append(str(row.relname))
    return sorted(found)


# Statistics


def test_no_column_that_may_hold_words_is_sampled(rested: Stack) -> None:
    """Given columns of text, documents or bytes, then only codes, ids and hashes may get statistics: a new column is
    either in the list above or gets SET STATISTICS 0."""
    sampled = rested.rows(
        """SELECT c.relname || '.' || a.attname AS place, a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
            WHERE c.relnamespace = 'memforest'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped
              AND format_type(a.atttypid, NULL) IN ('text', 'character varying', 'jsonb', 'text[]', 'bytea')
              AND a.attstattarget IS DISTINCT FROM 0"""
    )
    assert [row.place for row in sampled if row.attname not in CODES] == []
    expressions = rested.rows(
        """SELECT indexrelid::regclass::text FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
            WHERE c.relnamespace = 'memforest'::regnamespace AND i.indexprs IS NOT NULL"""
    )
    assert expressions == []


def test_analyze_copies_no_word_into_the_catalog(rested: Stack) -> None:
    """Given memory that is there, not only memory that was deleted, then no sample of it is taken."""
    maintained(rested, "ANALYZE")
    assert in_statistics(rested) == []


# Pages


def test_after_a_deletion_pages_and_indexes_are_vacuumed(rested: Stack) -> None:
    maintained(rested, "ANALYZE")
    assert {"turn", "cell", "fact", "candidate", "speaker"} <= set(in_rows_of_pages(rested))
    assert "ix_fact_chain" in in_items_of_indexes(rested)

    task = forgotten(rested)
    before = receipt(rested, task)
    assert before.clean
    assert not before.vacuumed
    assert in_rows_of_pages(rested) != []

    due(rested)
    rested.drive()
    assert receipt(rested, task).vacuumed
    assert in_rows_of_pages(rested) == []
    assert in_items_of_indexes(rested) == []
    maintained(rested, "ANALYZE")
    assert in_statistics(rested) == []
    assert rested.memory.recall("other", "Which tea?").evidence


def test_after_a_full_vacuum_no_file_contains_a_byte_of_it(
    rested: Stack, servers: SessionServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given free space of pages, where bytes remain until something else is written there, when a command rewrites
    everything, then no table, index, toast or catalog file contains a word."""
    maintained(rested, "ANALYZE")
    forgotten(rested)
    assert in_files(rested, servers) != []
    database = rested.settings.database
    assert database.migration_url is not None
    monkeypatch.setenv("MEMFOREST_DATABASE__URL", database.url.get_secret_value())
    monkeypatch.setenv("MEMFOREST_DATABASE__MIGRATION_URL", database.migration_url.get_secret_value())

    result = CliRunner().invoke(app, ["db", "vacuum", "--full", "--json"])

    assert result.exit_code == 0, result.output
    vacuumed = json.loads(result.stdout)["vacuumed"]
    assert {"memforest.turn", "memforest.cell", "pg_catalog.pg_statistic"} <= set(vacuumed)
    assert in_files(rested, servers) == []


# The task


def test_deletions_of_a_span_share_one_vacuum(rested: Stack) -> None:
    for session in ("s-1", "s-2", "s-3"):
        rested.memory.lifecycle.forget("other", session=session, actor="test")
    rested.drive(300)
    assert [state for state, _ in vacuums(rested)] == ["ready"]
    assert rested.memory.lifecycle.operations() != []


def test_a_deletion_after_a_vacuum_began_gets_its_own(rested: Stack) -> None:
    """Given a vacuum that is over, when something else is deleted later, then its receipt waits for another."""
    first = rested.memory.lifecycle.forget("other", session="s-1", actor="test").id
    rested.drive(300)
    due(rested)
    rested.drive()
    assert receipt(rested, first).vacuumed
    # As if that span were over.
    rested.execute(
        "UPDATE memforest.maintenance SET subject = (CAST(subject AS bigint) - 900)::text WHERE kind = 'vacuum'"
    )
    second = rested.memory.lifecycle.forget("other", session="s-2", actor="test").id
    rested.drive(300)
    assert [state for state, _ in vacuums(rested)] == ["done", "ready"]
    assert not receipt(rested, second).vacuumed


def test_a_vacuum_waits_for_transactions_that_still_see_the_rows(rested: Stack) -> None:
    with rested.services.engine.connect() as raw:
        reader = raw.execution_options(isolation_level="REPEATABLE READ")
        reader.execute(sa.text("SELECT 1"))
        task = forgotten(rested)
        due(rested)
        rested.drive()
        [(state, progress)] = vacuums(rested)
        assert (state, progress) == ("ready", {})
        assert not receipt(rested, task).vacuumed
        reader.rollback()
    due(rested)
    rested.drive()
    [(state, progress)] = vacuums(rested)
    assert state == "done"
    assert progress["skipped"] == 0
    assert receipt(rested, task).vacuumed


def test_a_table_that_is_busy_is_left_for_later(rested: Stack) -> None:
    task = forgotten(rested)
    engine = rested.owner_engine()
    with tenant_transaction(engine, rested.tenant) as other:
        other.execute(sa.text("LOCK TABLE memforest.turn IN SHARE UPDATE EXCLUSIVE MODE"))
        due(rested)
        rested.drive()
        [(state, _)] = vacuums(rested)
        assert state == "ready"
    engine.dispose()
    due(rested)
    rested.drive()
    assert receipt(rested, task).vacuumed


def test_without_the_right_the_receipt_says_so(rested: Stack) -> None:
    """Given a server before version 17, whose service role can't vacuum, then nothing fails and nothing is claimed."""
    rested.execute("REVOKE MAINTAIN ON ALL TABLES IN SCHEMA memforest FROM memforest_service")
    task = forgotten(rested)
    due(rested)
    rested.drive()
    [(state, progress)] = vacuums(rested)
    assert state == "done"
    assert progress["vacuumed"] == 0
    assert int(str(progress["skipped"])) >= 15
    assert receipt(rested, task).clean
    assert not receipt(rested, task).vacuumed


def test_a_vacuum_that_came_from_another_server_waits_for_no_transaction_of_this_one(pipeline: Stack) -> None:
    """Its task names a transaction of that server; here this number is still to come."""
    current = sa.text("SELECT pg_current_xact_id()::text")
    with pipeline.owner.begin() as older:
        older.execute(current)
        with pipeline.owner.begin() as deleting:
            after = int(deleting.scalar(current) or 0)
        assert held_back(pipeline.services.engine, after)
        assert not held_back(pipeline.services.engine, after + 1_000_000)
