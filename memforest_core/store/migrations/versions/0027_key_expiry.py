"""A key can end by itself."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from memforest_core.store.functions import install

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None

compatible = True
"""The function refuses expired keys for servers of the version before too; they only can't list when keys end."""


def upgrade() -> None:
    op.add_column("api_key", sa.Column("expires_at", sa.TIMESTAMP(timezone=True), nullable=True), schema="memforest")
    install(op.get_bind())


def downgrade() -> None:
    op.drop_column("api_key", "expires_at", schema="memforest")
