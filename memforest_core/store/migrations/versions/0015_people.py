"""Names of speakers are known with the time since when, so that the newest one is the label of their tree."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

compatible = True
"""Workers of the version before go on: what they insert has no time and is taken for an older name."""

SCHEMA = "memforest"


def upgrade() -> None:
    op.add_column("speaker", sa.Column("since", sa.TIMESTAMP(timezone=True), nullable=True), schema=SCHEMA)


def downgrade() -> None:
    op.drop_column("speaker", "since", schema=SCHEMA)
