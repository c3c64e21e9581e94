"""What a bundle holds, and what export and import need from its file and from the store.

A bundle is one forest in one file. Its tables carry the names of the concepts; its rows are plain values, the same
whatever database they came from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from memforest_core.domain.ids import ForestId

FORMAT = 1
"""The version of the format that this program writes and reads."""

Value = str | int | bytes | None
Row = tuple[Value, ...]
"""The values of a row in the order of its table's columns."""


class ColumnType(StrEnum):
    """What a column's values are."""

    ID = "id"
    """A UUID in its canonical text form."""
    TEXT = "text"
    INTEGER = "integer"
    TRUTH = "truth"
    """0 or 1."""
    MOMENT = "moment"
    """Microseconds since 1970, UTC."""
    DOCUMENT = "document"
    """A JSON object as text."""
    NUMBERS = "numbers"
    """A JSON list of whole numbers as text."""
    BYTES = "bytes"
    VECTOR = "vector"
    """Little-endian float32, as many as the embedding model has dimensions."""


class IdKind(StrEnum):
    """What an id names; each kind is born in one table."""

    SESSION = "session"
    CELL = "cell"
    FACT = "fact"
    SCOPE = "scope"
    NODE = "node"


@dataclass(frozen=True, slots=True)
class Column:
    """A column; ``refs`` are the kinds of rows that its id may name."""

    name: str
    type: ColumnType
    null: bool = False
    refs: tuple[IdKind, ...] = ()
    one_of: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BundleTable:
    """A table of a bundle; ``identity`` is what its first column names, if rows are named by it."""

    name: str
    columns: tuple[Column, ...]
    identity: IdKind | None = None
    derived: tuple[str, ...] = ()
    """Hashes that are not in the file: they follow from the row and are added, in this order, when it is read."""

    def at(self, column: str) -> int:
        """The position of a column."""
        return next(place for place, each in enumerate(self.columns) if each.name == column)


_I, _T, _N = ColumnType.ID, ColumnType.TEXT, ColumnType.INTEGER
_YES, _WHEN, _DOC = ColumnType.TRUTH, ColumnType.MOMENT, ColumnType.DOCUMENT
_LIST, _RAW, _VECTOR = ColumnType.NUMBERS, ColumnType.BYTES, ColumnType.VECTOR
_S, _C, _F = (IdKind.SESSION,), (IdKind.CELL,), (IdKind.FACT,)
_PAYLOAD, _ITEM = (IdKind.CELL, IdKind.FACT), (IdKind.CELL, IdKind.FACT, IdKind.NODE)


def _c(
    name: str,
    type_: ColumnType = _T,
    null: bool = False,
    refs: tuple[IdKind, ...] = (),
    one_of: tuple[str, ...] = (),
) -> Column:
    return Column(name, type_, null, refs, one_of)


SESSION = BundleTable(
    "session",
    (
        _c("session_id", _I),
        _c("external_id"),
        _c("time_zone"),
        _c("started_at", _WHEN),
        _c("turn_count", _N),
        _c("cell_count", _N),
        _c("metadata", _DOC),
        _c("created_at", _WHEN),
        _c("updated_at", _WHEN),
        _c("origin_owner", null=True),
    ),
    IdKind.SESSION,
)
SPEAKER = BundleTable("speaker", (_c("speaker_id"), _c("name")))
TURN = BundleTable(
    "turn",
    (
        _c("session_id", _I, refs=_S),
        _c("ordinal", _N),
        _c("external_id"),
        _c("role", one_of=("user", "assistant", "system", "tool")),
        _c("content"),
        _c("occurred_at", _WHEN),
        _c("dated", _YES),
        _c("speaker_id"),
        _c("name"),
        _c("metadata", _DOC),
        _c("erased", _YES),
    ),
)
CELL = BundleTable(
    "cell",
    (
        _c("cell_id", _I),
        _c("session_id", _I, refs=_S),
        _c("ordinal", _N),
        _c("window_ordinal", _N),
        _c("first_turn", _N),
        _c("last_turn", _N),
        _c("char_start", _N, null=True),
        _c("char_end", _N, null=True),
        _c("text"),
        _c("time_start", _WHEN),
        _c("time_end", _WHEN),
        _c("state", one_of=("ready", "done", "dead")),
        _c("placed", _YES),
        _c("outcome", null=True, one_of=("ok", "empty", "repaired", "verbatim", "failed", "dead")),
        _c("summary", null=True),
        _c("created_at", _WHEN),
        _c("extracted_at", _WHEN, null=True),
        _c("placed_at", _WHEN, null=True),
        _c("again", _YES),
        _c("agains", _N),
        _c("error_code", null=True),
        _c("error_text", null=True),
    ),
    IdKind.CELL,
    ("text_hash",),
)
CANDIDATE = BundleTable(
    "candidate",
    (
        _c("cell_id", _I, refs=_C),
        _c("item", _N),
        _c("turn_ordinals", _LIST),
        _c("quote"),
        _c("statement", _DOC),
    ),
    None,
    ("text_hash", "routing_hash"),
)
FACT = BundleTable(
    "fact",
    (
        _c("fact_id", _I),
        _c("text"),
        _c("normalized"),
        _c("time_start", _WHEN, null=True),
        _c("time_end", _WHEN, null=True),
        _c("mentioned_at", _WHEN),
        _c("subject_key"),
        _c("attribute"),
        _c("statement", _DOC),
        _c("key_time", _N),
        _c("key_ordinal", _N),
        _c("key_item", _N),
        _c("created_at", _WHEN),
        _c("pinned", _YES),
        _c("superseded_by", _I, null=True, refs=_F),
        _c("superseded_at", _WHEN, null=True),
    ),
    IdKind.FACT,
    ("text_hash",),
)
OCCURRENCE = BundleTable(
    "occurrence",
    (
        _c("cell_id", _I, refs=_C),
        _c("item", _N),
        _c("fact_id", _I, refs=_F),
        _c("session_id", _I, refs=_S),
        _c("turn_ordinals", _LIST),
    ),
)
SCOPE = BundleTable(
    "scope",
    (
        _c("tree_id", _I),
        _c("kind", one_of=("session", "entity", "scene")),
        _c("scope_key"),
        _c("label"),
        _c("state", one_of=("candidate", "active", "merged")),
        _c("k", _N),
        _c("root_id", _I, null=True, refs=(IdKind.NODE,)),
        _c("height", _N),
        _c("leaf_count", _N),
        _c("session_id", _I, null=True, refs=_S),
        _c("domain"),
        _c("centroid", _VECTOR, null=True),
        _c("time_start", _WHEN, null=True),
        _c("time_end", _WHEN, null=True),
        _c("created_at", _WHEN),
    ),
    IdKind.SCOPE,
)
NODE = BundleTable(
    "node",
    (
        _c("node_id", _I),
        _c("tree_id", _I, refs=(IdKind.SCOPE,)),
        _c("parent_id", _I, null=True, refs=(IdKind.NODE,)),
        _c("level", _N),
        _c("key_time", _N),
        _c("key_ordinal", _N),
        _c("key_item", _N),
        _c("key_id"),
        _c("time_start", _N, null=True),
        _c("time_end", _N, null=True),
        _c("leaf_count", _N),
        _c("version", _N),
        _c("clean_version", _N),
        _c("payload_id", _I, null=True, refs=_PAYLOAD),
        _c("dead", _YES),
        _c("error_code", null=True),
        _c("error_text", null=True),
    ),
    IdKind.NODE,
)
PLACEMENT = BundleTable(
    "placement",
    (
        _c("tree_id", _I, refs=(IdKind.SCOPE,)),
        _c("payload_id", _I, refs=_PAYLOAD),
        _c("session_id", _I, refs=_S),
        _c("leaf_id", _I, null=True, refs=(IdKind.NODE,)),
    ),
)
SUMMARY = BundleTable(
    "summary",
    (
        _c("node_id", _I, refs=(IdKind.NODE,)),
        _c("text"),
        _c("source", one_of=("passed", "joined", "extractive", "model", "degraded")),
        _c("model"),
        _c("input_hash", _RAW),
        _c("version", _N),
        _c("vector", _VECTOR, null=True),
        _c("pooled", _VECTOR, null=True),
        _c("terms", _RAW),
        _c("redo", _YES),
        _c("created_at", _WHEN),
    ),
)
VECTOR = BundleTable("vector", (_c("text_hash", _RAW), _c("vector", _VECTOR)))
VISIT = BundleTable("visit", (_c("item_id", _I, refs=_ITEM), _c("visits", _N), _c("last_visit_at", _WHEN)))

TABLES = (
    SESSION,
    SPEAKER,
    TURN,
    CELL,
    CANDIDATE,
    FACT,
    OCCURRENCE,
    SCOPE,
    NODE,
    PLACEMENT,
    SUMMARY,
    VECTOR,
    VISIT,
)
"""In the order in which they are written and read: what a row refers to by a foreign key comes before it."""

NAMED = {table.identity: table for table in TABLES if table.identity is not None}
"""Where the ids of each kind are born."""


@dataclass(frozen=True, slots=True)
class ForestHead:
    """The forest itself, as it was when it was exported."""

    forest_id: ForestId
    owner: str
    time_zone: str
    scene_seq: int
    rules: Mapping[str, object]
    display_name: str | None = None


@dataclass(frozen=True, slots=True)
class BundleHead:
    """What a bundle says about itself."""

    program: str
    """The version of the program that wrote it."""
    created_at: int
    """Microseconds since 1970, UTC."""
    forest: ForestHead
    embedding_model: str
    dimension: int
    summary_models: tuple[str, ...]
    with_vectors: bool
    with_summaries: bool
    rows: Mapping[str, int]
    digests: Mapping[str, str]
    """SHA-256 of each table, in hex."""
    format: int = FORMAT

    @property
    def total(self) -> int:
        """All rows."""
        return sum(self.rows.values())


class BundleDigests(Protocol):
    """SHA-256 of tables, row by row."""

    def add(self, table: BundleTable, rows: Sequence[Row]) -> None:
        """Take the next rows of a table."""
        ...

    def of(self, table: BundleTable) -> str:
        """The digest of the rows so far, in hex."""
        ...
