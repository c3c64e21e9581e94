"""Cold and hot topics: which points the vector index should have for them. The caller holds the forest's lock."""

# ruff: noqa: S608 - statements are made of constants of this module

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from memforest_core.domain.ids import TenantId, TreeId
from memforest_core.store import tables as m
from memforest_core.store.packs import of_topics, unpack
from memforest_core.store.rows import among
from memforest_core.store.trees import MEMBERS, NEXT_VERSION, lock_trees

_TOPIC = """SELECT 1 FROM memforest.node p JOIN memforest.tree r ON r.tenant_id = :t AND r.tree_id = p.tree_id
             WHERE p.tenant_id = :t AND p.payload_id = x.fact_id AND r.kind = 'scene' AND r.state = 'active'"""

_COLD = f"""(NOT x.pinned AND EXISTS ({_TOPIC} AND r.cold_at IS NOT NULL)
             AND NOT EXISTS ({_TOPIC} AND r.cold_at IS NULL))"""
"""That a fact ``x`` is needed by cold topics only. What is pinned stays."""

# A cell is cold when all its facts are; one without facts never is.
_WANTED = sa.text(f"""
    WITH mentioned AS MATERIALIZED (
        SELECT DISTINCT x.fact_id, x.key_time, {_COLD} AS cold
          FROM {MEMBERS} p JOIN memforest.fact x ON x.tenant_id = :t AND x.fact_id = p.payload_id
         WHERE p.tenant_id = :t AND p.tree_id = ANY(CAST(:trees AS uuid[]))),
    said AS MATERIALIZED (
        SELECT DISTINCT o.cell_id FROM mentioned JOIN memforest.occurrence o ON o.tenant_id = :t
               AND o.fact_id = mentioned.fact_id),
    wanted AS (
        SELECT fact_id AS id, key_time AS place, cold FROM mentioned
        UNION ALL
        SELECT s.cell_id, min(x.key_time), bool_and({_COLD})
          FROM said s JOIN memforest.occurrence o ON o.tenant_id = :t AND o.cell_id = s.cell_id
          JOIN memforest.fact x ON x.tenant_id = :t AND x.fact_id = o.fact_id
         GROUP BY s.cell_id)
    SELECT w.id, w.cold FROM wanted w JOIN memforest.index_row i ON i.tenant_id = :t AND i.point_id = w.id
     WHERE NOT i.deleted AND i.cold <> w.cold ORDER BY w.place, w.id
    """)

# Cold rows that no cold topic has any more: their topics were united with hot ones, or lost the facts.
_STRAY = sa.text(f"""
    SELECT i.point_id FROM memforest.index_row i
     WHERE i.tenant_id = :t AND i.forest_id = :f AND i.cold AND NOT i.deleted AND NOT CASE i.kind
           WHEN 'fact' THEN EXISTS (SELECT 1 FROM memforest.fact x
                                     WHERE x.tenant_id = :t AND x.fact_id = i.point_id AND {_COLD})
           ELSE coalesce((SELECT bool_and({_COLD}) FROM memforest.occurrence o
                            JOIN memforest.fact x ON x.tenant_id = :t AND x.fact_id = o.fact_id
                           WHERE o.tenant_id = :t AND o.cell_id = i.point_id), false) END
     ORDER BY i.point_id LIMIT :n
    """)

# A warm point is written again as if it were new, so that recall finds its words meanwhile; the earlier one first.
_TURN = sa.text(f"""
    UPDATE memforest.index_row i
       SET cold = u.cold, version = {NEXT_VERSION}, attempts = 0,
           indexed_version = CASE WHEN u.cold THEN i.indexed_version ELSE 0 END,
           state = CASE i.state WHEN 'running' THEN 'running' ELSE 'ready' END,
           available_at = statement_timestamp() + u.place * interval '1 microsecond'
      FROM unnest(CAST(:ids AS uuid[]), CAST(:colds AS boolean[])) WITH ORDINALITY AS u(id, cold, place)
     WHERE i.tenant_id = :t AND i.point_id = u.id AND NOT i.deleted
    """)


def set_temperature(connection: sa.Connection, tenant: TenantId, trees: Sequence[TreeId], *, cold: bool) -> int:
    """Make topics cold or hot, and what they need with them; how many points that changes.

    A fact's point leaves the index when all its topics are cold, a cell's when all its facts have left; warm ones are
    written again in the order of time. Repeating it changes nothing.
    """
    if not trees:
        return 0
    lock_trees(connection, tenant, trees)
    r = m.Tree
    mine = (r.tenant_id == tenant, among(r.tree_id, trees), r.cold_at.is_(None) if cold else r.cold_at.is_not(None))
    since = sa.func.clock_timestamp() if cold else None
    changed = connection.execute(sa.update(r).where(*mine).values(cold_at=since)).rowcount
    if changed and not cold:
        unpack(connection, tenant, of_topics(trees))
    return _turn(connection, tenant, connection.execute(_WANTED, {"t": tenant, "trees": list(trees)}).all())


def warm_strays(connection: sa.Connection, tenant: TenantId, forest: Any, limit: int) -> int:
    """Write the points again that are missing though no cold topic has them any more, at most ``limit``; how many."""
    found = connection.scalars(_STRAY, {"t": tenant, "f": forest, "n": limit}).all()
    return _turn(connection, tenant, [(point, False) for point in found])


def _turn(connection: sa.Connection, tenant: TenantId, points: Sequence[Any]) -> int:
    if not points:
        return 0
    ids, colds = [point[0] for point in points], [bool(point[1]) for point in points]
    row = m.IndexRow
    own = sa.select(row.point_id).where(row.tenant_id == tenant, among(row.point_id, ids))
    connection.execute(own.order_by(row.point_id).with_for_update())
    return connection.execute(_TURN, {"t": tenant, "ids": ids, "colds": colds}).rowcount
