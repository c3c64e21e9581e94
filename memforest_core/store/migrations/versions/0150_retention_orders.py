"""Orders of forgetting by relevance to recent questions and by centrality."""

from __future__ import annotations

from alembic import op

revision = "0150"
down_revision = "0120"
branch_labels = None
depends_on = None

compatible = True
"""The version before does not set these orders; a run of a policy that has one fails there and is tried again."""


def upgrade() -> None:
    _orders("'age', 'visits', 'relevance', 'centrality'")


def downgrade() -> None:
    op.execute("UPDATE memforest.retention_policy SET first_out = 'age' WHERE first_out IN ('relevance', 'centrality')")
    _orders("'age', 'visits'")


def _orders(known: str) -> None:
    name = "ck_retention_policy_first_out"
    op.execute(f"ALTER TABLE memforest.retention_policy DROP CONSTRAINT {name}")
    op.execute(f"ALTER TABLE memforest.retention_policy ADD CONSTRAINT {name} CHECK (first_out IN ({known}))")
