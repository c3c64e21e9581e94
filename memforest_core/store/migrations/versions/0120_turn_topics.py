"""Topics of turns: which scene each turn belongs to, and scenes that began with a turn."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from memforest_core.store.topics import ASSIGN

revision = "0120"
down_revision = "0101"
branch_labels = None
depends_on = None

compatible = True
"""The version before stores turns without topics; those have none before their cells are placed again."""

_UP = """
CREATE TABLE memforest.turn_topic (
    tenant_id text NOT NULL,
    session_id uuid NOT NULL,
    ordinal integer NOT NULL,
    forest_id uuid NOT NULL,
    tree_id uuid NOT NULL,
    occurred_at timestamptz NOT NULL,
    matched boolean NOT NULL DEFAULT false,
    vector bytea,
    vector_model text,
    CONSTRAINT pk_turn_topic PRIMARY KEY (tenant_id, session_id, ordinal),
    CONSTRAINT fk_turn_topic_turn
        FOREIGN KEY (tenant_id, session_id, ordinal) REFERENCES memforest.turn ON DELETE CASCADE,
    CONSTRAINT fk_turn_topic_tree FOREIGN KEY (tenant_id, tree_id) REFERENCES memforest.tree
);
CREATE INDEX ix_turn_topic_tree ON memforest.turn_topic (tenant_id, tree_id, occurred_at);
CREATE INDEX ix_turn_topic_newest ON memforest.turn_topic (tenant_id, forest_id, occurred_at);
ALTER TABLE memforest.turn_topic ALTER vector SET STORAGE MAIN, ALTER vector SET STATISTICS 0;
GRANT SELECT, INSERT, UPDATE, DELETE ON memforest.turn_topic TO memforest_service, memforest_limited;
ALTER TABLE memforest.turn_topic ENABLE ROW LEVEL SECURITY;
ALTER TABLE memforest.turn_topic FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_isolation ON memforest.turn_topic
    USING (tenant_id = current_setting('memforest.tenant', true))
    WITH CHECK (tenant_id = current_setting('memforest.tenant', true));
CREATE POLICY across_tenants ON memforest.turn_topic TO CURRENT_USER
    USING (current_setting('memforest.across', true) = 'on');
CREATE POLICY granted_tenants ON memforest.turn_topic AS RESTRICTIVE TO memforest_limited
    USING (tenant_id = ANY(CAST((SELECT memforest.granted_tenants()) AS text[])));
DO $$
BEGIN
    IF current_setting('server_version_num')::int >= 170000 THEN
        GRANT MAINTAIN ON memforest.turn_topic TO memforest_service;
    END IF;
END $$;
ALTER TABLE memforest.tree ADD COLUMN begun_at timestamptz;
"""

_CELLS = sa.text("SELECT cell_id FROM memforest.cell WHERE tenant_id = :t AND session_id = :s AND placed")


def upgrade() -> None:
    database = op.get_bind()
    database.connection.cursor().execute(_UP)
    database.execute(sa.text("SET LOCAL memforest.across = 'on'"))
    # A policy that reads across tenants does not write.
    for tenant, session in database.execute(sa.text("SELECT tenant_id, session_id FROM memforest.session")).all():
        database.execute(sa.text("SELECT set_config('memforest.tenant', :t, true)"), {"t": tenant})
        cells = database.scalars(_CELLS, {"t": tenant, "s": session}).all()
        database.execute(ASSIGN, {"t": tenant, "cells": cells})
    database.execute(sa.text("SET LOCAL memforest.across = 'off'"))


def downgrade() -> None:
    op.execute("ALTER TABLE memforest.tree DROP COLUMN begun_at")
    op.execute("DROP TABLE memforest.turn_topic")
