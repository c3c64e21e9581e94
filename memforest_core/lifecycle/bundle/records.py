"""The tables, columns and head of a bundle, and its SQLite file: statements, marks, and the digest of a row.

A bundle is one forest in one file. Its tables carry the names of the concepts; its rows are plain values, the same
whatever database they came from. Its columns are those of the store, with the differences listed here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StrictBool, StrictInt, StrictStr

from memforest_core.domain.ids import ForestId
from memforest_core.store.copying import ValueKind, stored_columns

FORMAT = 4
"""The version of the format that this version writes and reads. A column that may be NULL needs no other one: where a
bundle does not have it, it is read as NULL."""

ExportFormat = Literal["bundle", "jsonl", "sqlite"]
"""A bundle; the same rows as JSON lines; a bundle with views for people and other programs."""
Value = str | int | bytes | None
Row = tuple[Value, ...]
"""The values of a row in the order of its table's columns."""


class IdKind(StrEnum):
    """What an id names; each kind is born in one table."""

    SESSION = "session"
    CELL = "cell"
    FACT = "fact"
    SCOPE = "scope"
    NODE = "node"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a bundle, and of the table that stores it."""

    name: str
    kind: ValueKind
    """Ids are in their canonical text form, truths 0 or 1, moments microseconds since 1970 UTC, documents and numbers
    JSON as text."""
    null: bool = False
    refs: tuple[IdKind, ...] = ()
    """The kinds of rows that its id may name."""
    one_of: tuple[str, ...] = ()
    vector: bool = False
    """Its bytes are little-endian float32, as many as the embedding model has dimensions."""
    stored: str = ""
    """What the store calls it; empty for one that it has no longer, which is read, and written as NULL."""


@dataclass(frozen=True, slots=True)
class BundleTable:
    """A table of a bundle; ``identity`` is what its first column names, if rows are named by it."""

    name: str
    stored: str
    """What the store calls it."""
    columns: tuple[Column, ...]
    identity: IdKind | None = None
    derived: tuple[str, ...] = ()
    """Hashes that are not in the file: they follow from the row and are added, in this order, when it is read."""
    optional: bool = False
    """Whether it may be missing, as in a bundle from before the table was added: it is read as empty."""

    def at(self, column: str) -> int:
        return next(place for place, each in enumerate(self.columns) if each.name == column)


_PAYLOAD = (IdKind.CELL, IdKind.FACT)
_REFS: Mapping[str, tuple[IdKind, ...]] = {
    "session_id": (IdKind.SESSION,),
    "cell_id": (IdKind.CELL,),
    "fact_id": (IdKind.FACT,),
    "superseded_by": (IdKind.FACT,),
    "tree_id": (IdKind.SCOPE,),
    "root_id": (IdKind.NODE,),
    "node_id": (IdKind.NODE,),
    "parent_id": (IdKind.NODE,),
    "leaf_id": (IdKind.NODE,),
    "payload_id": _PAYLOAD,
    "item_id": (*_PAYLOAD, IdKind.NODE, IdKind.SCOPE),
}
"""What ids name, by the columns they stand in."""
_ONE_OF = {
    "turn.role": ("user", "assistant", "system", "tool"),
    "cell.state": ("ready", "done", "dead"),
    "cell.outcome": ("ok", "empty", "repaired", "verbatim", "failed", "dead"),
    "scope.kind": ("session", "entity", "scene"),
    "scope.title_source": ("model", "terms", "degraded"),
    "scope.state": ("candidate", "active", "merged"),
    "summary.source": ("passed", "joined", "extractive", "model", "degraded"),
}
_VECTORS = frozenset({"scope.centroid", "summary.vector", "summary.pooled", "vector.vector"})
_LEFT_OUT = frozenset({"summary.vector", "summary.pooled"})
"""Vectors that a bundle may do without."""
_FLAGS = {"retry_at": "retry", "redo_at": "redo"}
"""When work is due is not in a bundle, but whether there is any."""

OF_PLACE = frozenset({"tenant_id", "forest_id", "lane", "attempts", "available_at", "trace"})
"""Columns of any table that say where and when a row is worked on: an import sets them."""


def _table(
    name: str,
    stored: str | None = None,
    identity: IdKind | None = None,
    derived: tuple[str, ...] = (),
    before: Mapping[str, str] = MappingProxyType({}),
    optional: bool = False,
    former: tuple[Column, ...] = (),
) -> BundleTable:
    """A table of the store with all columns that a copy has, but for those that are not exported and ``derived``."""
    stored = stored or name
    columns: list[Column] = []
    for each in stored_columns(stored):
        if each.name in OF_PLACE or each.name in derived or not each.exported:
            continue
        called = _FLAGS.get(each.name, each.name)
        refs = _REFS.get(called, ()) if columns or identity is None else ()
        kind = ValueKind.TRUTH if called != each.name else each.kind
        full = f"{name}.{called}"
        null = (each.null and called == each.name and full != "turn.content") or full in _LEFT_OUT
        columns.append(Column(called, kind, null, refs, _ONE_OF.get(full, ()), full in _VECTORS, each.name))
    for column, other in before.items():
        names = [each.name for each in columns]
        columns.insert(names.index(other), columns.pop(names.index(column)))
    return BundleTable(name, stored, (*columns, *former), identity, derived, optional)


SESSION = _table("session", identity=IdKind.SESSION)
SPEAKER = _table("speaker")
TURN = _table("turn")
CELL = _table("cell", identity=IdKind.CELL, derived=("text_hash",), before={"state": "placed"})
CANDIDATE = _table("candidate", derived=("text_hash", "routing_hash"))
FACT = _table("fact", identity=IdKind.FACT, derived=("text_hash",))
OCCURRENCE = _table("occurrence")
SCOPE = _table("scope", "tree", IdKind.SCOPE)
NODE = _table("node", identity=IdKind.NODE)
PLACEMENT = _table("placement", former=(Column("leaf_id", ValueKind.ID, null=True, refs=(IdKind.NODE,)),))
"""Of a tree only bundles of versions before have placements, with their leaves, which say the same."""
SUMMARY = _table("summary", "node_summary")
VECTOR = _table("vector")
VISIT = _table("visit")
TURN_TOPIC = _table("turn_topic", optional=True)

TABLES = (
    *(SESSION, SPEAKER, TURN, CELL, CANDIDATE, FACT, OCCURRENCE, SCOPE, NODE, PLACEMENT, SUMMARY, VECTOR, VISIT),
    TURN_TOPIC,
)
"""In the order in which they are written and read: what a row refers to by a foreign key comes before it."""

NAMED = {table.identity: table for table in TABLES if table.identity is not None}
"""Where the ids of each kind are born."""


def _without_nul(text: str) -> str:
    if "\x00" in text:
        raise ValueError("a text with a NUL")
    return text


Text = Annotated[StrictStr, AfterValidator(_without_nul)]
Whole = Annotated[StrictInt, Field(ge=0, lt=2**62)]


@dataclass(frozen=True, slots=True)
class ForestHead:
    """The forest itself, as it was when it was exported."""

    forest_id: ForestId
    owner: Text
    time_zone: Text
    scene_seq: Whole
    rules: dict[str, object]
    display_name: Text | None = None


@dataclass(frozen=True, slots=True)
class BundleHead:
    """What a bundle says about itself."""

    program: Text
    """The version of the program that wrote it."""
    created_at: Whole
    """Microseconds since 1970, UTC."""
    forest: ForestHead
    embedding_model: Text
    dimension: Whole
    summary_models: tuple[Text, ...]
    with_vectors: StrictBool
    with_summaries: StrictBool
    rows: dict[str, Whole]
    digests: dict[str, Text]
    """SHA-256 of each table, in hex."""
    format: Whole = FORMAT

    @property
    def total(self) -> int:
        return sum(self.rows.values())


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


def digest_of(meta: dict[str, str]) -> str:
    """A digest of all that a bundle says of itself."""
    return hashlib.sha256(json.dumps(sorted(chain(meta.items()))).encode()).hexdigest()


def document(value: object) -> str:
    """A value of ``meta``."""
    return json.dumps(value, sort_keys=True, default=str)
