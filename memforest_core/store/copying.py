"""Copies and deletes of a forest's rows, derived from the tables: a column is copied as it is unless a use changes it.

A copy is ``INSERT ... SELECT`` over a row called ``old`` and, for each copied row, values called ``given``. A use names
the columns that differ, as expressions over both; a new column of a table needs nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from operator import attrgetter
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, Insert, insert
from sqlalchemy.types import TypeEngine

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.store import tables as m
from memforest_core.store.rows import among

CONTENT = (
    "session", "speaker", "turn", "cell", "candidate", "fact", "occurrence", "tree", "node", "placement",
    "node_summary", "vector", "visit", "turn_topic",
)  # fmt: skip
"""The tables of what a forest remembers. Others hold work, caches, accounts and policies, which are never copied."""

RECORDS = ("audit", "llm_call", "maintenance", "maintenance_forest")
"""The tables that name a forest and outlive it, as ids and counts."""

_BLANKS = {str: "''", bytes: "''", object: "'{}'", list: "'{}'", int: "0"}
"""What a column of words that can't be NULL is once they are erased, by its type in Python (JSON's is ``object``)."""

_LITERAL = (sa.Uuid, sa.Integer, sa.Boolean)


class ValueKind(StrEnum):
    """What the values of a column are, whatever the database calls it."""

    ID = "id"
    TEXT = "text"
    INTEGER = "integer"
    TRUTH = "truth"
    MOMENT = "moment"
    DOCUMENT = "document"
    NUMBERS = "numbers"
    BYTES = "bytes"


_KINDS: tuple[tuple[type[TypeEngine[Any]], ValueKind], ...] = (
    (sa.Uuid, ValueKind.ID),
    (sa.Text, ValueKind.TEXT),
    (sa.Boolean, ValueKind.TRUTH),
    (sa.Integer, ValueKind.INTEGER),
    (sa.DateTime, ValueKind.MOMENT),
    (sa.JSON, ValueKind.DOCUMENT),
    (sa.ARRAY, ValueKind.NUMBERS),
    (sa.LargeBinary, ValueKind.BYTES),
)


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A column that a copy has."""

    name: str
    kind: ValueKind
    null: bool
    exported: bool


def stored_table(name: str) -> sa.Table:
    """A table by its name."""
    return m.Base.metadata.tables[f"{m.SCHEMA}.{name}"]


def stored_columns(name: str) -> tuple[StoredColumn, ...]:
    """The columns of a table that a copy has, in their order; for those who have nothing to do with SQL."""
    return tuple(
        StoredColumn(each.name, kind, bool(each.nullable), each.info.get("exported", True))
        for each in _copied(stored_table(name))
        for kind in [next(kind for type_, kind in _KINDS if isinstance(each.type, type_))]
    )


def _copied(table: sa.Table) -> list[sa.Column[Any]]:
    """The columns of a table that a copy has: all but leases and what the database computes itself."""
    return [c for c in table.c if c.computed is None and c.identity is None and c.info.get("copied", True)]


def blanks(name: str, *, but: Collection[str] = ()) -> dict[str, sa.ColumnClause[Any]]:
    """The columns of a table that hold words, and their values once these are erased; without the columns ``but``."""
    return {
        each.name: sa.literal_column(
            each.info.get("blank") or ("NULL" if each.nullable else _BLANKS[each.type.python_type])
        )
        for each in stored_table(name).c
        if each.info.get("personal") == m.WORDS["personal"] and each.name not in but
    }


def words_left(name: str, alias: str, *, but: Collection[str] = ()) -> dict[str, str]:
    """For each column of ``blanks``, as ``table.column``, the SQL condition that it still has words."""
    columns = blanks(name, but=but).items()
    return {f"{name}.{column}": f'{alias}."{column}" IS DISTINCT FROM {blank}' for column, blank in columns}


def old(name: str) -> sa.ColumnClause[Any]:
    """A column of the row that is copied."""
    return sa.literal_column(f'old."{name}"')


def given(name: str) -> sa.ColumnClause[Any]:
    """A value that the caller gives for each row."""
    return sa.literal_column(f'given."{name}"')


def literal(values: Iterable[object]) -> str:
    """An array of ids and numbers as Postgres writes it: ten times as fast as having the driver write each of them."""
    return "{" + ",".join(["NULL" if value is None else str(value) for value in values]) + "}"


def given_rows(
    types: Mapping[str, TypeEngine[Any]], columns: Mapping[str, Sequence[Any]] | None = None
) -> sa.TableValuedAlias:
    """Columns with their types as a table called ``given``; its column ``place`` numbers the rows.

    Without ``columns`` the values are parameters: see ``given_values``.
    """
    values = given_values(types, columns) if columns is not None else {}
    arrays = []
    for name, type_ in types.items():
        key, item = f"given_{name}", sa.Text() if isinstance(type_, sa.ARRAY) else type_
        sent = sa.Text() if isinstance(type_, _LITERAL) else ARRAY(item)
        value = sa.bindparam(key, values.get(key), type_=sent, required=columns is None)
        arrays.append(sa.cast(value, ARRAY(item)))
    return sa.func.unnest(*arrays).table_valued(*types, with_ordinality="place").render_derived(name="given")


def given_values(types: Mapping[str, TypeEngine[Any]], columns: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """The parameters of ``given_rows``: columns of equal length. A row's array of numbers goes as a text, because
    ``unnest`` flattens arrays of arrays."""
    return {f"given_{name}": _sent(type_, columns[name]) for name, type_ in types.items()}


def _sent(type_: TypeEngine[Any], values: Sequence[Any]) -> str | list[Any]:
    if isinstance(type_, _LITERAL):
        return literal(values)
    return list(map(literal, values)) if isinstance(type_, sa.ARRAY) else list(values)


def columns_of(records: Collection[object], *names: str) -> dict[str, list[Any]]:
    """The values that records have under these names, as columns."""
    return {name: list(map(attrgetter(name), records)) for name in names}


def in_columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Rows that have the same names, as columns."""
    return {name: [row[name] for row in rows] for name in rows[0]}


def copy_rows(
    name: str,
    tenant: TenantId,
    by: Mapping[str, Iterable[Any]],
    new: Mapping[str, Iterable[Any]],
    changed: Mapping[str, Any],
    *,
    left_out: Collection[str] = (),
    where: sa.ColumnElement[bool] | sa.TextClause | None = None,
    order_by: Sequence[sa.ColumnElement[Any]] = (),
) -> Insert:
    """The statement that copies rows of a table within a tenant.

    ``by``: columns and their values, by which each row is found; a whole key finds one row, a part of it finds many.
    ``new``: columns and the values that the copies have there, one for each value in ``by``; a name that is no column
    is a flag or number for expressions. ``changed``: columns and constants or expressions over ``old`` and ``given``.
    ``left_out``: columns that get their default. All other columns are copied as they are.
    """
    table = stored_table(name)
    found = sa.and_(table.c.tenant_id == tenant, *(table.c[column] == given(f"by {column}") for column in by))
    # What was just copied has no statistics yet: by LIMIT the planner can only look up each key.
    whole = {"tenant_id", *by} >= {each.name for each in table.primary_key}
    origin = sa.select(table).where(found).limit(1 if whole else None).lateral("old")
    columns = [each for each in _copied(table) if each.name not in left_out]
    values = {column: given(column) for column in new} | dict(changed)
    copied = sa.select(*(_value(each, values.get(each.name, old(each.name))) for each in columns))
    copied = copied.select_from(_given(table, by, new).join(origin, sa.true()))
    if where is not None:
        copied = copied.where(where)
    statement = insert(table).from_select([each.name for each in columns], copied.order_by(*order_by))
    return statement.execution_options(preserve_rowcount=True)


def copy_forest_rows(
    name: str, tenant: TenantId, source: ForestId, target: ForestId, where: sa.TextClause | None = None
) -> Insert:
    """The statement that copies a table's rows of a forest, in the order of their keys; rows that are there stay."""
    keys = [old(each.name) for each in stored_table(name).primary_key if each.name not in ("tenant_id", "forest_id")]
    by, changed = {"forest_id": [source]}, {"forest_id": target}
    return copy_rows(name, tenant, by, {}, changed, where=where, order_by=keys).on_conflict_do_nothing()


def change_rows(
    name: str, tenant: TenantId, by: Mapping[str, Iterable[Any]], new: Mapping[str, Iterable[Any]], /, **changed: Any
) -> sa.Update:
    """The statement that changes rows of a table; all as in ``copy_rows``."""
    table = stored_table(name)
    rows = _given(table, by, new)
    values: dict[str, Any] = {column: given(column) for column in new if column in table.c}
    values |= {column: _value(table.c[column], value) for column, value in changed.items()}
    found = [table.c[column] == rows.c[f"by {column}"] for column in by]
    return sa.update(table).where(table.c.tenant_id == tenant, *found).values(values)


@cache
def adding(name: str, new: tuple[str, ...]) -> Insert:
    """The statement that adds rows to a table, in their order, made once for these columns; others get their defaults.

    ``given_to`` makes its parameters.
    """
    types = _types(name, (), new)
    values = [sa.cast(given(each), of) if isinstance(of, sa.ARRAY) else given(each) for each, of in types.items()]
    rows = given_rows(types)
    selected = sa.select(sa.bindparam("tenant", type_=sa.Text()), *values).select_from(rows)
    return insert(stored_table(name)).from_select(["tenant_id", *new], selected.order_by(given("place")))


@cache
def changing(name: str, by: tuple[str, ...], new: tuple[str, ...]) -> sa.Update:
    """As ``change_rows``, made once for these columns; ``given_to`` makes its parameters."""
    table, rows = stored_table(name), given_rows(_types(name, by, new))
    found = [table.c[column] == rows.c[f"by {column}"] for column in by]
    own = sa.update(table).where(table.c.tenant_id == sa.bindparam("tenant", type_=sa.Text()), *found)
    return own.values({column: given(column) for column in new})


def given_to(
    name: str, tenant: TenantId, by: Mapping[str, Sequence[Any]], new: Mapping[str, Sequence[Any]]
) -> dict[str, Any]:
    """The parameters of ``adding`` and ``changing``."""
    columns = {f"by {column}": values for column, values in by.items()} | dict(new)
    return given_values(_types(name, tuple(by), tuple(new)), columns) | {"tenant": tenant}


@cache
def _types(name: str, by: tuple[str, ...], new: tuple[str, ...]) -> Mapping[str, TypeEngine[Any]]:
    table = stored_table(name)
    return {f"by {column}": table.c[column].type for column in by} | {column: table.c[column].type for column in new}


def delete_given(name: str, tenant: TenantId, by: Mapping[str, Iterable[Any]]) -> sa.Delete:
    """The statement that deletes rows of a table; ``by`` as in ``copy_rows``."""
    table, rows = stored_table(name), _given(stored_table(name), by, {})
    found = [table.c[column] == rows.c[f"by {column}"] for column in by]
    return sa.delete(table).where(table.c.tenant_id == tenant, *found)


def _given(table: sa.Table, by: Mapping[str, Iterable[Any]], new: Mapping[str, Iterable[Any]]) -> sa.TableValuedAlias:
    """The values that are given for each row."""
    columns = {f"by {column}": list(values) for column, values in by.items()}
    columns |= {column: list(values) for column, values in new.items()}
    types = {column: _type(table, column.removeprefix("by "), values) for column, values in columns.items()}
    return given_rows(types, columns)


def _type(table: sa.Table, name: str, values: Sequence[Any]) -> TypeEngine[Any]:
    if name in table.c:
        return table.c[name].type
    return sa.Boolean() if values and isinstance(values[0], bool) else sa.Integer()


def _value(column: sa.Column[Any], value: Any) -> sa.ColumnElement[Any]:
    return value if isinstance(value, sa.ColumnElement) else sa.literal(value, column.type)


def rows_below(
    name: str, tenant: TenantId, root: str, chosen: Sequence[Any] | sa.Select[Any]
) -> sa.ColumnElement[bool] | None:
    """That a row of a table belongs to one of the ``chosen`` ids of the root's table; None when none of them can.

    The way is the forest's id where the root is the forest, else the foreign keys with the fewest columns.
    """
    table, key = stored_table(name), [each.name for each in stored_table(root).primary_key][-1]
    if name == root or (root == "forest" and key in table.c):
        return _one_of(table.c[key], chosen)
    for reference in sorted(table.foreign_key_constraints, key=lambda each: len(each.columns)):
        parent = reference.referred_table
        columns, keys = zip(
            *((each.parent, each.column) for each in reference.elements if each.column.name != "tenant_id"), strict=True
        )
        if parent.name == root:
            return _one_of(columns[0], chosen)
        above = rows_below(parent.name, tenant, root, chosen) if parent.name in CONTENT else None
        if above is not None:
            own = columns[0] if len(columns) == 1 else sa.tuple_(*columns)
            return own.in_(sa.select(*keys).where(parent.c.tenant_id == tenant, above))
    return None


def _one_of(column: sa.Column[Any], chosen: Sequence[Any] | sa.Select[Any]) -> sa.ColumnElement[bool]:
    """That a column has one of the ``chosen`` ids; a list of them is one parameter."""
    return column.in_(chosen) if isinstance(chosen, sa.Select) or len(chosen) < 2 else among(column, chosen)


def of_forest(name: str, tenant: TenantId, forest: ForestId) -> sa.ColumnElement[bool]:
    """That a row of a table belongs to a forest."""
    below = rows_below(name, tenant, "forest", [forest])
    return sa.and_(stored_table(name).c.tenant_id == tenant, sa.false() if below is None else below)


def delete_rows(
    connection: sa.Connection, tenant: TenantId, root: str, chosen: Sequence[Any] | sa.Select[Any]
) -> dict[str, int]:
    """Delete rows of a table by their ids, and before them all content that depends on them, children first.

    Returns how many rows of each table.
    """
    deleted: dict[str, int] = {}
    for table in reversed(m.Base.metadata.sorted_tables):
        belongs = rows_below(table.name, tenant, root, chosen) if table.name in (*CONTENT, root) else None
        if belongs is not None:
            own = sa.delete(table).where(table.c.tenant_id == tenant, belongs)
            deleted[table.name] = connection.execute(own).rowcount
    return deleted


def lock_some(name: str, tenant: TenantId, forest: ForestId, limit: int) -> sa.Select[Any]:
    """The statement that locks at most ``limit`` rows of a table of a forest, in the order of the ids it returns."""
    table = stored_table(name)
    id_ = list(table.primary_key)[-1]
    some = sa.select(id_).where(of_forest(name, tenant, forest)).limit(limit)
    chosen = id_ == sa.any_(sa.func.array(some.correlate(None).scalar_subquery()))
    return sa.select(id_).where(table.c.tenant_id == tenant, chosen).order_by(id_).with_for_update()


def delete_some(name: str, tenant: TenantId, forest: ForestId, limit: int) -> sa.Delete:
    """The statement that deletes at most ``limit`` rows of a table of a forest, locked in the order of their keys."""
    table = stored_table(name)
    place: sa.ColumnClause[Any] = sa.literal_column("ctid")
    some = sa.select(place).select_from(table).where(of_forest(name, tenant, forest)).order_by(*table.primary_key)
    some = some.limit(limit).with_for_update().correlate(None)
    return sa.delete(table).where(place == sa.any_(sa.func.array(some.scalar_subquery())))
