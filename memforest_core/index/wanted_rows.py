"""Rows that the index should have a point for: written beside what they belong to, read by the indexer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from memforest_core.domain.ids import ForestId, TenantId


def want_indexed(
    connection: sa.Connection,
    tenant: TenantId,
    forest: ForestId,
    kind: str,
    ids: Sequence[Any],
    lane: int = 0,
) -> None:
    """Mark points of one forest as behind: new ones, and changed ones under a higher version."""
    want_indexed_in(connection, tenant, dict.fromkeys(ids, forest), kind, lane)


def want_indexed_in(
    connection: sa.Connection, tenant: TenantId, forests: Mapping[Any, ForestId], kind: str, lane: int = 0
) -> None:
    """The same for points of several forests, in one statement: all writers lock index rows in the order of ids.

    A row that is being written keeps its lease, so that a point has one writer at a time; its writer then finds the row
    behind and gives it back.
    """
    if not forests:
        return
    connection.execute(
        sa.text("""
            INSERT INTO memforest.index_row AS i (tenant_id, point_id, forest_id, kind, lane)
            SELECT :t, u.id, u.forest, :k, :lane
              FROM unnest(CAST(:ids AS uuid[]), CAST(:forests AS uuid[])) AS u(id, forest) ORDER BY u.id
            ON CONFLICT (tenant_id, point_id) DO UPDATE
            SET version = greatest(i.version + 1, excluded.version), attempts = 0, deleted = false, cold = false,
                state = CASE i.state WHEN 'running' THEN 'running' ELSE 'ready' END,
                available_at = clock_timestamp()
            """),
        {"t": tenant, "k": kind, "ids": list(forests), "forests": list(forests.values()), "lane": lane},
    )
