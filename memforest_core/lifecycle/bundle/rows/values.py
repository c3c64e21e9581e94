"""Rows of a bundle out of the store as plain values, and into it as one array for each column."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Self

import sqlalchemy as sa

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.domain.times import from_micros
from memforest_core.lifecycle.bundle.records import (
    CELL,
    SUMMARY,
    TABLES,
    TURN,
    VECTOR,
    BundleTable,
    Column,
    ForestHead,
    Row,
)
from memforest_core.store import tables as m
from memforest_core.store.copying import ValueKind, of_forest, stored_table
from memforest_core.store.engine import tenant_transaction
from memforest_core.store.owners import find_forest, known
from memforest_core.store.packs import Texts, packed_of
from memforest_core.store.rows import TenantRows
from memforest_core.store.trees import micros
from memforest_core.store.vectors import from_bytes, to_bytes, to_half

FOREVER = datetime(9000, 1, 1, tzinfo=UTC)
"""When the work of a hidden forest may begin."""

# The rows of all other tables are in the order of their keys.
_ORDER: Mapping[str, Sequence[Any]] = {
    "cell": (m.Cell.session_id, m.Cell.ordinal),
    "fact": (m.FactRow.seq,),
    "node": (
        m.NodeRow.tree_id,
        m.NodeRow.level.desc(),
        m.NodeRow.key_time,
        m.NodeRow.key_ordinal,
        m.NodeRow.key_item,
        m.NodeRow.key_id,
    ),
}


# Vectors of texts that are gone wait for their deletion.
_OF_TEXTS = sa.text("""
    memforest.vector.text_hash IN (
        SELECT text_hash FROM memforest.fact WHERE tenant_id = :t AND forest_id = :f
        UNION ALL
        SELECT text_hash FROM memforest.cell WHERE tenant_id = :t AND forest_id = :f
        UNION ALL
        SELECT h FROM memforest.cell c
          JOIN memforest.candidate k ON k.tenant_id = :t AND k.cell_id = c.cell_id
         CROSS JOIN LATERAL (VALUES (k.text_hash), (k.routing_hash)) AS u(h)
         WHERE c.tenant_id = :t AND c.forest_id = :f)
    """)


def reading(table: BundleTable, tenant: TenantId, forest: ForestId, model: str | None) -> sa.Select[Any]:
    """All rows of a table of one forest as plain values, in the order of the format; ``model`` is that of the vectors,
    None to leave them out."""
    stored = stored_table(table.stored)
    columns = [
        sa.null()
        if table is SUMMARY and column.vector and model is None
        else _read(stored.c[column.stored], table, column)
        if column.stored
        else sa.null()
        for column in table.columns
    ]
    if table is TURN:
        columns += [packed_of(m.TurnRow)]
    order = _ORDER.get(table.name) or [each for each in stored.primary_key if each.name != "tenant_id"]
    statement = _of_forest(sa.select(*columns), table, tenant, forest).order_by(*order)
    if table is VECTOR:
        statement = statement.where(m.VectorRow.model == model, _OF_TEXTS.bindparams(t=tenant, f=forest))
    return statement


def _of_forest(statement: sa.Select[Any], table: BundleTable, tenant: TenantId, forest: ForestId) -> sa.Select[Any]:
    statement = statement.where(of_forest(table.stored, tenant, forest))
    if table is not SUMMARY:
        return statement
    # A summary that was made before something was erased beneath it may quote what is gone.
    whole = sa.exists().where(
        m.NodeRow.tenant_id == tenant,
        m.NodeRow.node_id == m.NodeSummary.node_id,
        m.NodeSummary.version > m.NodeRow.erased_version,
    )
    return statement.where(whole)


def _read(stored: sa.Column[Any], table: BundleTable, column: Column) -> sa.ColumnElement[Any]:
    if table is CELL and column.name == "state":
        # Work that was under way is waiting again: leases stay where they are.
        return sa.case((stored.in_(("held", "running")), "ready"), else_=stored)
    if column.name != column.stored:
        return sa.cast(stored.is_not(None), sa.Integer)
    if table is SUMMARY and column.name == "pooled":
        return sa.func.coalesce(stored, m.NodeSummary.vector)
    match column.kind:
        case ValueKind.MOMENT:
            return sa.literal_column(micros(f'memforest."{stored.table.name}"."{stored.name}"'), sa.BigInteger)
        case ValueKind.ID | ValueKind.DOCUMENT:
            return sa.cast(stored, sa.Text)
        case ValueKind.NUMBERS:
            return sa.cast(sa.func.to_jsonb(stored), sa.Text)
        case ValueKind.TRUTH:
            return sa.cast(stored, sa.Integer)
        case _:
            return stored


_OF_MODEL = {VECTOR: "model", SUMMARY: "vector_model"}
"""The column that has the name of the embedding model."""

_STORED: Mapping[ValueKind, Callable[[Any], Any]] = {
    ValueKind.TRUTH: bool,
    ValueKind.MOMENT: from_micros,
    ValueKind.DOCUMENT: json.loads,
    ValueKind.NUMBERS: json.loads,
}
"""How values are stored, where it is not as a bundle has them."""

_HALVES: Mapping[BundleTable, Sequence[str]] = {VECTOR: ("vector",), SUMMARY: ("vector", "pooled")}
"""Vectors that the store has in half precision, and bundles in full."""


def in_full(table: BundleTable, row: sa.Row[Any], texts: Texts) -> Row:
    """A row of the store with its vectors and its text as a bundle has them."""
    values: list[Any] = list(row)
    if table is TURN:
        place, packed = table.at("content"), values.pop()
        values[place] = texts(values[place], packed)
    for place in map(table.at, _HALVES.get(table, ())):
        value = values[place]
        values[place] = to_bytes(from_bytes(value)) if isinstance(value, bytes) else value
    return tuple(values)


def written(table: BundleTable, forest: ForestId, model: str, rows: Sequence[Row]) -> dict[str, list[Any]]:
    """The columns to store for these rows, whose derived hashes follow their columns.

    What works on the rows waits until the forest is shown.
    """
    stored = stored_table(table.stored)
    fixed: dict[str, Any] = {"forest_id": forest, "lane": 1}
    fixed |= {"available_at": FOREVER} if table is CELL else {}
    fixed |= {_OF_MODEL[table]: model} if table in _OF_MODEL else {}
    new: dict[str, list[Any]] = {name: [value] * len(rows) for name, value in fixed.items() if name in stored.c}
    given = map(list, zip(*rows, strict=True))
    new |= dict(zip([*(column.stored for column in table.columns), *table.derived], given, strict=True))
    new.pop("", None)
    for column in filter(lambda each: each.stored, table.columns):
        values = new[column.stored]
        if column.name != column.stored:
            new[column.stored] = [FOREVER if each else None for each in values]
        elif column.kind in _STORED:
            new[column.stored] = [None if each is None else _STORED[column.kind](each) for each in values]
    for name in _HALVES.get(table, ()):
        new[name] = [to_half(from_bytes(each)) for each in new[name]]
    if table is SUMMARY:
        # Where the mean vector of the leaves is the summary's own, the store has it once.
        both = zip(new["pooled"], new["vector"], strict=True)
        new["pooled"] = [None if pooled == vector else pooled for pooled, vector in both]
    return new


_MODELS = sa.text("""
    SELECT DISTINCT s.model FROM memforest.tree r
      JOIN memforest.node n ON n.tenant_id = :t AND n.tree_id = r.tree_id
      JOIN memforest.node_summary s ON s.tenant_id = :t AND s.node_id = n.node_id
     WHERE r.tenant_id = :t AND r.forest_id = :f
    """)


class ExportRows(TenantRows):
    """One forest as of one moment; rows are streamed."""

    def __init__(self, connection: sa.Connection, tenant: TenantId, forest: ForestId) -> None:
        super().__init__(connection, tenant)
        self._forest = forest
        self._values = {"t": tenant, "f": forest}

    @classmethod
    @contextmanager
    def of_owner(cls, engine: sa.Engine, tenant: TenantId, owner: str) -> Iterator[Self]:
        """An owner's forest in one read-only transaction. Raises NotFound."""
        options = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        with tenant_transaction(engine, tenant, **options) as connection:
            forest = known(find_forest(connection, tenant, owner), owner).id
            rows = cls(connection, tenant, forest)
            rows.unhurried()
            connection.execute(sa.text("SET LOCAL cursor_tuple_fraction = 1"))
            yield rows

    def head(self) -> ForestHead:
        f = m.Forest
        head = self._select(f.forest_id, f.owner, f.time_zone, f.scene_seq, f.rules, f.display_name)
        return ForestHead(*self._db.execute(head.where(f.forest_id == self._forest)).one())

    def counts(self, with_summaries: bool) -> Mapping[str, int]:
        """How many rows each table has, but for the vectors and, unless they are wanted, the summaries."""
        count, own = sa.select(sa.func.count()), (self._tenant, self._forest)
        counts = (
            _of_forest(count.select_from(stored_table(table.stored)), table, *own).scalar_subquery().label(table.name)
            for table in TABLES
            if table is not VECTOR and (with_summaries or table is not SUMMARY)
        )
        return self._db.execute(sa.select(*counts)).one()._asdict()

    def pages(self, table: BundleTable, page: int, model: str | None) -> Iterator[Sequence[Row]]:
        """Rows of a table, in the order of their keys, facts as they came; ``model`` as in ``reading``."""
        streaming = {"stream_results": True, "max_row_buffer": page}
        statement = reading(table, self._tenant, self._forest, model)
        with self._db.execute(statement, execution_options=streaming) as rows:
            for some in rows.partitions(page):
                texts = Texts()
                yield [in_full(table, row, texts) for row in some]

    def summary_models(self) -> Sequence[str]:
        return self._db.scalars(_MODELS, self._values).all()
