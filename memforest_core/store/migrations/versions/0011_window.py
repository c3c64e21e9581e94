"""Windows of sessions: the summary of a session's first turns, what recall found, and which session runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

compatible = False
"""A worker of the version before deletes turns and leaves the summaries of windows that tell of them."""

SCHEMA = "memforest"
SERVICE, LIMITED = "memforest_service", "memforest_limited"
TABLES = ("running_session", "session_window", "window_item")
WORDS = (("running_session", "external_id"), ("session_window", "text"))
"""Columns that hold words or names: no samples of them in the catalog."""


def upgrade() -> None:
    moment, now = sa.TIMESTAMP(timezone=True), sa.text("clock_timestamp()")
    op.create_table(
        "running_session",
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("forest_id", sa.Uuid(), nullable=False),
        sa.Column("external_id", sa.Text(), nullable=False),
        sa.Column("started_at", moment, server_default=now, nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "forest_id", name="pk_running_session"),
        _reference("running_session", "forest", "forest_id"),
        schema=SCHEMA,
    )
    op.create_table(
        "session_window",
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Uuid(), nullable=False),
        sa.Column("forest_id", sa.Uuid(), nullable=False),
        sa.Column("turns", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("input_hash", sa.LargeBinary(), nullable=False),
        sa.Column("version", sa.Uuid(), nullable=False),
        sa.Column("updated_at", moment, server_default=now, nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "session_id", name="pk_session_window"),
        _reference("session_window", "session", "session_id"),
        schema=SCHEMA,
    )
    op.create_index("ix_session_window_forest", "session_window", ["tenant_id", "forest_id"], schema=SCHEMA)
    op.create_table(
        "window_item",
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Uuid(), nullable=False),
        sa.Column("item_id", sa.Uuid(), nullable=False),
        sa.Column("forest_id", sa.Uuid(), nullable=False),
        sa.Column("place", sa.BigInteger(), nullable=False),
        sa.Column("fact_id", sa.Uuid()),
        sa.Column("said_in", sa.Uuid()),
        sa.Column("ordinal", sa.Integer()),
        sa.PrimaryKeyConstraint("tenant_id", "session_id", "item_id", name="pk_window_item"),
        sa.CheckConstraint(
            "(fact_id IS NULL) <> (said_in IS NULL) AND (said_in IS NULL) = (ordinal IS NULL)",
            name="ck_window_item_one",
        ),
        _reference("window_item", "session", "session_id"),
        _reference("window_item", "fact", "fact_id"),
        schema=SCHEMA,
    )
    op.create_index("ix_window_item_forest", "window_item", ["tenant_id", "forest_id"], schema=SCHEMA)
    for index, columns in (("fact", ["fact_id"]), ("turn", ["said_in", "ordinal"])):
        op.create_index(
            f"ix_window_item_{index}",
            "window_item",
            ["tenant_id", *columns],
            schema=SCHEMA,
            postgresql_where=sa.text(f"{columns[0]} IS NOT NULL"),
        )
    for table in TABLES:
        _tenant_table(table)
    for table, column in WORDS:
        op.execute(f"ALTER TABLE {SCHEMA}.{table} ALTER COLUMN {column} SET STATISTICS 0")


def downgrade() -> None:
    for table in reversed(TABLES):
        op.drop_table(table, schema=SCHEMA)


def _reference(table: str, parent: str, column: str) -> sa.ForeignKeyConstraint:
    """The reference to a row of the same tenant, with which the row goes."""
    return sa.ForeignKeyConstraint(
        ["tenant_id", column],
        [f"{SCHEMA}.{parent}.tenant_id", f"{SCHEMA}.{parent}.{column}"],
        name=f"fk_{table}_{parent}",
        ondelete="CASCADE",
    )


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
