"""Digests of an owner's days, weeks, months and years; cells are found by their time."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

compatible = False
"""A worker of the version before deletes turns and leaves the digests that tell of them."""

SCHEMA = "memforest"
SERVICE, LIMITED = "memforest_service", "memforest_limited"
TABLE = "calendar_digest"
WORDS = ("span", "texts", "sources")
"""Columns that hold words or names: no samples of them in the catalog."""


def upgrade() -> None:
    moment, now = sa.TIMESTAMP(timezone=True), sa.text("clock_timestamp()")
    op.create_table(
        TABLE,
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("forest_id", sa.Uuid(), nullable=False),
        sa.Column("span", sa.Text(), nullable=False),
        sa.Column("first_day", sa.Date(), nullable=False),
        sa.Column("start_at", moment, nullable=False),
        sa.Column("end_at", moment, nullable=False),
        sa.Column("texts", postgresql.JSONB(), nullable=False),
        sa.Column("sources", postgresql.JSONB(), nullable=False),
        sa.Column("turns", sa.Integer(), nullable=False),
        sa.Column("left_out", sa.Integer(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("input_hash", sa.LargeBinary(), nullable=False),
        sa.Column("version", sa.Uuid(), nullable=False),
        sa.Column("made_at", moment, server_default=now, nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "forest_id", "span", "first_day", name="pk_calendar_digest"),
        sa.CheckConstraint("span IN ('day', 'week', 'month', 'year', 'life')", name="ck_calendar_digest_span"),
        sa.ForeignKeyConstraint(
            ["tenant_id", "forest_id"],
            [f"{SCHEMA}.forest.tenant_id", f"{SCHEMA}.forest.forest_id"],
            name="fk_calendar_digest_forest",
            ondelete="CASCADE",
        ),
        schema=SCHEMA,
    )
    op.create_index("ix_cell_time", "cell", ["tenant_id", "forest_id", "time_end", "time_start"], schema=SCHEMA)
    _tenant_table(TABLE)
    for column in WORDS:
        op.execute(f"ALTER TABLE {SCHEMA}.{TABLE} ALTER COLUMN {column} SET STATISTICS 0")


def downgrade() -> None:
    op.drop_index("ix_cell_time", "cell", schema=SCHEMA)
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
