"""Placeholder: what operations beside each other need."""

from __future__ import annotations

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

compatible = False


def upgrade() -> None:
    pass
