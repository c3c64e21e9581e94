"""Titles of scenes."""

from __future__ import annotations

from alembic import op

revision = "0018"
down_revision = "0014"
branch_labels = None
depends_on = None

compatible = False
"""A worker of the version before deletes facts and leaves the titles that tell of them."""

COLUMNS = (("title", "text"), ("title_size", "integer"), ("title_source", "text"))


def upgrade() -> None:
    for name, kind in COLUMNS:
        op.execute(f"ALTER TABLE memforest.tree ADD COLUMN IF NOT EXISTS {name} {kind}")
    # No samples of words in the catalog.
    for name in ("title", "title_source"):
        op.execute(f"ALTER TABLE memforest.tree ALTER COLUMN {name} SET STATISTICS 0")


def downgrade() -> None:
    for name, _ in COLUMNS:
        op.execute(f"ALTER TABLE memforest.tree DROP COLUMN IF EXISTS {name}")
