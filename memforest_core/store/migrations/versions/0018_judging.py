"""How and at which size the titles of scenes were made."""

from __future__ import annotations

from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

compatible = False
"""A worker of the version before deletes facts and leaves the titles that tell of them."""

COLUMNS = (("title_size", "integer"), ("title_source", "text"))


def upgrade() -> None:
    for name, kind in COLUMNS:
        op.execute(f"ALTER TABLE memforest.tree ADD COLUMN {name} {kind}")
    # No samples in the catalog.
    op.execute("ALTER TABLE memforest.tree ALTER COLUMN title_source SET STATISTICS 0")


def downgrade() -> None:
    for name, _ in COLUMNS:
        op.execute(f"ALTER TABLE memforest.tree DROP COLUMN {name}")
