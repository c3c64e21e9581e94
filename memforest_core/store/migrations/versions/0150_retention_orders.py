"""Orders of forgetting by relevance to recent questions and by centrality."""

from __future__ import annotations

from alembic import op

revision = "0150"
down_revision = "0120"

compatible = True
"""The version before does not set these orders; a run of a policy that has one fails there and is tried again."""


_CHECK = """
    ALTER TABLE memforest.retention_policy DROP CONSTRAINT ck_retention_policy_first_out,
      ADD CONSTRAINT ck_retention_policy_first_out CHECK (first_out IN ({}))
"""


def upgrade() -> None:
    op.execute(_CHECK.format("'age', 'visits', 'relevance', 'centrality'"))


def downgrade() -> None:
    op.execute("UPDATE memforest.retention_policy SET first_out = 'age' WHERE first_out IN ('relevance', 'centrality')")
    op.execute(_CHECK.format("'age', 'visits'"))
