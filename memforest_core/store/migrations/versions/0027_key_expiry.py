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

UNEXPIRED = "AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp())"
"""What the function of this revision asks and the one of the revision before can't."""


def upgrade() -> None:
    op.add_column("api_key", sa.Column("expires_at", sa.TIMESTAMP(timezone=True), nullable=True), schema="memforest")
    install(op.get_bind())


def downgrade() -> None:
    definition = sa.text("SELECT pg_get_functiondef('memforest.key_caller(bytea)'::regprocedure)")
    op.get_bind().connection.cursor().execute(str(op.get_bind().scalar(definition)).replace(UNEXPIRED, ""))
    op.drop_column("api_key", "expires_at", schema="memforest")
