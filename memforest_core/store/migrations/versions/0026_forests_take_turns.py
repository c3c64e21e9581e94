"""Windows in the live lane are found forest by forest: those of one owner do not delay those of the others."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

compatible = True
"""Workers of the version before use the index for its first column."""

LIVE = sa.text("state = 'ready' AND ordinal = window_ordinal AND lane = 0")


def _create(*columns: str) -> None:
    op.drop_index("ix_cell_live", "cell", schema="memforest")
    op.create_index("ix_cell_live", "cell", list(columns), schema="memforest", postgresql_where=LIVE)


def upgrade() -> None:
    _create("tenant_id", "forest_id", "available_at")


def downgrade() -> None:
    _create("tenant_id")
