"""Notes: sessions whose facts are pinned when they are placed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

compatible = True
"""Workers of the version before go on: they don't read the column, so that notes which they place are not pinned."""

SCHEMA = "memforest"


def upgrade() -> None:
    op.add_column("session", sa.Column("note", sa.Boolean(), server_default="false", nullable=False), schema=SCHEMA)
    # A profile reads the pinned facts of a memory, which are few.
    op.create_index(
        "ix_fact_pinned", "fact", ["tenant_id", "forest_id"], schema=SCHEMA, postgresql_where=sa.text("pinned")
    )


def downgrade() -> None:
    op.drop_index("ix_fact_pinned", "fact", schema=SCHEMA)
    op.drop_column("session", "note", schema=SCHEMA)
