"""Rows that the index should have a point for: written with what they belong to, read by the indexer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.index.records import LEASE_S, PointLease
from memforest_core.index.rows import UNSURE

_WANT = """
    INSERT INTO memforest.index_row AS i (tenant_id, point_id, forest_id, kind, lane{columns})
    SELECT :t, u.id, u.forest, :k, :lane{values}
      FROM unnest(CAST(:ids AS uuid[]), CAST(:forests AS uuid[])) AS u(id, forest){given} ORDER BY u.id
    ON CONFLICT (tenant_id, point_id) DO UPDATE
    SET version = greatest(i.version + 1, excluded.version), attempts = 0, deleted = false, cold = false,
        state = CASE i.state WHEN 'running' THEN 'running' ELSE 'ready' END,
        available_at = clock_timestamp()
    """

_WANTED = sa.text(_WANT.format(columns="", values="", given=""))

# A row that was there already is claimed in the usual way.
_LEASED = sa.text(
    _WANT.format(
        columns=", state, attempts, lease_token, worker_id, lease_until",
        values=""", CASE WHEN s.unsure THEN 'ready' ELSE 'running' END, CASE WHEN s.unsure THEN 0 ELSE 1 END,
           CASE WHEN NOT s.unsure THEN CAST(:token AS uuid) END, CASE WHEN NOT s.unsure THEN CAST(:worker AS uuid) END,
           CASE WHEN NOT s.unsure THEN clock_timestamp() + make_interval(secs => :lease) END""",
        given=f" CROSS JOIN (SELECT {UNSURE} AS unsure) s",
    )
    + " RETURNING i.point_id, i.lease_token"
)


def want_indexed(
    connection: sa.Connection,
    tenant: TenantId,
    forest: ForestId,
    kind: str,
    ids: Sequence[Any],
    lane: int = 0,
    lease: PointLease | None = None,
) -> None:
    """Mark points of one forest as behind: new ones, and changed ones under a higher version."""
    want_indexed_in(connection, tenant, dict.fromkeys(ids, forest), kind, lane, lease)


def want_indexed_in(
    connection: sa.Connection,
    tenant: TenantId,
    forests: Mapping[Any, ForestId],
    kind: str,
    lane: int = 0,
    lease: PointLease | None = None,
) -> None:
    """The same for points of several forests, in one statement: all writers lock index rows in the order of ids.

    A row that is being written stays leased, so that a point has one writer at a time; its writer then finds the row
    behind and gives it back. With a ``lease``, rows that are new are made under it, and added to it.
    """
    if not forests:
        return
    values = {"t": tenant, "k": kind, "ids": list(forests), "forests": list(forests.values()), "lane": lane}
    if lease is None:
        connection.execute(_WANTED, values)
        return
    own = {"token": lease.token, "worker": lease.worker, "lease": LEASE_S}
    made = connection.execute(_LEASED, values | own)
    lease.points.update(row.point_id for row in made if row.lease_token == lease.token)
