"""A bundle as a SQLite file: its tables, its marks, and the digest of a row."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from itertools import chain
from typing import Any

from memforest_core.lifecycle.bundle.records import TABLES, BundleTable, Row
from memforest_core.store.copying import ValueKind

APPLICATION_ID = 0x4D464F52
""" "MFOR" in the file's header, by which ``file`` and we tell a bundle from other SQLite files."""

_SQL_TYPES = {
    ValueKind.INTEGER: "INTEGER",
    ValueKind.TRUTH: "INTEGER",
    ValueKind.MOMENT: "INTEGER",
    ValueKind.BYTES: "BLOB",
}


def create(table: BundleTable) -> str:
    """The statement that makes a table; ``n`` counts its rows from 1."""
    columns = ", ".join(
        f"{column.name} {_SQL_TYPES.get(column.kind, 'TEXT')}{'' if column.null else ' NOT NULL'}"
        for column in table.columns
    )
    return f"CREATE TABLE {table.name} (n INTEGER PRIMARY KEY, {columns}) STRICT"


CREATE_META = "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID"

SCHEMA = {"meta": CREATE_META} | {table.name: create(table) for table in TABLES}
"""Every table and the one statement that may have made it."""


def line(row: Sequence[object]) -> bytes:
    """The canonical form of a row: a JSON array, blobs in hex, a line feed."""
    return json.dumps(row, default=bytes.hex, separators=(",", ":")).encode() + b"\n"


class Digests:
    """SHA-256 over the canonical rows of each table."""

    def __init__(self) -> None:
        self._hashes: dict[str, Any] = {table.name: hashlib.sha256() for table in TABLES}

    def add(self, table: BundleTable, rows: Sequence[Row]) -> None:
        """Take the next rows of a table."""
        if rows:
            self._hashes[table.name].update(b"".join(map(line, rows)))

    def of(self, table: BundleTable) -> str:
        """The digest of the rows so far, in hex."""
        return str(self._hashes[table.name].hexdigest())


def digest_of(meta: dict[str, str]) -> str:
    """A digest of all that a bundle says of itself."""
    return hashlib.sha256(json.dumps(sorted(chain(meta.items()))).encode()).hexdigest()


def document(value: object) -> str:
    """A value of ``meta``."""
    return json.dumps(value, sort_keys=True, default=str)
