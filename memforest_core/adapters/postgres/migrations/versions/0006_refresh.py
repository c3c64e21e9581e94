"""Placeholder: what refresh and locks need."""

from __future__ import annotations

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

compatible = False


def upgrade() -> None:
    pass
