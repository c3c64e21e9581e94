"""Webhooks: endpoints of tenants, and deliveries as work rows."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from memforest_core.store.functions import install

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

compatible = True
"""Workers of the version before write events, by the triggers, and deliver none."""

SCHEMA = "memforest"
SERVICE, LIMITED = "memforest_service", "memforest_limited"
ENDPOINT, DELIVERY = "webhook_endpoint", "webhook_delivery"
WITHOUT_STATISTICS = {
    ENDPOINT: ("url", "events", "description", "secret", "former_secret"),
    DELIVERY: ("event", "data", "error_text"),
}

NO_DELIVERIES = """(SELECT ''::text AS tenant_id, ''::text AS state, 0::smallint AS lane, now() AS available_at,
                     now() AS created_at, now() AS lease_until, NULL::uuid AS worker_id WHERE false) d"""
"""What the functions that look across tenants read in the version before."""


def upgrade() -> None:
    moment, now = sa.TIMESTAMP(timezone=True), sa.text("clock_timestamp()")
    op.create_table(
        ENDPOINT,
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("endpoint_id", sa.Uuid(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("events", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("description", sa.Text(), server_default="", nullable=False),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.Column("former_secret", sa.Text(), nullable=True),
        sa.Column("former_until", moment, nullable=True),
        sa.Column("enabled", sa.Boolean(), server_default="true", nullable=False),
        sa.Column("created_at", moment, server_default=now, nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "endpoint_id", name=op.f("pk_webhook_endpoint")),
        schema=SCHEMA,
    )
    op.create_table(
        DELIVERY,
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("delivery_id", sa.Uuid(), nullable=False),
        sa.Column("endpoint_id", sa.Uuid(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("data", postgresql.JSONB(), nullable=False),
        sa.Column("forest_id", sa.Uuid(), nullable=True),
        sa.Column("created_at", moment, server_default=now, nullable=False),
        sa.Column("finished_at", moment, nullable=True),
        sa.Column("status", sa.SmallInteger(), nullable=True),
        sa.Column("state", sa.Text(), server_default="ready", nullable=False),
        sa.Column("lane", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("attempts", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("lost_leases", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("available_at", moment, server_default=now, nullable=False),
        sa.Column("lease_token", sa.Uuid(), nullable=True),
        sa.Column("lease_until", moment, nullable=True),
        sa.Column("worker_id", sa.Uuid(), nullable=True),
        sa.Column("error_code", sa.Text(), nullable=True),
        sa.Column("error_text", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "state IN ('held', 'ready', 'running', 'done', 'dead')", name=op.f("ck_webhook_delivery_state")
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "endpoint_id"],
            [f"{SCHEMA}.{ENDPOINT}.tenant_id", f"{SCHEMA}.{ENDPOINT}.endpoint_id"],
            name=op.f("fk_webhook_delivery_webhook_endpoint"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("tenant_id", "delivery_id", name=op.f("pk_webhook_delivery")),
        schema=SCHEMA,
    )
    for name, columns, where in (
        ("due", ["tenant_id", "available_at"], "state IN ('held', 'ready')"),
        ("past", ["tenant_id", "available_at"], "state IN ('done', 'dead')"),
        ("lease", ["lease_until"], "state = 'running'"),
        ("newest", ["tenant_id", "created_at", "delivery_id"], None),
        ("endpoint", ["tenant_id", "endpoint_id", "created_at", "delivery_id"], None),
        ("forest", ["tenant_id", "forest_id"], "forest_id IS NOT NULL"),
    ):
        only = None if where is None else sa.text(where)
        op.create_index(f"ix_{DELIVERY}_{name}", DELIVERY, columns, schema=SCHEMA, postgresql_where=only)
    for table, wordy in WITHOUT_STATISTICS.items():
        for column in wordy:
            op.execute(f"ALTER TABLE {SCHEMA}.{table} ALTER COLUMN {column} SET STATISTICS 0")
        _tenant_table(table)
    install(op.get_bind())


def downgrade() -> None:
    for name in ("busy(text)", "waiting(text)", "lost(interval)", "backlog()"):
        found = op.get_bind().scalar(sa.text(f"SELECT pg_get_functiondef('{SCHEMA}.{name}'::regprocedure)"))
        op.get_bind().connection.cursor().execute(str(found).replace(f"{DELIVERY} d", NO_DELIVERIES))
    for table in ("cell", "node", "maintenance"):
        op.execute(f"DROP TRIGGER tell_webhooks ON {SCHEMA}.{table}")
    for name in ("tell_of_cell()", "tell_of_node()", "tell_of_operation()"):
        op.execute(f"DROP FUNCTION {SCHEMA}.{name}")
    op.execute(f"DROP FUNCTION {SCHEMA}.tell_webhooks(text, text, uuid, jsonb, boolean)")
    op.drop_table(DELIVERY, schema=SCHEMA)
    op.drop_table(ENDPOINT, schema=SCHEMA)


def _tenant_table(name: str) -> None:
    """Rights and row-level security, as all tables with a tenant's rows have them since 0007."""
    place, connection = f"{SCHEMA}.{name}", op.get_bind()
    owner = connection.scalar(
        sa.text("SELECT tableowner FROM pg_tables WHERE schemaname = :s AND tablename = :n"), {"s": SCHEMA, "n": name}
    )
    owner = connection.dialect.identifier_preparer.quote(str(owner))
    op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {place} TO {SERVICE}, {LIMITED}")
    if int(connection.scalar(sa.text("SELECT current_setting('server_version_num')")) or 0) >= 170_000:
        op.execute(f"GRANT MAINTAIN ON {place} TO {SERVICE}")
    op.execute(f"ALTER TABLE {place} ENABLE ROW LEVEL SECURITY")
    op.execute(f"ALTER TABLE {place} FORCE ROW LEVEL SECURITY")
    op.execute(
        f"CREATE POLICY tenant_isolation ON {place}"
        " USING (tenant_id = current_setting('memforest.tenant', true))"
        " WITH CHECK (tenant_id = current_setting('memforest.tenant', true))"
    )
    op.execute(
        f"CREATE POLICY across_tenants ON {place} TO {owner} USING (current_setting('memforest.across', true) = 'on')"
    )
    op.execute(
        f"CREATE POLICY granted_tenants ON {place} AS RESTRICTIVE TO {LIMITED}"
        " USING (tenant_id = ANY(CAST((SELECT memforest.granted_tenants()) AS text[])))"
    )
