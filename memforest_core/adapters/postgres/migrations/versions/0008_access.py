"""Placeholder: who may read what, and what statistics keep."""

from __future__ import annotations

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

compatible = False


def upgrade() -> None:
    pass
