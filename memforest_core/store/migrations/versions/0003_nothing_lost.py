"""Nothing accepted is lost: one state machine for all work, maintenance tasks, quotas, the backlog by tenant."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

compatible = False
"""The reducer and the reconciler of the version before don't know the new columns."""

SCHEMA = "memforest"

# The edges of the one state machine (work/states.py), as the database holds every statement to them.
LEGAL = (
    ("held", "ready"),
    ("ready", "running"),
    ("running", "ready"),
    ("running", "done"),
    ("running", "dead"),
    ("done", "ready"),
    ("done", "dead"),
    ("dead", "ready"),
    ("dead", "done"),
)

REFUSE = """
CREATE FUNCTION memforest.refuse_transition() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'work in % that is % cannot become %', TG_TABLE_NAME, OLD.state, NEW.state
        USING ERRCODE = 'check_violation', CONSTRAINT = 'work_transition';
END $$
"""

WAITING = """
CREATE OR REPLACE FUNCTION memforest.waiting(wanted text)
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
          ORDER BY c.lane, c.extracted_at LIMIT 1)
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
        (SELECT k.lane FROM maintenance k
          WHERE wanted = 'maintain' AND k.tenant_id = t.tenant_id AND k.state = 'ready'
            AND k.available_at <= clock_timestamp()
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
        UNION ALL
        (SELECT 0::smallint FROM cell c
          WHERE wanted = 'again' AND c.tenant_id = t.tenant_id AND c.again_at <= clock_timestamp()
          LIMIT 1)
    ) w
    GROUP BY t.tenant_id, w.lane
    ORDER BY w.lane, random()
$$
"""

LOST = """
CREATE OR REPLACE FUNCTION memforest.lost(dead_after interval)
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
    SELECT n.tenant_id FROM node n WHERE n.lease_token IS NOT NULL
       AND (n.lease_until <= clock_timestamp() OR n.worker_id NOT IN (SELECT worker_id FROM alive))
    UNION
    SELECT k.tenant_id FROM maintenance k WHERE k.state = 'running'
       AND (k.lease_until <= clock_timestamp() OR k.worker_id NOT IN (SELECT worker_id FROM alive))
$$
"""

# How much work stands where, by tenant, kind and state; oldest_s is the age in seconds of the oldest of it. Only work
# that is under way or stuck is counted, from partial indexes: what is done is not a backlog.
BACKLOG = """
CREATE FUNCTION memforest.backlog()
RETURNS TABLE (tenant_id text, kind text, state text, items bigint, oldest_s double precision)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = memforest, pg_temp AS $$
    WITH rows (tenant_id, kind, state, since) AS (
        SELECT c.tenant_id, 'extract', c.state, CASE WHEN c.agains > 0 THEN c.available_at ELSE c.created_at END
          FROM cell c
         WHERE c.state = 'ready' AND c.ordinal = c.window_ordinal
        UNION ALL SELECT c.tenant_id, 'extract', c.state, c.created_at FROM cell c WHERE c.state = 'running'
        UNION ALL SELECT c.tenant_id, 'extract', c.state, c.created_at FROM cell c WHERE c.state = 'held'
        UNION ALL SELECT c.tenant_id, 'extract', c.state, c.created_at FROM cell c WHERE c.state = 'dead'
        UNION ALL SELECT c.tenant_id, 'reextract', 'held', c.extracted_at FROM cell c WHERE c.again_at IS NOT NULL
        UNION ALL SELECT c.tenant_id, 'reduce', 'ready', c.extracted_at FROM cell c
                   WHERE c.state = 'done' AND NOT c.placed
        UNION ALL SELECT i.tenant_id, 'index_' || i.kind, i.state, i.available_at FROM index_row i
                   WHERE i.state = 'ready'
        UNION ALL SELECT i.tenant_id, 'index_' || i.kind, i.state, i.available_at FROM index_row i
                   WHERE i.state = 'running'
        UNION ALL SELECT n.tenant_id, 'refresh', n.state, coalesce(r.first_mark_at, n.available_at)
                    FROM node n JOIN tree r USING (tenant_id, tree_id)
                   WHERE n.version > n.clean_version AND NOT n.dead
        UNION ALL SELECT n.tenant_id, 'refresh', n.state, n.available_at FROM node n WHERE n.dead
        UNION ALL SELECT k.tenant_id, 'maintain', k.state, k.created_at FROM maintenance k WHERE k.state <> 'done'
    )
    SELECT r.tenant_id, r.kind, r.state, count(*),
           greatest(0, extract(epoch FROM clock_timestamp() - min(r.since)))::double precision
      FROM rows r GROUP BY r.tenant_id, r.kind, r.state
$$
"""

TENANTS = """
CREATE FUNCTION memforest.tenants() RETURNS TABLE (tenant_id text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = memforest, pg_temp AS $$
    SELECT t.tenant_id FROM tenant t ORDER BY 1
$$
"""

FUNCTIONS = ((BACKLOG, "backlog()"), (TENANTS, "tenants()"))


def _former(name: str) -> str:
    """A function's text in the migration before this one."""
    from importlib import import_module

    before = import_module("memforest_core.store.migrations.versions.0002_tenants_apart")
    return str(getattr(before, name)).replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION")


def _guard(table: str, when: str) -> None:
    legal = ", ".join(f"('{old}', '{new}')" for old, new in LEGAL)
    op.execute(
        f"CREATE TRIGGER work_transition {when} ON memforest.{table} FOR EACH ROW"
        f" WHEN (OLD.state IS DISTINCT FROM NEW.state AND (OLD.state, NEW.state) NOT IN ({legal}))"
        " EXECUTE FUNCTION memforest.refuse_transition()"
    )


def upgrade() -> None:
    add = op.add_column
    add("tenant", sa.Column("max_waiting_cells", sa.Integer()), schema=SCHEMA)
    add("tenant", sa.Column("max_turns_per_day", sa.Integer()), schema=SCHEMA)
    add("session", sa.Column("trace", sa.Text()), schema=SCHEMA)
    op.create_index("ix_session_updated", "session", ["tenant_id", "updated_at"], schema=SCHEMA)
    add("cell", sa.Column("again_at", postgresql.TIMESTAMP(timezone=True)), schema=SCHEMA)
    add("cell", sa.Column("agains", sa.SmallInteger(), server_default="0", nullable=False), schema=SCHEMA)
    op.create_index(
        "ix_cell_reduce_lane",
        "cell",
        ["tenant_id", "lane", "extracted_at"],
        schema=SCHEMA,
        postgresql_where=sa.text("state = 'done' AND NOT placed"),
    )
    op.create_index(
        "ix_cell_again",
        "cell",
        ["tenant_id", "again_at"],
        schema=SCHEMA,
        postgresql_where=sa.text("again_at IS NOT NULL"),
    )
    op.create_index("ix_cell_dead", "cell", ["tenant_id"], schema=SCHEMA, postgresql_where=sa.text("state = 'dead'"))
    _candidate_reference(onupdate="CASCADE")
    for column in (
        sa.Column("lost_leases", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("dead", sa.Boolean(), server_default="false", nullable=False),
        sa.Column("error_code", sa.Text()),
        sa.Column("error_text", sa.Text()),
    ):
        add("node", column, schema=SCHEMA)
    add(
        "node",
        sa.Column(
            "state",
            sa.Text(),
            sa.Computed(
                "CASE WHEN dead THEN 'dead' WHEN lease_token IS NOT NULL THEN 'running'"
                " WHEN version > clean_version THEN 'ready' ELSE 'done' END",
                persisted=True,
            ),
            nullable=False,
        ),
        schema=SCHEMA,
    )
    op.create_index("ix_node_dead", "node", ["tenant_id"], schema=SCHEMA, postgresql_where=sa.text("dead"))
    add("worker", sa.Column("connections", sa.Integer(), server_default="0", nullable=False), schema=SCHEMA)
    add("worker", sa.Column("version", sa.Text(), server_default="", nullable=False), schema=SCHEMA)
    add("collection", sa.Column("generation", sa.Uuid()), schema=SCHEMA)
    add("collection", sa.Column("store_started", sa.Text()), schema=SCHEMA)
    _maintenance()
    op.create_table(
        "migration",
        sa.Column("revision", sa.Text(), nullable=False),
        sa.Column("follows", sa.Text()),
        sa.Column("compatible", sa.Boolean(), nullable=False),
        sa.Column(
            "applied_at",
            postgresql.TIMESTAMP(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("revision", name="pk_migration"),
        schema=SCHEMA,
    )
    op.execute("GRANT SELECT ON memforest.migration TO memforest_service")
    op.execute(REFUSE)
    _guard("cell", "BEFORE UPDATE OF state")
    _guard("index_row", "BEFORE UPDATE OF state")
    _guard("maintenance", "BEFORE UPDATE OF state")
    # A node's state is computed from its other columns, so it is there only after the row was written.
    _guard("node", "AFTER UPDATE")
    op.execute(WAITING)
    op.execute(LOST)
    for function, signature in FUNCTIONS:
        op.execute(function)
        op.execute(f"REVOKE ALL ON FUNCTION memforest.{signature} FROM PUBLIC")
        op.execute(f"GRANT EXECUTE ON FUNCTION memforest.{signature} TO memforest_service")


def _candidate_reference(onupdate: str | None) -> None:
    op.drop_constraint("fk_occurrence_candidate", "occurrence", schema=SCHEMA, type_="foreignkey")
    op.create_foreign_key(
        "fk_occurrence_candidate",
        "occurrence",
        "candidate",
        ["tenant_id", "cell_id", "item"],
        ["tenant_id", "cell_id", "item"],
        source_schema=SCHEMA,
        referent_schema=SCHEMA,
        onupdate=onupdate,
    )


def _maintenance() -> None:
    now = sa.text("clock_timestamp()")
    moment = postgresql.TIMESTAMP(timezone=True)
    op.create_table(
        "maintenance",
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), server_default="", nullable=False),
        sa.Column("arguments", postgresql.JSONB(), server_default="{}", nullable=False),
        sa.Column("progress", postgresql.JSONB(), server_default="{}", nullable=False),
        sa.Column("created_at", moment, server_default=now, nullable=False),
        sa.Column("finished_at", moment),
        sa.Column("state", sa.Text(), server_default="ready", nullable=False),
        sa.Column("lane", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("attempts", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("lost_leases", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("available_at", moment, server_default=now, nullable=False),
        sa.Column("lease_token", sa.Uuid()),
        sa.Column("lease_until", moment),
        sa.Column("worker_id", sa.Uuid()),
        sa.Column("error_code", sa.Text()),
        sa.Column("error_text", sa.Text()),
        sa.CheckConstraint("state IN ('held', 'ready', 'running', 'done', 'dead')", name="ck_maintenance_state"),
        sa.PrimaryKeyConstraint("tenant_id", "task_id", name="pk_maintenance"),
        schema=SCHEMA,
    )
    op.create_index(
        "ix_maintenance_once",
        "maintenance",
        ["tenant_id", "kind", "subject"],
        unique=True,
        schema=SCHEMA,
        postgresql_where=sa.text("state IN ('held', 'ready', 'running')"),
    )
    op.create_index(
        "ix_maintenance_claim",
        "maintenance",
        ["tenant_id", "available_at"],
        schema=SCHEMA,
        postgresql_where=sa.text("state = 'ready'"),
    )
    op.create_index(
        "ix_maintenance_lease",
        "maintenance",
        ["lease_until"],
        schema=SCHEMA,
        postgresql_where=sa.text("state = 'running'"),
    )
    op.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON memforest.maintenance TO memforest_service")
    op.execute("ALTER TABLE memforest.maintenance ENABLE ROW LEVEL SECURITY")
    op.execute(
        "CREATE POLICY tenant_isolation ON memforest.maintenance"
        " USING (tenant_id = current_setting('memforest.tenant', true))"
        " WITH CHECK (tenant_id = current_setting('memforest.tenant', true))"
    )


def downgrade() -> None:
    for _, signature in FUNCTIONS:
        op.execute(f"DROP FUNCTION memforest.{signature}")
    op.drop_table("maintenance", schema=SCHEMA)
    for table in ("cell", "index_row", "node"):
        op.execute(f"DROP TRIGGER work_transition ON memforest.{table}")
    op.execute("DROP FUNCTION memforest.refuse_transition()")
    op.execute(_former("WAITING"))
    op.execute(_former("LOST"))
    op.drop_table("migration", schema=SCHEMA)
    _candidate_reference(onupdate=None)
    op.drop_index("ix_session_updated", "session", schema=SCHEMA)
    op.drop_index("ix_cell_reduce_lane", "cell", schema=SCHEMA)
    op.drop_index("ix_cell_again", "cell", schema=SCHEMA)
    op.drop_index("ix_cell_dead", "cell", schema=SCHEMA)
    op.drop_index("ix_node_dead", "node", schema=SCHEMA)
    for table, columns in (
        ("node", ("state", "error_text", "error_code", "dead", "lost_leases")),
        ("cell", ("agains", "again_at")),
        ("session", ("trace",)),
        ("tenant", ("max_turns_per_day", "max_waiting_cells")),
        ("worker", ("version", "connections")),
        ("collection", ("store_started", "generation")),
    ):
        for column in columns:
            op.drop_column(table, column, schema=SCHEMA)
