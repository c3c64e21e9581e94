"""All functions and triggers come from the files in store/functions from now on."""

from __future__ import annotations

from alembic import op

from memforest_core.store.functions import install

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

compatible = True
"""Workers of the version before go on: the functions do what they did."""


def upgrade() -> None:
    install(op.get_bind())


def downgrade() -> None:
    """The functions of the revision before are the same."""
