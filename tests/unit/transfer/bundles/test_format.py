"""The format of bundles is derived from the store's tables, and is the same for as long as its version is."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from uuid import UUID

import pytest

from memforest_core.domain.ids import ForestId
from memforest_core.store.copying import ValueKind
from memforest_core.transfer.bundles.reader import reading
from memforest_core.transfer.bundles.records import FORMAT, SESSION, TABLES, ForestHead, Row
from memforest_core.transfer.bundles.schema import Digests, document, schema_of
from memforest_core.transfer.bundles.writer import writing

FORMATS = {
    1: "8e0873dce5e85a4c34970e0200c92fa47b2429498613887d1fbf1f61bcfac5a8",
    2: "7f06d8b75f01c0c74c396f87a003bb3a815e9bc59fb66080fcab4707307dca73",
}


@pytest.mark.parametrize("version", FORMATS)
def test_a_format_is_what_it_was(version: int) -> None:
    """A new column of the store changes it: it needs a number, and files of the versions before stay readable."""
    found = hashlib.sha256(json.dumps(schema_of(version)).encode()).hexdigest()
    assert found == FORMATS[version]
    assert max(FORMATS) == FORMAT


def test_each_column_says_what_the_store_calls_it() -> None:
    renamed = {(t.name, c.name, c.stored) for t in TABLES for c in t.columns if c.name != c.stored}
    assert renamed == {("cell", "again", "again_at"), ("summary", "redo", "redo_at")}


def test_what_came_later_can_be_missing() -> None:
    assert {(t.name, c.name, c.null) for t in TABLES for c in t.columns if c.since > 1} == {
        ("session", "channel", True)
    }


def test_a_file_of_version_1_is_read_without_what_came_later(tmp_path: Path) -> None:
    """Given a file as version 1 wrote it, then its sessions have no channel and its checksum is that of its own rows."""
    path = tmp_path / "bob.memforest"
    numbers = (ValueKind.INTEGER, ValueKind.TRUTH, ValueKind.MOMENT)
    values = [at if column.kind in numbers else f"{at}" for at, column in enumerate(SESSION.columns)]
    whole: Row = tuple(None if column.null else value for value, column in zip(values, SESSION.columns, strict=True))
    with writing(path, False) as writer:
        writer.add(SESSION, [whole])
        writer.finish(ForestHead(ForestId(UUID(int=7)), "bob", "UTC", 3, {}), ("model", 1), [], (True, True))
    digests = Digests(1)
    digests.add(SESSION, [whole])
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        sums = json.loads(file.execute("SELECT value FROM meta WHERE name = 'sha256'").fetchone()[0])
        told = document(sums | {"session": digests.of(SESSION)})
        file.execute("UPDATE meta SET value = ? WHERE name = 'sha256'", (told,))
        file.execute("DROP TABLE session")
        file.execute(schema_of(1)["session"])
        names = ", ".join(column.name for column in SESSION.columns_in(1))
        older = [value for value, column in zip(whole, SESSION.columns, strict=True) if column.since == 1]
        file.execute(f"INSERT INTO session (n, {names}) VALUES (1{', ?' * len(older)})", older)
        file.execute("PRAGMA user_version = 1")

    with reading(path) as reader:
        [[read]] = reader.rows(SESSION, 0, 5)
        assert reader.format == 1
        assert read[SESSION.at("channel")] is None
        assert digests.of(SESSION) == reader.head.digests["session"]
        seen = Digests(reader.format)
        seen.add(SESSION, [read])
        assert seen.of(SESSION) == reader.head.digests["session"]
