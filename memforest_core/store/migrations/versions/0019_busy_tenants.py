"""Who has work is asked of the tenants that have some: functions only, see ``store/functions/work.sql``."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from memforest_core.store.functions import install

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

compatible = True
"""The function answers as before."""


def upgrade() -> None:
    install(op.get_bind())


def downgrade() -> None:
    found = op.get_bind().scalar(sa.text("SELECT pg_get_functiondef('memforest.waiting(text)'::regprocedure)"))
    op.execute(str(found).replace("memforest.busy(wanted) t", "tenant t"))
    op.execute("DROP FUNCTION IF EXISTS memforest.busy(text)")
