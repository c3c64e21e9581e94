"""Whether a fact is known to be wrong is told by an index of those that are, instead of a look at each fact."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

compatible = True
"""Workers of the version before look at the facts."""

WRONG = sa.text("superseded_at IS NOT NULL")


def upgrade() -> None:
    op.create_index("ix_fact_wrong", "fact", ["tenant_id", "fact_id"], schema="memforest", postgresql_where=WRONG)


def downgrade() -> None:
    op.drop_index("ix_fact_wrong", "fact", schema="memforest")
