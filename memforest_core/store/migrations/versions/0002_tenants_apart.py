"""Tenants apart: the service's group role, row-level security, and the id-only view across tenants."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

TENANT_TABLES = (
    "tenant",
    "forest",
    "session",
    "speaker",
    "turn",
    "cell",
    "candidate",
    "fact",
    "occurrence",
    "tree",
    "placement",
    "node",
    "node_summary",
    "summary_cache",
    "vector",
    "extraction_cache",
    "index_row",
    "llm_call",
)

# Which tenants have work of a kind that can be claimed now. Names no text and no ids below the tenant, so it is
# the one thing that the service role may see across tenants. One index probe per tenant and kind.
WAITING = """
CREATE FUNCTION memforest.waiting(wanted text)
RETURNS TABLE (tenant_id text, lane smallint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = memforest, pg_temp AS $$
    SELECT t.tenant_id, w.lane FROM tenant t CROSS JOIN LATERAL (
        (SELECT c.lane FROM cell c
          WHERE wanted = 'extract' AND c.tenant_id = t.tenant_id AND c.state = 'ready'
            AND c.ordinal = c.window_ordinal AND c.available_at <= clock_timestamp()
          ORDER BY c.lane, c.available_at LIMIT 1)
        UNION ALL
        (SELECT c.lane FROM cell c JOIN forest f USING (tenant_id, forest_id)
          WHERE wanted = 'reduce' AND c.tenant_id = t.tenant_id AND c.state = 'done' AND NOT c.placed
            AND f.reduce_available_at <= clock_timestamp()
          LIMIT 1)
        UNION ALL
        (SELECT 0::smallint FROM tree r
          WHERE wanted = 'refresh' AND r.tenant_id = t.tenant_id AND r.due_at <= clock_timestamp()
          LIMIT 1)
        UNION ALL
        (SELECT i.lane FROM index_row i
          WHERE wanted = 'maintain' AND i.tenant_id = t.tenant_id AND i.state = 'ready'
            AND i.available_at <= clock_timestamp()
          LIMIT 1)
        UNION ALL
        (SELECT 0::smallint FROM node_summary s
          WHERE wanted = 'redo' AND s.tenant_id = t.tenant_id AND s.redo_at <= clock_timestamp()
          LIMIT 1)
        UNION ALL
        (SELECT 0::smallint FROM cell c
          WHERE wanted = 'held' AND c.tenant_id = t.tenant_id AND c.state = 'held'
            AND c.available_at <= clock_timestamp()
          LIMIT 1)
    ) w
    ORDER BY w.lane, random()
$$
"""

# Leases that ended: past their deadline, or held by a worker without a heartbeat. Returns tenants only.
LOST = """
CREATE FUNCTION memforest.lost(dead_after interval)
RETURNS TABLE (tenant_id text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = memforest, pg_temp AS $$
    WITH alive AS (
        SELECT worker_id FROM worker WHERE heartbeat_at > clock_timestamp() - dead_after
    )
    SELECT c.tenant_id FROM cell c WHERE c.state = 'running'
       AND (c.lease_until <= clock_timestamp() OR c.worker_id NOT IN (SELECT worker_id FROM alive))
    UNION
    SELECT i.tenant_id FROM index_row i WHERE i.state = 'running'
       AND (i.lease_until <= clock_timestamp() OR i.worker_id NOT IN (SELECT worker_id FROM alive))
    UNION
    SELECT n.tenant_id FROM node n WHERE n.lease_until IS NOT NULL
       AND (n.lease_until <= clock_timestamp() OR n.worker_id NOT IN (SELECT worker_id FROM alive))
$$
"""


def upgrade() -> None:
    op.execute(
        "DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'memforest_service')"
        " THEN CREATE ROLE memforest_service NOLOGIN; END IF; END $$"
    )
    op.execute("GRANT USAGE ON SCHEMA memforest TO memforest_service")
    op.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA memforest TO memforest_service")
    op.execute("GRANT USAGE ON ALL SEQUENCES IN SCHEMA memforest TO memforest_service")
    op.execute("REVOKE INSERT, UPDATE, DELETE ON memforest.schema_version FROM memforest_service")
    for table in TENANT_TABLES:
        op.execute(f"ALTER TABLE memforest.{table} ENABLE ROW LEVEL SECURITY")
        op.execute(
            f"CREATE POLICY tenant_isolation ON memforest.{table}"
            " USING (tenant_id = current_setting('memforest.tenant', true))"
            " WITH CHECK (tenant_id = current_setting('memforest.tenant', true))"
        )
    for function, signature in ((WAITING, "waiting(text)"), (LOST, "lost(interval)")):
        op.execute(function)
        op.execute(f"REVOKE ALL ON FUNCTION memforest.{signature} FROM PUBLIC")
        op.execute(f"GRANT EXECUTE ON FUNCTION memforest.{signature} TO memforest_service")
    # Work queues turn over fast: vacuum them early, and leave room for updates in place.
    for table in ("cell", "index_row", "node", "tree"):
        op.execute(
            f"ALTER TABLE memforest.{table} SET (fillfactor = 80,"
            " autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05)"
        )


def downgrade() -> None:
    op.execute("DROP FUNCTION memforest.lost(interval)")
    op.execute("DROP FUNCTION memforest.waiting(text)")
    for table in TENANT_TABLES:
        op.execute(f"DROP POLICY tenant_isolation ON memforest.{table}")
        op.execute(f"ALTER TABLE memforest.{table} DISABLE ROW LEVEL SECURITY")
    op.execute("REVOKE ALL ON ALL TABLES IN SCHEMA memforest FROM memforest_service")
    op.execute("REVOKE ALL ON ALL SEQUENCES IN SCHEMA memforest FROM memforest_service")
    op.execute("REVOKE ALL ON SCHEMA memforest FROM memforest_service")
