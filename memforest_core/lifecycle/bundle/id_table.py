"""Old ids and new ones in a temporary database on disk."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from uuid import UUID

from memforest_core.lifecycle.bundle.records import IdKind

_AT_ONCE = 500
"""Ids in one look-up: below what any SQLite takes as parameters."""

_KINDS = tuple(IdKind)


class IdTable:
    """Old ids and what they become, and hashes of texts, on disk: a forest may have more than fit into memory."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._db = database
        for statement in (
            "PRAGMA journal_mode = OFF",
            "PRAGMA synchronous = OFF",
            "CREATE TABLE ids (old BLOB PRIMARY KEY, new BLOB NOT NULL, kind INTEGER NOT NULL) WITHOUT ROWID",
            "CREATE UNIQUE INDEX ids_new ON ids (new)",
            "CREATE TABLE texts (text_hash BLOB PRIMARY KEY) WITHOUT ROWID",
        ):
            database.execute(statement)

    def add(self, kind: IdKind, pairs: Sequence[tuple[UUID, UUID]]) -> bool:
        """Add (old, new) pairs; False when an old id or a new one is there already."""
        place = _KINDS.index(kind)
        try:
            self._db.executemany(
                "INSERT INTO ids VALUES (?, ?, ?)", ((old.bytes, new.bytes, place) for old, new in pairs)
            )
        except sqlite3.IntegrityError:
            return False
        return True

    def find(self, ids: Iterable[UUID]) -> dict[UUID, tuple[IdKind, UUID]]:
        """Kind and new id of those that are known."""
        wanted = [id_.bytes for id_ in set(ids)]
        found: dict[UUID, tuple[IdKind, UUID]] = {}
        for at in range(0, len(wanted), _AT_ONCE):
            some = wanted[at : at + _AT_ONCE]
            marks = ", ".join("?" * len(some))
            for old, new, kind in self._db.execute(
                f"SELECT old, new, kind FROM ids WHERE old IN ({marks})",  # noqa: S608 - question marks
                some,
            ):
                found[UUID(bytes=old)] = (_KINDS[kind], UUID(bytes=new))
        return found

    def want(self, hashes: Iterable[bytes]) -> None:
        """Remember hashes of texts."""
        self._db.executemany("INSERT OR IGNORE INTO texts VALUES (?)", ((each,) for each in hashes))

    def drop(self, hashes: Sequence[bytes]) -> int:
        """Forget hashes of texts; how many of them were remembered."""
        return self._db.executemany("DELETE FROM texts WHERE text_hash = ?", ((each,) for each in hashes)).rowcount

    def wanted(self) -> int:
        """How many hashes are remembered."""
        return int(self._db.execute("SELECT count(*) FROM texts").fetchone()[0])

    def clear(self) -> None:
        """Forget all ids."""
        self._db.execute("DELETE FROM ids")


@contextmanager
def id_table() -> Iterator[IdTable]:
    """A temporary table of ids."""
    # An empty name is SQLite's for a private database in a temporary file.
    with closing(sqlite3.connect("")) as database:
        yield IdTable(database)
