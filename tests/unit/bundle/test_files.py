"""Bundle files: written under a temporary name, read without trust."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from uuid import UUID

import pytest

from memforest_core.domain.ids import ForestId
from memforest_core.errors import InvalidInput
from memforest_core.lifecycle.bundle.bundle_file import reading, writing
from memforest_core.lifecycle.bundle.new_ids import id_table
from memforest_core.lifecycle.bundle.records import SPEAKER, TABLES, VECTOR, ForestHead, IdKind, line

HEAD = ForestHead(ForestId(UUID(int=7)), "bob", "UTC", 3, {"scene_assign": 0.7})
SPEAKERS = [("bob", "Bob", 1_700_000_000_000_000), ("eve", "Eve \N{SNOWMAN}", None), ("tom", 'T"om', None)]


def written(path: Path) -> None:
    with writing(path, False) as writer:
        writer.add(SPEAKER, SPEAKERS[:2])
        writer.add(SPEAKER, SPEAKERS[2:])
        writer.add(VECTOR, [(bytes(32), b"\x00\x00\x80?")])
        writer.finish(HEAD, ("model", 1), ["b", "a"], (True, False))


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "bob.memforest"
    written(path)
    assert [each.name for each in tmp_path.iterdir()] == ["bob.memforest"]
    with reading(path) as reader:
        assert (reader.head.forest, reader.head.embedding_model, reader.head.dimension) == (HEAD, "model", 1)
        assert (reader.head.summary_models, reader.head.with_vectors, reader.head.with_summaries) == (
            ("a", "b"),
            True,
            False,
        )
        assert reader.head.rows == {table.name: 0 for table in TABLES} | {"speaker": 3, "vector": 1}
        assert [list(page) for page in reader.rows(SPEAKER, 0, 2)] == [SPEAKERS[:2], SPEAKERS[2:]]
        assert [list(page) for page in reader.rows(SPEAKER, 1, 5)] == [SPEAKERS[1:]]
        assert [list(page) for page in reader.sealed(SPEAKER, 2)] == [SPEAKERS[:2], SPEAKERS[2:]]
        assert reader.head.digests["speaker"] == hashlib.sha256(b"".join(map(line, SPEAKERS))).hexdigest()


def test_nobody_writes_to_a_bundle_that_is_read(tmp_path: Path) -> None:
    path = tmp_path / "bob.memforest"
    written(path)
    before = path.read_bytes()
    with reading(path):
        assert {each.name for each in tmp_path.iterdir()} == {"bob.memforest"}
    assert path.read_bytes() == before


def test_an_unfinished_one_leaves_nothing(tmp_path: Path) -> None:
    with writing(tmp_path / "bob.memforest", False) as writer:
        writer.add(SPEAKER, SPEAKERS)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(KeyError), writing(tmp_path / "bob.memforest", False):
        raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_two_never_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "bob.memforest"
    with writing(path, False) as writer:
        with pytest.raises(InvalidInput, match="Another export"), writing(path, False):
            pass
        writer.finish(HEAD, ("model", 1), [], (True, True))
    with pytest.raises(InvalidInput, match="already"), writing(path, False):
        pass
    with writing(path, True) as writer:
        writer.finish(HEAD, ("other", 1), [], (True, True))
    with reading(path) as reader:
        assert reader.head.embedding_model == "other"


@pytest.mark.parametrize(
    "statement, code",
    [
        ("PRAGMA application_id = 1", "not_a_bundle"),
        ("PRAGMA user_version = 5", "unknown_format"),
        ("PRAGMA user_version = 3", "unknown_format"),
        ("DELETE FROM meta WHERE name = 'complete'", "incomplete_bundle"),
        ("UPDATE meta SET value = '-1' WHERE name = 'dimension'", "damaged_bundle"),
        ("UPDATE meta SET value = '\"7\"' WHERE name = 'forest_id'", "damaged_bundle"),
        ("UPDATE meta SET value = '[]' WHERE name = 'rows'", "damaged_bundle"),
        ("DROP TABLE visit", "damaged_bundle"),
        ("ALTER TABLE visit DROP COLUMN visits", "damaged_bundle"),
        ("CREATE TABLE x (y)", "damaged_bundle"),
        ("ALTER TABLE visit ADD COLUMN more TEXT", "damaged_bundle"),
        ("CREATE TRIGGER x AFTER DELETE ON turn BEGIN SELECT 1; END", "damaged_bundle"),
    ],
)
def test_what_is_no_bundle_is_not_opened(tmp_path: Path, statement: str, code: str) -> None:
    path = tmp_path / "bob.memforest"
    written(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(statement)
    with pytest.raises(InvalidInput) as refused, reading(path):
        pass
    assert refused.value.code == code


def test_a_column_that_may_be_null_may_be_missing(tmp_path: Path) -> None:
    path = tmp_path / "bob.memforest"
    written(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("ALTER TABLE speaker DROP COLUMN since")
    with reading(path) as reader:
        assert [row[2] for page in reader.rows(SPEAKER, 0, 9) for row in page] == [None] * 3
        with pytest.raises(InvalidInput, match="its checksum is another"):
            list(reader.sealed(SPEAKER, 9))


def test_ids_are_known_once() -> None:
    one, two, three = UUID(int=1), UUID(int=2), UUID(int=3)
    with id_table() as ids:
        assert ids.add(IdKind.FACT, [(one, two)])
        assert not ids.add(IdKind.CELL, [(one, three)])
        assert ids.find([one, three]) == {one: (IdKind.FACT, two)}
        ids.want([b"a", b"b", b"a"])
        assert (ids.drop([b"a", b"c"]), ids.wanted()) == (1, 1)
        ids.clear()
        assert ids.find([one]) == {}


@pytest.mark.parametrize("make", [Path.symlink_to, Path.hardlink_to])
def test_an_export_does_not_write_through_a_link(tmp_path: Path, make: Callable[[Path, Path], None]) -> None:
    precious = tmp_path / "precious"
    precious.write_text("words")
    precious.chmod(0o644)
    make(tmp_path / "bob.memforest.part", precious)
    (tmp_path / "eve.memforest").symlink_to(tmp_path / "nowhere")

    for path, code in (("bob", "file_exists"), ("eve", "file_exists"), ("no/bob", "file_not_writable")):
        with pytest.raises(InvalidInput) as refused:
            written(tmp_path / f"{path}.memforest")
        assert refused.value.code == code

    assert (precious.read_text(), precious.stat().st_mode & 0o777) == ("words", 0o644)
    assert not (tmp_path / "bob.memforest").exists()
    assert (tmp_path / "eve.memforest").is_symlink() and not (tmp_path / "nowhere").exists()
