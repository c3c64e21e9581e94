"""A bundle's file: written under a temporary name and renamed when complete; read as one that may come from anybody."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import sqlite3
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pydantic import TypeAdapter

from memforest_core.errors import InvalidInput
from memforest_core.lifecycle.bundle.checking import damaged
from memforest_core.lifecycle.bundle.records import (
    APPLICATION_ID,
    CREATE_META,
    FORMAT,
    SCHEMA,
    TABLES,
    BundleHead,
    BundleTable,
    ExportFormat,
    ForestHead,
    Row,
    create,
    digest_of,
    document,
    line,
)
from memforest_core.lifecycle.bundle.rows.readable import BEGINNING, read_lines, readable, written_lines

PARTIAL = ".part"
"""Appended to the name of a bundle that is not whole yet; what a killed export leaves is written over by the next."""


class BundleWriter:
    """A bundle that is being written; it gets its name after ``finish``."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._db = database
        self._rows = {table.name: 0 for table in TABLES}
        self._seals = {table.name: hashlib.sha256() for table in TABLES}
        self.whole = False
        for pragma in (
            f"application_id = {APPLICATION_ID}",
            f"user_version = {FORMAT}",
            "journal_mode = OFF",
            "synchronous = OFF",
        ):
            database.execute(f"PRAGMA {pragma}")
        for statement in SCHEMA.values():
            database.execute(statement)

    def add(self, table: BundleTable, rows: Sequence[Row]) -> None:
        """Append rows to a table."""
        marks = ", ".join("?" * len(table.columns))
        names = ", ".join(column.name for column in table.columns)
        self._db.executemany(
            f"INSERT INTO {table.name} ({names}) VALUES ({marks})",  # noqa: S608 - constants of the format
            rows,
        )
        self._seals[table.name].update(b"".join(map(line, rows)))
        self._rows[table.name] += len(rows)

    def finish(
        self, forest: ForestHead, embedding: tuple[str, int], summary_models: Sequence[str], options: tuple[bool, bool]
    ) -> BundleHead:
        """Write what the bundle says of itself, make it durable, and give it its name.

        ``embedding`` is model and dimension, ``options`` whether vectors and summaries are in the bundle.
        """
        head = BundleHead(
            program=version("memforest"),
            created_at=time.time_ns() // 1000,
            forest=forest,
            embedding_model=embedding[0],
            dimension=embedding[1],
            summary_models=tuple(sorted(summary_models)),
            with_vectors=options[0],
            with_summaries=options[1],
            rows=self._rows,
            digests={name: seal.hexdigest() for name, seal in self._seals.items()},
        )
        for name, value in meta_of(head).items():
            self._db.execute("INSERT INTO meta VALUES (?, ?)", (name, value))
        self._db.commit()
        self._db.execute("INSERT INTO meta VALUES ('complete', '1')")
        self._db.commit()
        self.whole = True
        return head


def meta_of(head: BundleHead) -> dict[str, str]:
    """What a bundle says of itself, each value as JSON; ``complete`` comes last, separately."""
    values = asdict(head)
    values |= {**values.pop("forest"), "sha256": values.pop("digests")}
    return {name: document(value) for name, value in values.items()}


@contextmanager
def writing(path: Path, overwrite: bool, form: ExportFormat = "bundle") -> Iterator[BundleWriter]:
    """A new bundle at ``path``; nothing is there, or what was there stays, unless all went well."""
    if os.path.lexists(path) and not overwrite:
        raise InvalidInput(f"There is a file {path.name} already: choose another name.", code="file_exists")
    partial = path.with_name(path.name + PARTIAL)
    try:
        lock = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _strange(partial) from None
        raise InvalidInput(f"{path.name} can't be written: {error.strerror}.", code="file_not_writable") from None
    try:
        if not _plain(lock):
            raise _strange(partial)
        if not _mine(lock, partial):
            raise InvalidInput(f"Another export is writing {path.name}.", code="file_in_use")
        os.ftruncate(lock, 0)
        os.fchmod(lock, 0o600)
        yield from _written(partial, lock, path, form)
    finally:
        os.close(lock)


def _plain(file: int) -> bool:
    """Whether it is this user's file under one name: another user's file is never truncated through a link."""
    found = os.fstat(file)
    return stat.S_ISREG(found.st_mode) and found.st_nlink <= 1 and found.st_uid == os.geteuid()


def _strange(partial: Path) -> InvalidInput:
    return InvalidInput(
        f"{partial.name} is a link or somebody else's file: remove it, or choose another name.", code="file_exists"
    )


def _mine(lock: int, partial: Path) -> bool:
    """Whether this process alone may write; an export that has just ended has given the file its name."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.fstat(lock).st_ino == partial.stat().st_ino
    except OSError:
        return False


def _written(partial: Path, lock: int, path: Path, form: ExportFormat) -> Iterator[BundleWriter]:
    named = False
    try:
        # An empty name is SQLite's for a private database in a temporary file.
        with closing(sqlite3.connect("" if form == "jsonl" else partial)) as database:
            writer = BundleWriter(database)
            yield writer
            if writer.whole and form != "bundle":
                for statement in readable({table.name: table for table in TABLES}).values():
                    database.execute(statement)
            if writer.whole and form == "jsonl":
                with open(lock, "wb", closefd=False) as file:
                    file.writelines(written_lines(database))
        if writer.whole:
            os.fsync(lock)
            partial.replace(path)
            named = True
            _sync(path.parent)
    except (sqlite3.OperationalError, OSError) as error:
        raise InvalidInput(f"{path.name} can't be written: {error}.", code="file_not_writable") from None
    finally:
        if not named:
            partial.unlink(missing_ok=True)


def _sync(directory: Path) -> None:
    entry = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(entry)
    finally:
        os.close(entry)


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
    if head.startswith(BEGINNING):
        return
    if head[: len(MAGIC)] != MAGIC or head[68:72] != APPLICATION_ID.to_bytes(4, "big"):
        raise InvalidInput("This file is no bundle of MemForest.", code="not_a_bundle")


class BundleReader:
    """An existing, untrusted bundle: every method raises InvalidInput where the file is damaged."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._db = database
        with _faults():
            for pragma in _PRAGMAS:
                database.execute(f"PRAGMA {pragma}")
            self._columns = self._checked_columns()
            meta = self._meta()
        self.digest = digest_of(meta)
        self.head = _head(meta)

    def _checked_columns(self) -> dict[str, frozenset[str]]:
        """The columns that each table has: those of the format, but for such as may be NULL."""
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
        if size > 3 * len(SCHEMA):
            raise damaged("its tables are not those of the format")
        made = {
            (kind, name): str(sql) for kind, name, sql in self._db.execute("SELECT type, name, sql FROM sqlite_schema")
        }
        columns: dict[str, frozenset[str]] = {}
        found: dict[str, BundleTable] = {}
        for table in TABLES:
            if table.optional and ("table", table.name) not in made:
                columns[table.name] = frozenset()
                continue
            named = set(re.findall(r"(\w+) (?:TEXT|INTEGER|BLOB)", made.get(("table", table.name), "")))
            present = tuple(each for each in table.columns if each.name in named or not each.null)
            columns[table.name] = frozenset(each.name for each in present)
            found[table.name] = replace(table, columns=present)
            if made.pop(("table", table.name), "") != create(found[table.name]):
                raise damaged("its tables are not those of the format")
        meta = {("table", "meta"): CREATE_META}
        if made not in (meta, meta | readable(found)):
            raise damaged("its tables are not those of the format")
        return columns

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

    def sealed(self, table: BundleTable, page: int) -> Iterator[Sequence[Row]]:
        """All rows, ``page`` at a time; raises at their end unless their number and digest are those of the head."""
        seal, found = hashlib.sha256(), 0
        stored = [at for at, each in enumerate(table.columns) if each.name in self._columns[table.name]]
        for rows in self.rows(table, 0, page):
            seal.update(b"".join(line([row[at] for at in stored]) for row in rows))
            found += len(rows)
            yield rows
        if found != self.head.rows[table.name] or seal.hexdigest() != self.head.digests[table.name]:
            raise damaged(f"{table.name}: its checksum is another")

    def rows(self, table: BundleTable, after: int, page: int) -> Iterator[Sequence[Row]]:
        """The rows behind the first ``after`` ones, ``page`` at a time; types of values are not checked."""
        stored = self._columns[table.name]
        if not stored:
            return
        names = ", ".join(each.name if each.name in stored else "NULL" for each in table.columns)
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
        absent = [table.name for table in TABLES if table.optional and table.name not in values["rows"]]
        values["rows"] |= dict.fromkeys(absent, 0)
        digests = values["sha256"] | dict.fromkeys(absent, hashlib.sha256().hexdigest())
        head = _HEAD.validate_python({**values, "forest": values, "digests": digests})
    except (KeyError, TypeError, ValueError, RecursionError):
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
            database = sqlite3.connect("")
            if lines := magic.startswith(BEGINNING):
                file.seek(0)
                read_lines(file, database)
    except OSError as error:
        raise InvalidInput(f"{path.name} can't be read: {error.strerror}.", code="file_not_readable") from None
    if lines:
        with closing(database):
            yield BundleReader(database)
        return
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
