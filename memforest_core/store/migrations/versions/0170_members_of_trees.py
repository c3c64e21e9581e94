"""Leaves say what is in a tree; placements are those of scopes without one. Nodes' order has a narrower index."""

from __future__ import annotations

from alembic import op

revision = "0170"
down_revision = "0165"

compatible = False
"""The version before would look for the placements of leaves."""


def upgrade() -> None:
    op.execute(
        """
        DELETE FROM memforest.placement p USING memforest.node n
         WHERE n.tenant_id = p.tenant_id AND n.node_id = p.leaf_id AND n.tree_id = p.tree_id
           AND n.payload_id = p.payload_id;
        ALTER TABLE memforest.placement DROP COLUMN leaf_id;
        DROP INDEX memforest.ix_node_order;
        CREATE INDEX ix_node_order ON memforest.node (tenant_id, tree_id, level, key_time, key_ordinal, key_item);
        """
    )


def downgrade() -> None:
    op.execute(
        """
        ALTER TABLE memforest.placement ADD COLUMN leaf_id uuid;
        INSERT INTO memforest.placement (tenant_id, tree_id, payload_id, session_id, leaf_id)
        SELECT n.tenant_id, n.tree_id, n.payload_id, coalesce(r.session_id, o.session_id), n.node_id
          FROM memforest.node n
          JOIN memforest.tree r ON r.tenant_id = n.tenant_id AND r.tree_id = n.tree_id
          LEFT JOIN LATERAL (SELECT session_id FROM memforest.occurrence
                              WHERE tenant_id = n.tenant_id AND fact_id = n.payload_id
                              ORDER BY session_id LIMIT 1) o ON true
         WHERE n.level = 0;
        DROP INDEX memforest.ix_node_order;
        CREATE INDEX ix_node_order
            ON memforest.node (tenant_id, tree_id, level, key_time, key_ordinal, key_item, key_id);
        """
    )
