"""Reads a bundle that may come from anybody: nothing in it is executed, and all of it is checked before use."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pydantic import TypeAdapter

from memforest_core.errors import InvalidInput
from memforest_core.lifecycle.bundle.checking import damaged
from memforest_core.lifecycle.bundle.file_format import APPLICATION_ID, SCHEMA, digest_of
from memforest_core.lifecycle.bundle.records import FORMAT, TABLES, BundleHead, BundleTable, Row

MAGIC = b"SQLite format 3\x00"
HEAD_BYTES = 72
"""Of a file of SQLite, up to its application id."""
LARGEST_VALUE = 64 << 20
"""Bytes of one value or row, far above what an honest bundle has."""
MAX_META = 1 << 20

_HEAD = TypeAdapter(BundleHead)
_PRAGMAS = ("trusted_schema = OFF", "query_only = ON", "cell_size_check = ON", "mmap_size = 0")


def check_beginning(head: bytes) -> None:
    """Raise InvalidInput unless a file that begins so may be a bundle; the first ``HEAD_BYTES`` tell."""
    if head[: len(MAGIC)] != MAGIC or head[68:72] != APPLICATION_ID.to_bytes(4, "big"):
        raise InvalidInput("This file is no bundle of MemForest.", code="not_a_bundle")


class BundleReader:
    """An existing, untrusted bundle: every method raises InvalidInput where the file is damaged."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._db = database
        with _faults():
            for pragma in _PRAGMAS:
                database.execute(f"PRAGMA {pragma}")
            self._check_schema()
            meta = self._meta()
        self.digest = digest_of(meta)
        self.head = _head(meta)

    def _check_schema(self) -> None:
        if self._db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            raise InvalidInput("This SQLite file is no bundle of MemForest.", code="not_a_bundle")
        format_ = self._db.execute("PRAGMA user_version").fetchone()[0]
        if format_ != FORMAT:
            other = "an older" if format_ < FORMAT else "a newer"
            raise InvalidInput(
                f"This bundle has format {format_} of {other} version, this version reads format {FORMAT}: import it"
                " with the version that wrote it.",
                code="unknown_format",
            )
        size = self._db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
        if size > 2 * len(SCHEMA):
            raise damaged("its tables are not those of the format")
        found = self._db.execute("SELECT type, name, sql FROM sqlite_schema").fetchall()
        if {(kind, name, sql) for kind, name, sql in found} != {("table", *each) for each in SCHEMA.items()}:
            raise damaged("its tables are not those of the format")

    def _meta(self) -> dict[str, str]:
        size = self._db.execute("SELECT count(*), sum(length(value)) FROM meta").fetchone()
        if size[0] > 100 or (size[1] or 0) > MAX_META:
            raise damaged("meta")
        meta = {str(name): str(value) for name, value in self._db.execute("SELECT name, value FROM meta")}
        if meta.get("complete") != "1":
            raise InvalidInput(
                "This bundle is not complete: its export did not come to an end.", code="incomplete_bundle"
            )
        return meta

    def rows(self, table: BundleTable, after: int, page: int) -> Iterator[Sequence[Row]]:
        """The rows behind the first ``after`` ones, ``page`` at a time; types of values are not checked."""
        names = ", ".join(column.name for column in table.columns)
        with _faults():
            while True:
                found = self._db.execute(
                    f"SELECT n, {names} FROM {table.name} WHERE n > ? ORDER BY n LIMIT ?",  # noqa: S608 - constants
                    (after, page),
                ).fetchall()
                if not found:
                    return
                if found[-1][0] != after + len(found):
                    raise damaged(f"{table.name}: rows are missing")
                after += len(found)
                yield [row[1:] for row in found]


@contextmanager
def _faults() -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise damaged(type(error).__name__) from None


def _head(meta: dict[str, str]) -> BundleHead:
    """The description that a bundle has of itself, checked."""
    try:
        values: dict[str, Any] = {name: json.loads(value) for name, value in meta.items()}
        head = _HEAD.validate_python({**values, "forest": values, "digests": values["sha256"]})
    except (KeyError, ValueError, RecursionError):
        raise damaged("meta") from None
    if not head.rows.keys() == head.digests.keys() == {table.name for table in TABLES}:
        raise damaged("meta")
    return head


@contextmanager
def reading(path: Path) -> Iterator[BundleReader]:
    """The bundle at ``path``, never written to. Raises InvalidInput when it is no complete bundle of this format."""
    try:
        with path.open("rb") as file:
            magic = file.read(len(MAGIC))
    except OSError as error:
        raise InvalidInput(f"{path.name} can't be read: {error.strerror}.", code="file_not_readable") from None
    if magic != MAGIC:
        raise InvalidInput(f"{path.name} is no bundle of MemForest.", code="not_a_bundle")
    # Immutable: SQLite ignores a journal file with it.
    address = f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1"
    with _faults():
        database = sqlite3.connect(address, uri=True)
    with closing(database):
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_VALUE)
        database.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        yield BundleReader(database)
