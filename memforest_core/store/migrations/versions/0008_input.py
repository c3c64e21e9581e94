"""What an owner is called, beside the id: a column of the forest."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

compatible = True
"""Workers of the version before go on: they don't read the column, and what they insert has none."""

SCHEMA = "memforest"


def upgrade() -> None:
    op.add_column("forest", sa.Column("display_name", sa.Text(), nullable=True), schema=SCHEMA)
    # It is a name: no samples of it in the catalog.
    op.execute(f"ALTER TABLE {SCHEMA}.forest ALTER COLUMN display_name SET STATISTICS 0")


def downgrade() -> None:
    op.drop_column("forest", "display_name", schema=SCHEMA)
