"""Sessions have a channel, by which recall can be bounded: a column of the session, with an index."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0011"
branch_labels = None
depends_on = None

compatible = False
"""A worker of the version before copies sessions without their channels."""

SCHEMA = "memforest"


def upgrade() -> None:
    op.add_column("session", sa.Column("channel", sa.Text(), nullable=True), schema=SCHEMA)
    # It is a name: no samples of it in the catalog.
    op.execute(f"ALTER TABLE {SCHEMA}.session ALTER COLUMN channel SET STATISTICS 0")
    op.create_index(
        "ix_session_channel",
        "session",
        ["tenant_id", "forest_id", "channel"],
        schema=SCHEMA,
        postgresql_where=sa.text("channel IS NOT NULL"),
    )


def downgrade() -> None:
    op.drop_index("ix_session_channel", "session", schema=SCHEMA)
    op.drop_column("session", "channel", schema=SCHEMA)
