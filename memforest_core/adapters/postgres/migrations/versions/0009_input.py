"""Placeholder: what callers may say."""

from __future__ import annotations

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

compatible = False


def upgrade() -> None:
    pass
