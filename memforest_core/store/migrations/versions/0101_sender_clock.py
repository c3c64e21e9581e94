"""The sender's clock: by how many minutes a turn's timestamp said to be ahead of UTC."""

from __future__ import annotations

from alembic import op

revision = "0101"
down_revision = "0100"

compatible = True
"""The version before stores turns without it and reads their dates by the owner's zone."""


def upgrade() -> None:
    op.execute("ALTER TABLE memforest.turn ADD COLUMN utc_offset smallint")


def downgrade() -> None:
    op.execute("ALTER TABLE memforest.turn DROP COLUMN utc_offset")
