"""Keys with which programs reach a tenant over HTTP."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from memforest_core.store.functions import install

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

compatible = True
"""Workers of the version before know nothing of keys and need not."""

SCHEMA = "memforest"
SERVICE, LIMITED = "memforest_service", "memforest_limited"
TABLE = "api_key"


def upgrade() -> None:
    moment = sa.TIMESTAMP(timezone=True)
    op.create_table(
        TABLE,
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("key_id", sa.Uuid(), nullable=False),
        sa.Column("secret_hash", sa.LargeBinary(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("owners", sa.Text(), nullable=True),
        sa.Column("requests_per_minute", sa.Integer(), nullable=True),
        sa.Column("created_at", moment, server_default=sa.text("clock_timestamp()"), nullable=False),
        sa.Column("revoked_at", moment, nullable=True),
        sa.Column("last_used_at", moment, nullable=True),
        sa.CheckConstraint("scope IN ('read', 'write', 'admin')", name=op.f("ck_api_key_scope")),
        sa.PrimaryKeyConstraint("tenant_id", "key_id", name=op.f("pk_api_key")),
        sa.UniqueConstraint("secret_hash", name=op.f("uq_api_key_secret_hash")),
        schema=SCHEMA,
    )
    for column in ("secret_hash", "name", "scope", "owners"):
        op.execute(f"ALTER TABLE {SCHEMA}.{TABLE} ALTER COLUMN {column} SET STATISTICS 0")
    _tenant_table(TABLE)
    install(op.get_bind())


def downgrade() -> None:
    op.execute("DROP FUNCTION IF EXISTS memforest.key_caller(bytea)")
    op.drop_table(TABLE, schema=SCHEMA)


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
