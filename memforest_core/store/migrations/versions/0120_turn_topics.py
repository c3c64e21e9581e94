"""Topics of turns: which scene each turn belongs to, and scenes that began with a turn."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0120"
down_revision = "0101"

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

# As store/topics.py has it, at this revision.
_ASSIGN = sa.text("""
    WITH said AS MATERIALIZED (
        SELECT DISTINCT t.session_id, t.ordinal, t.role, t.occurred_at, c.forest_id
          FROM memforest.cell c
          JOIN memforest.turn t ON t.tenant_id = :t AND t.session_id = c.session_id
           AND t.ordinal BETWEEN c.first_turn - 8 AND c.last_turn AND NOT t.erased
         WHERE c.tenant_id = :t AND c.cell_id = ANY(CAST(:cells AS uuid[]))),
    voted AS (
        SELECT DISTINCT ON (v.session_id, v.ordinal) v.session_id, v.ordinal, v.tree_id
          FROM (SELECT o.session_id, u.ordinal, r.tree_id, r.leaf_count, count(*) AS facts
                  FROM memforest.occurrence o
                 CROSS JOIN LATERAL unnest(o.turn_ordinals) AS u(ordinal)
                  JOIN memforest.placement p ON p.tenant_id = :t AND p.payload_id = o.fact_id
                  JOIN memforest.tree r ON r.tenant_id = :t AND r.tree_id = p.tree_id AND r.kind = 'scene'
                 WHERE o.tenant_id = :t AND o.cell_id = ANY(CAST(:cells AS uuid[])) GROUP BY 1, 2, 3, 4) v
         ORDER BY v.session_id, v.ordinal, v.facts DESC, v.leaf_count DESC, v.tree_id),
    seeded AS (
        SELECT s.*, w.tree_id AS own, coalesce(w.tree_id, v.tree_id) AS near,
               coalesce(w.tree_id, CASE s.role WHEN 'assistant' THEN NULL ELSE v.tree_id END) AS seed
          FROM said s
          LEFT JOIN voted v ON v.session_id = s.session_id AND v.ordinal = s.ordinal
          LEFT JOIN memforest.turn_topic w
            ON w.tenant_id = :t AND w.session_id = s.session_id AND w.ordinal = s.ordinal),
    chosen AS (
        SELECT s.*, coalesce(
                   first_value(s.seed) OVER (PARTITION BY s.session_id, s.stretch ORDER BY s.ordinal),
                   first_value(s.seed) OVER (PARTITION BY s.session_id ORDER BY s.seed IS NULL, s.ordinal),
                   first_value(s.near) OVER (PARTITION BY s.session_id ORDER BY s.near IS NULL, s.ordinal)) AS tree_id
          FROM (SELECT *, count(seed) OVER (PARTITION BY session_id ORDER BY ordinal) AS stretch FROM seeded) s)
    INSERT INTO memforest.turn_topic (tenant_id, session_id, ordinal, forest_id, tree_id, occurred_at)
    SELECT :t, session_id, ordinal, forest_id, tree_id, occurred_at FROM chosen
     WHERE own IS NULL AND tree_id IS NOT NULL ORDER BY session_id, ordinal ON CONFLICT DO NOTHING
    """)
_CELLS = sa.text("SELECT cell_id FROM memforest.cell WHERE tenant_id = :t AND session_id = :s AND placed")


def upgrade() -> None:
    database = op.get_bind()
    database.connection.cursor().execute(_UP)
    database.execute(sa.text("SET LOCAL memforest.across = 'on'"))
    # A policy that reads across tenants does not write.
    for tenant, session in database.execute(sa.text("SELECT tenant_id, session_id FROM memforest.session")).all():
        database.execute(sa.text("SELECT set_config('memforest.tenant', :t, true)"), {"t": tenant})
        cells = database.scalars(_CELLS, {"t": tenant, "s": session}).all()
        database.execute(_ASSIGN, {"t": tenant, "cells": cells})
    database.execute(sa.text("SET LOCAL memforest.across = 'off'"))


def downgrade() -> None:
    op.execute("ALTER TABLE memforest.tree DROP COLUMN begun_at")
    op.execute("DROP TABLE memforest.turn_topic")
