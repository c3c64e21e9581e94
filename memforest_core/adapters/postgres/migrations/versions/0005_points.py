"""Placeholder: what the index and the vectors need."""

from __future__ import annotations

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

compatible = False


def upgrade() -> None:
    pass
