"""A look for whose turn it is costs as much with thousands of tenants at work as with a few.

Functions, see ``store/functions/work.sql``, and an index of the windows in the live lane that wait.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from memforest_core.store.functions import install

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

compatible = True
"""Workers of the version before look as they did."""

LIVE = sa.text("state = 'ready' AND ordinal = window_ordinal AND lane = 0")


def upgrade() -> None:
    op.create_index("ix_cell_live", "cell", ["tenant_id"], schema="memforest", postgresql_where=LIVE)
    install(op.get_bind())


def downgrade() -> None:
    op.execute("DROP FUNCTION memforest.next_waiting(text, text, integer)")
    op.drop_index("ix_cell_live", "cell", schema="memforest")
