"""The tables of a bundle as statements: rows out as plain values, rows in as arrays of columns."""

# ruff: noqa: S608 - statements are made of constants of the format and of the schema

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from memforest_core.domain.times import from_micros
from memforest_core.store import tables as m
from memforest_core.store.trees import micros
from memforest_core.transfer.bundles.records import TABLES, BundleTable, ColumnType, Row, Value

FOREVER = "timestamptz '9000-01-01 00:00+00'"
"""When the work of a hidden forest may begin."""

_MODELS: dict[str, sa.Table] = {
    name: m.Base.metadata.tables[f"{m.SCHEMA}.{stored}"]
    for name, stored in {
        "session": "session",
        "speaker": "speaker",
        "turn": "turn",
        "cell": "cell",
        "candidate": "candidate",
        "fact": "fact",
        "occurrence": "occurrence",
        "scope": "tree",
        "node": "node",
        "placement": "placement",
        "summary": "node_summary",
        "vector": "vector",
        "visit": "visit",
    }.items()
}

# Work that was under way is waiting again: leases stay where they are.
_READ = {
    ("cell", "state"): "CASE WHEN x.state IN ('held', 'running') THEN 'ready' ELSE x.state END",
    ("cell", "again"): "CAST(x.again_at IS NOT NULL AS int)",
    ("summary", "redo"): "CAST(x.redo_at IS NOT NULL AS int)",
}
_VECTORS = {("summary", "vector"), ("summary", "pooled")}

_OF_FOREST = "x.tenant_id = :t AND x.forest_id = :f"
_OF_SESSIONS = """x.tenant_id = :t AND x.session_id IN (
    SELECT session_id FROM memforest.session WHERE tenant_id = :t AND forest_id = :f)"""
_OF_CELLS = """x.tenant_id = :t AND x.cell_id IN (
    SELECT cell_id FROM memforest.cell WHERE tenant_id = :t AND forest_id = :f)"""
_OF_TREES = """x.tenant_id = :t AND x.tree_id IN (
    SELECT tree_id FROM memforest.tree WHERE tenant_id = :t AND forest_id = :f)"""

# A summary that was made before something was erased beneath it may quote what is gone.
_WHERE = {
    "turn": _OF_SESSIONS,
    "candidate": _OF_CELLS,
    "occurrence": _OF_CELLS,
    "node": _OF_TREES,
    "placement": _OF_TREES,
    "summary": """x.tenant_id = :t AND EXISTS (
        SELECT 1 FROM memforest.node n JOIN memforest.tree r ON r.tenant_id = :t AND r.tree_id = n.tree_id
         WHERE n.tenant_id = :t AND n.node_id = x.node_id AND r.forest_id = :f AND x.version > n.erased_version)""",
}
_ORDER = {
    "session": "x.session_id",
    "speaker": "x.speaker_id, x.name",
    "turn": "x.session_id, x.ordinal",
    "cell": "x.session_id, x.ordinal",
    "candidate": "x.cell_id, x.item",
    "fact": "x.seq",
    "occurrence": "x.cell_id, x.item",
    "scope": "x.tree_id",
    "node": "x.tree_id, x.level DESC, x.key_time, x.key_ordinal, x.key_item, x.key_id",
    "placement": "x.tree_id, x.payload_id",
    "summary": "x.node_id",
    "visit": "x.item_id",
}


def _read(table: BundleTable, name: str, type_: ColumnType, with_vectors: bool) -> str:
    if (table.name, name) in _VECTORS and not with_vectors:
        return "CAST(NULL AS bytea)"
    special = _READ.get((table.name, name))
    if special is not None:
        return special
    match type_:
        case ColumnType.MOMENT:
            return micros(f"x.{name}")
        case ColumnType.ID | ColumnType.DOCUMENT:
            return f"CAST(x.{name} AS text)"
        case ColumnType.NUMBERS:
            return f"CAST(to_jsonb(x.{name}) AS text)"
        case ColumnType.TRUTH:
            return f"CAST(x.{name} AS int)"
        case _:
            return f"x.{name}"


def reading(table: BundleTable, with_vectors: bool) -> sa.TextClause:
    """All rows of a table of one forest (:t, :f) as plain values, in the order of the format."""
    columns = ", ".join(
        f"{_read(table, column.name, column.type, with_vectors)} AS {column.name}" for column in table.columns
    )
    return sa.text(
        f"SELECT {columns} FROM {_MODELS[table.name].fullname} x"
        f" WHERE {_WHERE.get(table.name, _OF_FOREST)} ORDER BY {_ORDER[table.name]}"
    )


def counting(table: BundleTable) -> str:
    """How many rows of a table one forest (:t, :f) has."""
    return f"SELECT count(*) FROM {_MODELS[table.name].fullname} x WHERE {_WHERE.get(table.name, _OF_FOREST)}"


# What the format calls otherwise, and what follows from the forest that the rows go into.
_WRITE = {
    ("cell", "again"): ("again_at", f"CASE WHEN u.again = 1 THEN {FOREVER} END"),
    ("summary", "redo"): ("redo_at", f"CASE WHEN u.redo = 1 THEN {FOREVER} END"),
}
_ADDED = {
    "session": {"forest_id": ":f", "lane": "1"},
    "speaker": {"forest_id": ":f"},
    "cell": {"forest_id": ":f", "lane": "1", "available_at": FOREVER},
    "fact": {"forest_id": ":f"},
    "scope": {"forest_id": ":f"},
    "summary": {"vector_model": ":m"},
    "vector": {"forest_id": ":f", "model": ":m"},
    "visit": {"forest_id": ":f"},
}
_NAMES = {
    "Uuid": "uuid",
    "Text": "text",
    "SmallInteger": "smallint",
    "Integer": "integer",
    "BigInteger": "bigint",
    "Boolean": "boolean",
    "TIMESTAMP": "timestamptz",
    "LargeBinary": "bytea",
    "JSONB": "jsonb",
    "ARRAY": "bigint[]",
}


def _stored_type(table: BundleTable, name: str) -> str:
    return _NAMES[type(_MODELS[table.name].c[name].type).__name__]


def _given_type(table: BundleTable, name: str, type_: ColumnType) -> str:
    match type_:
        case ColumnType.TEXT | ColumnType.DOCUMENT | ColumnType.NUMBERS:
            return "TEXT"
        case ColumnType.TRUTH:
            return "INTEGER"
        case _:
            return _stored_type(table, name)


def _written(table: BundleTable, name: str, type_: ColumnType) -> tuple[str, str]:
    """A stored column and the expression for it over the given arrays ``u``."""
    special = _WRITE.get((table.name, name))
    if special is not None:
        return special
    if type_ is ColumnType.NUMBERS:
        return name, f"CAST(translate(u.{name}, '[]', '{{}}') AS {_stored_type(table, name)})"
    if type_ is ColumnType.DOCUMENT or type_ is ColumnType.TRUTH:
        return name, f"CAST(u.{name} AS {_stored_type(table, name)})"
    return name, f"u.{name}"


def _writing(table: BundleTable) -> sa.TextClause:
    given = [(column.name, _given_type(table, column.name, column.type)) for column in table.columns]
    given += [(name, "BYTEA") for name in table.derived]
    pairs = [_written(table, column.name, column.type) for column in table.columns]
    pairs += [(name, f"u.{name}") for name in table.derived]
    pairs += list(_ADDED.get(table.name, {}).items())
    arrays = ", ".join(f"CAST(:{name} AS {type_}[])" for name, type_ in given)
    names = ", ".join(name for name, _ in given)
    again = " ON CONFLICT DO NOTHING" if table.name == "vector" else ""
    return sa.text(
        f"INSERT INTO {_MODELS[table.name].fullname} (tenant_id, {', '.join(name for name, _ in pairs)})"
        f" SELECT :t, {', '.join(value for _, value in pairs)} FROM unnest({arrays}) WITH ORDINALITY"
        f" AS u({names}, place) ORDER BY u.place{again}"
    )


WRITING = {table.name: _writing(table) for table in TABLES}
"""Inserts of rows given as one array for each column; takes :t, and :f and :m where the table needs them."""


def _id(value: Value) -> Value | UUID:
    return UUID(value) if isinstance(value, str) else value


def _moment(value: Value) -> Any:
    return from_micros(value) if isinstance(value, int) else None


_VALUES: dict[ColumnType, Callable[[Value], Any]] = {ColumnType.ID: _id, ColumnType.MOMENT: _moment}


def arrays(table: BundleTable, rows: Sequence[Row]) -> dict[str, list[Any]]:
    """The parameters of ``WRITING`` for these rows."""
    names = [column.name for column in table.columns] + list(table.derived)
    types = [column.type for column in table.columns] + [ColumnType.BYTES] * len(table.derived)
    given: dict[str, list[Any]] = {}
    for name, type_, values in zip(names, types, zip(*rows, strict=True), strict=True):
        change = _VALUES.get(type_)
        given[name] = [change(value) for value in values] if change is not None else list(values)
    return given
