"""Vectors of cells keep the vectors of their tokens, which recall compares with those of a question.

They are in few bits already: Postgres need not try to compress them. No sample of them goes into its catalog.
"""

from __future__ import annotations

from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

compatible = True
"""Workers of the version before store vectors without them."""


def upgrade() -> None:
    op.execute("ALTER TABLE memforest.vector ADD COLUMN tokens bytea")
    op.execute("ALTER TABLE memforest.vector ALTER COLUMN tokens SET STORAGE EXTERNAL")
    op.execute("ALTER TABLE memforest.vector ALTER COLUMN tokens SET STATISTICS 0")


def downgrade() -> None:
    op.drop_column("vector", "tokens", schema="memforest")
