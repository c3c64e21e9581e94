"""Visits in Postgres: one statement counts a batch, with everything above it in the trees."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from memforest_core.domain.ids import TenantId
from memforest_core.recall.records import Visited
from memforest_core.store.engine import tenant_transaction
from memforest_core.store.owners import VISIBLE
from memforest_core.store.repeating import repeated

# Rows are inserted, and so locked, in order of ids. A deletion of the forest waits for this, or this finds it going. A
# node is visited as often as what is below it; a fact in two trees is visited once, and so is all above it in each.
_ADD = sa.text("""
    WITH RECURSIVE alive AS (
        SELECT forest_id FROM memforest.forest
         WHERE tenant_id = :t AND forest_id = ANY(CAST(:forests AS uuid[])) AND state = ANY(CAST(:visible AS text[]))
         ORDER BY forest_id FOR KEY SHARE),
    seen AS (
        SELECT u.forest_id, u.item_id, u.visits, u.ago
          FROM unnest(CAST(:forests AS uuid[]), CAST(:items AS uuid[]), CAST(:visits AS bigint[]),
                      CAST(:agos AS double precision[])) AS u(forest_id, item_id, visits, ago)
          JOIN alive a ON a.forest_id = u.forest_id
         CROSS JOIN LATERAL (
           (SELECT 1 FROM memforest.fact x
             WHERE x.tenant_id = :t AND x.fact_id = u.item_id AND x.forest_id = u.forest_id)
            UNION ALL
           (SELECT 1 FROM memforest.cell x
             WHERE x.tenant_id = :t AND x.cell_id = u.item_id AND x.forest_id = u.forest_id)
            LIMIT 1) known),
    path AS (
        SELECT s.forest_id, n.parent_id AS item_id, s.visits, s.ago
          FROM seen s JOIN memforest.node n ON n.tenant_id = :t AND n.payload_id = s.item_id
         WHERE n.parent_id IS NOT NULL
        UNION ALL
        SELECT p.forest_id, n.parent_id, p.visits, p.ago FROM path p CROSS JOIN LATERAL (
               SELECT parent_id FROM memforest.node WHERE tenant_id = :t AND node_id = p.item_id LIMIT 1) n
         WHERE n.parent_id IS NOT NULL)
    INSERT INTO memforest.visit (tenant_id, item_id, forest_id, visits, last_visit_at)
    SELECT :t, item_id, forest_id, least(sum(visits), 2147483647),
           statement_timestamp() - make_interval(secs => min(ago))
      FROM (SELECT * FROM seen UNION ALL SELECT forest_id, item_id, visits, ago FROM path) counted
     GROUP BY forest_id, item_id ORDER BY item_id
        ON CONFLICT (tenant_id, item_id) DO UPDATE
       SET visits = least(CAST(visit.visits AS bigint) + excluded.visits, 2147483647),
           last_visit_at = greatest(visit.last_visit_at, excluded.last_visit_at), forest_id = excluded.forest_id
    """)


@repeated
def add_visits(engine: sa.Engine, tenant: TenantId, visited: Sequence[Visited]) -> None:
    """Count how often recall returned what, also for all tree nodes above it. Raises StoreUnavailable."""
    with tenant_transaction(engine, tenant) as connection:
        connection.execute(
            _ADD,
            {
                "t": tenant,
                "visible": list(VISIBLE),
                "forests": [each.forest for each in visited],
                "items": [each.item for each in visited],
                "visits": [each.visits for each in visited],
                "agos": [each.ago_s for each in visited],
            },
        )
