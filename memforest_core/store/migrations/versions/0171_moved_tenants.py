"""Where a tenant went that was moved to another database."""

from __future__ import annotations

from alembic import op

revision = "0171"
down_revision = "0170"

compatible = False
"""The version before would write to a tenant that is being moved."""


def upgrade() -> None:
    # Read at the beginning of each transaction: a column of memforest.tenant would cost twice as much.
    op.execute(
        """
        CREATE TABLE memforest.moved_tenant (
            tenant text NOT NULL, place text, move_id uuid, brought_by uuid,
            CONSTRAINT pk_moved_tenant PRIMARY KEY (tenant));
        ALTER TABLE memforest.moved_tenant ALTER place SET STATISTICS 0;
        GRANT SELECT ON memforest.moved_tenant TO memforest_service, memforest_limited;
        ALTER TABLE memforest.moved_tenant ENABLE ROW LEVEL SECURITY;
        CREATE POLICY all_tenants ON memforest.moved_tenant USING (true);
        CREATE POLICY granted_tenants ON memforest.moved_tenant AS RESTRICTIVE TO memforest_limited
            USING (tenant = ANY(CAST((SELECT memforest.granted_tenants()) AS text[])))
        """
    )


def downgrade() -> None:
    op.execute("DROP FUNCTION IF EXISTS memforest.refuse_moved(text, uuid); DROP TABLE memforest.moved_tenant")
