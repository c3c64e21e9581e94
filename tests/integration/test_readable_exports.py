"""Exports that people and other programs read, as SQLite and JSON lines: the same memory comes back, or nothing of it."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

import pytest

from memforest_core.domain.ids import TenantId
from memforest_core.errors import InvalidInput
from memforest_core.lifecycle.bundle.records import TABLES, ExportFormat
from memforest_core.lifecycle.bundle.rows.readable import EXTRAS, read_lines
from tests.harness.sealing import reseal
from tests.harness.stack import Stack
from tests.integration.test_bundles import (
    HOMES,
    REPEATED,
    Source,
    answers,
    counts,
    judge,
    refused,
    small_batches,
    source,
    texts,
)

__all__ = ["judge", "small_batches", "source"]
SAME = (
    "SELECT fact_id, pinned, superseded_by, superseded_at, created_at, statement FROM memforest.fact ORDER BY 1",
    "SELECT * FROM memforest.turn ORDER BY session_id, ordinal",
    "SELECT node_id, tree_id, parent_id, level, key_id, leaf_count FROM memforest.node ORDER BY 1",
    "SELECT node_id, text, source, model, terms FROM memforest.node_summary ORDER BY 1",
    "SELECT tree_id, scope_key, state, k, root_id, title, tags, centroid FROM memforest.tree ORDER BY 1",
    "SELECT text_hash, vector FROM memforest.vector ORDER BY 1",
)
Lines = list[dict[str, Any]]


def exported(source: Source | Stack, path: Path, format: ExportFormat, vectors: bool | None = None) -> Path:
    running = source if isinstance(source, Stack) else source.stack
    running.services.lifecycle.bundles.export(
        running.tenant, "bob", path, format=format, vectors=vectors, overwrite=True, actor="tester"
    )
    return path


def lines_of(path: Path) -> Lines:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def views(source: Source, tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(exported(source, tmp_path / "bob.sqlite", "sqlite"))) as database:
        database.row_factory = sqlite3.Row
        yield database


@pytest.mark.parametrize("format,vectors", [("sqlite", None), ("jsonl", None), ("jsonl", True)])
def test_the_same_memory_comes_back(
    source: Source, pipeline: Stack, tmp_path: Path, format: ExportFormat, vectors: bool | None
) -> None:
    """Given an export, when another node imports it, and then for another owner, then facts, trees, summaries, profile
    and recall are the same, and its import is the one of any bundle."""
    path = exported(source, tmp_path / "bob.any", format, vectors)
    assert path.stat().st_mode & 0o777 == 0o600 and [each.name for each in tmp_path.glob("bob*")] == ["bob.any"]
    bundles = pipeline.services.lifecycle.bundles
    done = bundles.import_(pipeline.tenant, path, actor="tester")
    assert (done["phase"], done["same_ids"], done["rows"]) == ("done", 1, done["rows"])
    for each in (source.stack, pipeline):
        while each.runtime.maintain():
            pass
    assert counts(pipeline) == counts(source.stack)
    for what in SAME:
        assert pipeline.rows(what) == source.stack.rows(what), what
    if format == "sqlite" or vectors:
        assert answers(pipeline) == answers(source.stack)
    assert texts(pipeline, "bob") == texts(source.stack, "bob")
    states = [memory.profile("bob").to_dict()["states"] for memory in (pipeline.memory, source.stack.memory)]
    assert states[0] == states[1]
    assert bundles.import_(pipeline.tenant, path, actor="tester")["already"] == 1
    assert bundles.import_(pipeline.tenant, path, "zoe", actor="tester")["same_ids"] == 0
    pipeline.drive()
    assert pipeline.broken() == {}
    assert texts(pipeline, "zoe") == texts(pipeline, "bob")


def test_an_export_is_the_same_each_time(source: Source, tmp_path: Path) -> None:
    first, second = (exported(source, tmp_path / name, "jsonl").read_text().splitlines() for name in "ab")
    assert first[1:] == second[1:]


def test_a_person_reads_the_sqlite_file(source: Source, views: sqlite3.Connection) -> None:
    """Given the file, then queries find a fact with the turn that said it, and walk through summaries in every way."""
    fact = dict(views.execute("SELECT * FROM facts WHERE subject = 'Bob' AND attribute = 'residence'").fetchone())
    assert (fact["value"], fact["speaker"]) == ("Davis", "Bob")
    assert json.loads(fact["sources"]) == [{"session": name, "turns": ["turn@0"]} for name in ("homes", "repeated")]
    said = "SELECT content, occurred_at FROM turns WHERE session = 'homes' AND external_id = 'turn@0'"
    assert tuple(views.execute(said).fetchone()) == ("I live in Davis.", "2023-11-25T08:13:20Z")

    paid = views.execute("SELECT DISTINCT topic FROM turns WHERE content LIKE '%brass lamp numbered%'").fetchall()
    assert [tuple(each) for each in paid] == [
        tuple(each) for each in views.execute("SELECT title FROM topics WHERE title LIKE '%lamp%'")
    ]

    root = views.execute("SELECT * FROM summaries WHERE about = 'lamps' AND parent IS NULL").fetchone()
    assert root["text"] == views.execute("SELECT summary FROM trees WHERE session = 'lamps'").fetchone()[0]
    below = views.execute("SELECT * FROM summaries WHERE parent = ? ORDER BY time_start", (root["node_id"],)).fetchall()
    assert [each["node_id"] for each in below] == json.loads(root["children"]) and len(below) > 1
    ids = [None, *(each["node_id"] for each in below), None]
    assert [(each["previous"], each["next"]) for each in below] == list(zip(ids, ids[2:], strict=False))
    low = views.execute("SELECT children FROM summaries WHERE level = 1 AND about = 'Bob' LIMIT 1").fetchone()
    for leaf in json.loads(low["children"]):
        assert views.execute("SELECT 1 FROM facts WHERE fact_id = ?", (leaf,)).fetchone()
    assert {row[0] for row in views.execute("SELECT name FROM names")} == {"Bob"}
    assert views.execute("SELECT count(*) FROM topics WHERE title LIKE '%lamp%' AND summary LIKE '%brass%'").fetchone()[
        0
    ]


def test_a_person_greps_the_json_lines(source: Source, views: sqlite3.Connection, tmp_path: Path) -> None:
    """Given the lines, then each is one thing with its words, times and sources, the same as the views have."""
    lines = lines_of(exported(source, tmp_path / "bob.jsonl", "jsonl"))
    assert (lines[0]["memforest"]["owner"], lines[0]["memforest"]["created_at"][-1]) == ("bob", "Z")
    assert not {"vector"} & {line.get("table") for line in lines}
    (dog,) = [each for each in lines if each.get("table") == "fact" and "Rufus" in each["text"]]
    assert dog["sources"] == [{"session": "homes", "turns": ["turn@2"]}] and dog["pinned"] is True
    assert dog["mentioned_at"] == "2023-11-25T08:15:20Z" and dog["statement"]["entities"]
    for line in (each for each in lines if each.get("table") == "summary"):
        row = views.execute("SELECT * FROM summaries WHERE node_id = ?", (line["node_id"],)).fetchone()
        assert {name: line[name] for name in ("about", "parent", "previous", "next", "time_start")} == {
            name: row[name] for name in ("about", "parent", "previous", "next", "time_start")
        }
        assert line["children"] == json.loads(row["children"])


def test_what_was_erased_is_in_no_form(pipeline: Stack, tmp_path: Path) -> None:
    for name, turns in (("homes", HOMES), ("repeated", REPEATED)):
        pipeline.memory.ingest("bob", name, turns)
    pipeline.drive()
    pipeline.services.lifecycle.erasure.ask(pipeline.tenant, "bob", session="homes", actor="tester")
    pipeline.drive()
    for format in get_args(ExportFormat):
        path = exported(pipeline, tmp_path / format, format)
        assert b"Rufus" not in path.read_bytes() and b"red boat" in path.read_bytes()


def test_an_export_from_before_a_column_was_added_is_read(source: Source, pipeline: Stack, tmp_path: Path) -> None:
    path, bundle = (
        exported(source, tmp_path / "bob.jsonl", "jsonl", True),
        Path(shutil.copy(source.path, tmp_path / "b")),
    )
    dropped = {"session": "channel", "turn": "utc_offset"}
    with closing(sqlite3.connect(bundle, isolation_level=None)) as old:
        for table, column in dropped.items():
            old.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        reseal(old)
        head = {name: json.loads(value) for name, value in old.execute("SELECT name, value FROM meta")}
    lines = lines_of(path)
    lines[0]["memforest"]["sha256"] |= {table: head["sha256"][table] for table in dropped}
    for line in lines[1:]:
        line.pop(dropped.get(line["table"], ""), None)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert pipeline.services.lifecycle.bundles.import_(TenantId("old"), path, actor="tester")["phase"] == "done"


def _first(lines: Lines, table: str) -> dict[str, Any]:
    return next(each for each in lines if each.get("table") == table)


CHANGED: dict[str, Callable[[Lines], object]] = {
    "a changed word": lambda lines: _first(lines, "turn").update(content="I live in Rome."),
    "a line less": lambda lines: lines.pop(),
    "a line twice": lambda lines: lines.append(lines[-1]),
    "tables mixed": lambda lines: lines.insert(2, lines[-1]),
    "an unknown table": lambda lines: lines.append({"table": "sqlite_schema"}),
    "a table that is a list": lambda lines: lines.append({"table": ["turn"]}),
    "no table": lambda lines: lines.append({}),
    "a line that is no row": lambda lines: lines.append([1]),  # type: ignore[arg-type]
    "a value that is a list": lambda lines: _first(lines, "turn").update(content=["x"]),
    "a huge number": lambda lines: _first(lines, "turn").update(ordinal=10**30),
    "a time without a zone": lambda lines: _first(lines, "turn").update(occurred_at="2023-11-25T08:13:20"),
    "a time that is none": lambda lines: _first(lines, "turn").update(occurred_at=5),
    "bytes that are none": lambda lines: _first(lines, "summary").update(terms="?"),
    "half a surrogate": lambda lines: _first(lines, "turn").update(content="\ud800"),
    "a column less": lambda lines: _first(lines, "turn").pop("content"),
    "another format": lambda lines: lines[0]["memforest"].update(format=99),
    "a format that no number holds": lambda lines: lines[0]["memforest"].update(format=10**20),
    "a format that is none": lambda lines: lines[0]["memforest"].update(format="4; DROP TABLE turn"),
    "not complete": lambda lines: lines[0]["memforest"].pop("complete"),
    "no digests": lambda lines: lines[0]["memforest"].pop("sha256"),
    "a head that is a list": lambda lines: lines[0].update(memforest=[]),
    "an owner with a path": lambda lines: lines[0]["memforest"].update(owner="\x00../../etc"),
}


@pytest.mark.parametrize("change", CHANGED.values(), ids=CHANGED)
def test_json_lines_that_were_changed_are_refused(
    source: Source, judge: Stack, tmp_path: Path, change: Callable[[Lines], object]
) -> None:
    path = exported(source, tmp_path / "bob.jsonl", "jsonl")
    lines = lines_of(path)
    change(lines)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    refused(judge, path)


def test_a_full_disk_is_no_damaged_file(source: Source, tmp_path: Path) -> None:
    path = exported(source, tmp_path / "bob.jsonl", "jsonl")
    with closing(sqlite3.connect("")) as full, path.open("rb") as lines:
        full.execute("PRAGMA max_page_count = 9")
        with pytest.raises(InvalidInput, match="disk is full"):
            read_lines(lines, full)


def test_files_that_are_no_json_lines_are_refused(source: Source, judge: Stack, tmp_path: Path) -> None:
    whole = exported(source, tmp_path / "bob.jsonl", "jsonl").read_bytes()
    head = whole[: whole.index(b"\n") + 1]
    for content in (
        *(head, head[:40], whole[: len(whole) // 2], whole + b"\n", whole.replace(b"Davis", b"Dav\xffs")),
        head + b'{"table": "turn", "metadata": ' + b"[" * 100_000,
        head + b'{"table": "turn", "content": "' + b"x" * (17 << 20) + b'"}',
    ):
        path = tmp_path / "other"
        path.write_bytes(content)
        assert refused(judge, path).code in ("damaged_bundle", "incomplete_bundle")


HOSTILE = {
    "another view": "CREATE VIEW more AS SELECT 1",
    "a view that lies": "DROP VIEW facts; CREATE VIEW facts AS SELECT load_extension('x')",
    "a trigger": "CREATE TRIGGER t AFTER INSERT ON turn BEGIN DELETE FROM turn; END",
    "another index": "CREATE INDEX i ON turn (abs(ordinal))",
    "a view less": "DROP VIEW topics",
    "another table": "CREATE TABLE x (y)",
    "a changed word": "UPDATE turn SET content = 'I live in Rome.' WHERE n = 1",
}


@pytest.mark.parametrize("statements", HOSTILE.values(), ids=HOSTILE)
def test_sqlite_files_with_another_schema_are_refused(
    source: Source, judge: Stack, tmp_path: Path, statements: str
) -> None:
    path = exported(source, tmp_path / "bob.sqlite", "sqlite")
    with closing(sqlite3.connect(path)) as database:
        database.executescript(statements)
    refused(judge, path)


def test_no_column_has_two_meanings_and_formats_are_named(source: Source, tmp_path: Path) -> None:
    for table in TABLES:
        assert not {each.name for each in table.columns} & EXTRAS.get(table.name, {}).keys()
    with pytest.raises(InvalidInput, match="Set format to bundle, jsonl or sqlite"):
        exported(source, tmp_path / "x", "csv")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
