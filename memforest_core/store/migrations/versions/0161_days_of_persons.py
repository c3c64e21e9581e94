"""Digests of longer times are of one person or of all: the key has the person."""

from __future__ import annotations

from alembic import op

revision = "0161"
down_revision = "0160"

compatible = False

_KEY = "ALTER TABLE memforest.calendar_digest DROP CONSTRAINT pk_calendar_digest, ADD CONSTRAINT pk_calendar_digest"


def upgrade() -> None:
    # A stored day may leave speakers out; all digests can be made again.
    op.execute("TRUNCATE memforest.calendar_digest")
    op.execute("ALTER TABLE memforest.calendar_digest ADD COLUMN person text NOT NULL DEFAULT ''")
    op.execute("ALTER TABLE memforest.calendar_digest ALTER person SET STATISTICS 0")
    op.execute(f"{_KEY} PRIMARY KEY (tenant_id, forest_id, span, first_day, person)")


def downgrade() -> None:
    op.execute("TRUNCATE memforest.calendar_digest")
    op.execute(f"{_KEY} PRIMARY KEY (tenant_id, forest_id, span, first_day)")
    op.execute("ALTER TABLE memforest.calendar_digest DROP COLUMN person")
