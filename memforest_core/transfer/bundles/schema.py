"""How a bundle looks as a SQLite file: its tables, its marks, and the digest of a row."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from itertools import chain
from typing import Any

from memforest_core.store.copying import ValueKind
from memforest_core.transfer.bundles.records import FORMAT, TABLES, BundleTable, Row

APPLICATION_ID = 0x4D464F52
""" "MFOR" in the file's header, by which ``file`` and we tell a bundle from other SQLite files."""

_SQL_TYPES = {
    ValueKind.INTEGER: "INTEGER",
    ValueKind.TRUTH: "INTEGER",
    ValueKind.MOMENT: "INTEGER",
    ValueKind.BYTES: "BLOB",
}


def create(table: BundleTable, format_: int = FORMAT) -> str:
    """The statement that makes a table in a version of the format; ``n`` counts its rows from 1."""
    columns = ", ".join(
        f"{column.name} {_SQL_TYPES.get(column.kind, 'TEXT')}{'' if column.null else ' NOT NULL'}"
        for column in table.columns_in(format_)
    )
    return f"CREATE TABLE {table.name} (n INTEGER PRIMARY KEY, {columns}) STRICT"


CREATE_META = "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID"


def schema_of(format_: int) -> dict[str, str]:
    """Every table of a version of the format and the one statement that may have made it."""
    return {"meta": CREATE_META} | {table.name: create(table, format_) for table in TABLES}


SCHEMA = schema_of(FORMAT)
"""That of the version which is written."""


def line(row: Sequence[object]) -> bytes:
    """The canonical form of a row: a JSON array, blobs in hex, a line feed."""
    return json.dumps(row, default=bytes.hex, separators=(",", ":")).encode() + b"\n"


class Digests:
    """SHA-256 over the canonical rows of each table, with the columns that a version of the format has."""

    def __init__(self, format_: int = FORMAT) -> None:
        self._format = format_
        self._hashes: dict[str, Any] = {table.name: hashlib.sha256() for table in TABLES}

    def add(self, table: BundleTable, rows: Sequence[Row]) -> None:
        """Take the next rows of a table."""
        had = [place for place, column in enumerate(table.columns) if column.since <= self._format]
        if len(had) < len(table.columns):
            rows = [tuple(row[place] for place in had) for row in rows]
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
