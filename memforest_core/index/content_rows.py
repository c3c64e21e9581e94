"""What the points of cells, facts and nodes are made of, read from the rows that they stand for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from memforest_core.domain.cells import turn_starts
from memforest_core.domain.ids import SessionId, TenantId, TreeId
from memforest_core.domain.indexed import cell_text, count_terms, fact_terms_text, unpack_counts
from memforest_core.index.vector_index import PointKind
from memforest_core.store import tables as m
from memforest_core.store.rows import among
from memforest_core.store.vectors import from_bytes

Content = dict[str, Any]
"""Fields of a ``StalePoint``, without those of its index row."""

_CELLS = sa.select(
    *(m.Cell.cell_id, m.Cell.session_id, m.Cell.text, m.Cell.time_start, m.Cell.time_end),
    sa.func.extract("epoch", sa.func.clock_timestamp() - m.Cell.created_at).label("age"),
    (m.Cell.last_turn - m.Cell.first_turn + 1).label("turns"),
)

_FACTS = sa.select(
    *(m.FactRow.fact_id, m.FactRow.text, m.FactRow.time_start, m.FactRow.time_end, m.FactRow.mentioned_at),
    m.FactRow.statement["speaker"].astext.label("speaker"),
)

_NODES = sa.text("""
    SELECT n.node_id, n.tree_id, n.level, n.parent_id, n.time_start, n.time_end, n.leaf_count, s.vector, s.terms,
           r.kind, r.session_id
      FROM memforest.node n
      JOIN memforest.node_summary s ON s.tenant_id = :t AND s.node_id = n.node_id
      JOIN memforest.tree r ON r.tenant_id = :t AND r.tree_id = n.tree_id
     WHERE n.tenant_id = :t AND n.node_id = ANY(CAST(:ids AS uuid[]))
    """)


def read_contents(
    connection: sa.Connection, tenant: TenantId, kind: PointKind, ids: Sequence[UUID]
) -> Iterator[tuple[UUID, Content]]:
    """The ids and contents of those rows of one kind that are there."""
    match kind:
        case PointKind.CELL:
            return _cells(connection.execute(_CELLS.where(m.Cell.tenant_id == tenant, among(m.Cell.cell_id, ids))))
        case PointKind.FACT:
            return _facts(
                connection.execute(_FACTS.where(m.FactRow.tenant_id == tenant, among(m.FactRow.fact_id, ids)))
            )
        case PointKind.NODE:
            return _nodes(connection.execute(_NODES, {"t": tenant, "ids": list(ids)}))


def _cells(rows: sa.Result[Any]) -> Iterator[tuple[UUID, Content]]:
    for row in rows:
        text = cell_text(row.text, row.time_start.astimezone(UTC))
        date = len(text) - len(row.text)
        content = {
            "text": text,
            "turns": tuple(date + start for start in turn_starts(row.text, row.turns)),
            "counts": count_terms(text),
            "place": {"session_id": SessionId(row.session_id)} | _times(row.time_start, row.time_end),
            "waited_s": float(row.age),
        }
        yield row.cell_id, content


def _facts(rows: sa.Result[Any]) -> Iterator[tuple[UUID, Content]]:
    for row in rows:
        mentioned = row.mentioned_at.astimezone(UTC)
        content = {
            "text": row.text,
            "counts": count_terms(fact_terms_text(row.text, row.speaker, mentioned)),
            "place": _times(row.time_start or mentioned, row.time_end or mentioned),
        }
        yield row.fact_id, content


def _nodes(rows: sa.Result[Any]) -> Iterator[tuple[UUID, Content]]:
    for row in rows:
        content = {
            "vector": from_bytes(row.vector),
            "counts": unpack_counts(row.terms),
            "leaves": row.leaf_count,
            "place": {
                "tree_id": TreeId(row.tree_id),
                "tree_kind": row.kind,
                "level": row.level,
                "is_root": row.parent_id is None,
                "session_id": SessionId(row.session_id) if row.session_id else None,
                "time_start": row.time_start / 1e6 if row.time_start is not None else None,
                "time_end": row.time_end / 1e6 if row.time_end is not None else None,
            },
        }
        yield row.node_id, content


def _times(start: datetime | None, end: datetime | None) -> dict[str, object]:
    """In seconds since 1970."""
    return {"time_start": start.timestamp() if start else None, "time_end": end.timestamp() if end else None}
