"""Policies have an age for each kind and an order; sessions and turns are pinned; window items know when they came."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

compatible = False
"""A worker of the version before forgets what is pinned, and copies sessions and turns without their pins."""

SCHEMA = "memforest"
AGES = ("facts_max_age_s", "digests_max_age_s", "window_max_age_s")


def upgrade() -> None:
    for name in AGES:
        op.add_column("retention_policy", sa.Column(name, sa.BigInteger(), nullable=True), schema=SCHEMA)
    op.add_column(
        "retention_policy", sa.Column("first_out", sa.Text(), server_default="age", nullable=False), schema=SCHEMA
    )
    op.execute(f"ALTER TABLE {SCHEMA}.retention_policy ALTER COLUMN first_out SET STATISTICS 0")
    op.create_check_constraint(
        op.f("ck_retention_policy_first_out"), "retention_policy", "first_out IN ('age', 'visits')", schema=SCHEMA
    )
    for table in ("session", "turn"):
        op.add_column(table, sa.Column("pinned", sa.Boolean(), server_default="false", nullable=False), schema=SCHEMA)
    # Few are pinned: policies read these indexes whole.
    pinned_only = sa.text("pinned")
    op.create_index(
        "ix_session_pinned", "session", ["tenant_id", "forest_id"], schema=SCHEMA, postgresql_where=pinned_only
    )
    op.create_index(
        "ix_turn_pinned", "turn", ["tenant_id", "session_id", "ordinal"], schema=SCHEMA, postgresql_where=pinned_only
    )
    # What is there counts as put in now: nobody noted when. A default that does not vary rewrites no table.
    op.add_column(
        "window_item",
        sa.Column("put_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        schema=SCHEMA,
    )
    op.alter_column("window_item", "put_at", server_default=sa.text("clock_timestamp()"), schema=SCHEMA)


def downgrade() -> None:
    op.drop_column("window_item", "put_at", schema=SCHEMA)
    op.drop_index("ix_turn_pinned", "turn", schema=SCHEMA)
    op.drop_index("ix_session_pinned", "session", schema=SCHEMA)
    for table in ("turn", "session"):
        op.drop_column(table, "pinned", schema=SCHEMA)
    op.drop_constraint(op.f("ck_retention_policy_first_out"), "retention_policy", schema=SCHEMA)
    for name in ("first_out", *AGES):
        op.drop_column("retention_policy", name, schema=SCHEMA)
