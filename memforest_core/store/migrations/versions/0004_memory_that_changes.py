"""Memory that changes: forests that are frozen, hidden or going, superseded and pinned facts, visits, policies, audit."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

compatible = False
"""The version before would show forests that are hidden, and facts that are superseded."""

SCHEMA = "memforest"
STATES = "('live', 'frozen', 'hidden', 'gone')"

# Append-only for everybody, the owner of the tables included.
REFUSE = """
CREATE FUNCTION memforest.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rows of % can only be added', TG_TABLE_NAME USING ERRCODE = 'insufficient_privilege';
END $$
"""


def _tenant_table(name: str, grants: str) -> None:
    op.execute(f"GRANT {grants} ON memforest.{name} TO memforest_service")
    op.execute(f"ALTER TABLE memforest.{name} ENABLE ROW LEVEL SECURITY")
    op.execute(
        f"CREATE POLICY tenant_isolation ON memforest.{name}"
        " USING (tenant_id = current_setting('memforest.tenant', true))"
        " WITH CHECK (tenant_id = current_setting('memforest.tenant', true))"
    )


def upgrade() -> None:
    moment = postgresql.TIMESTAMP(timezone=True)
    now = sa.text("clock_timestamp()")
    document = postgresql.JSONB()
    add = op.add_column

    add("forest", sa.Column("state", sa.Text(), server_default="live", nullable=False), schema=SCHEMA)
    add("forest", sa.Column("rules", document, server_default="{}", nullable=False), schema=SCHEMA)
    op.create_check_constraint(op.f("ck_forest_state"), "forest", f"state IN {STATES}", schema=SCHEMA)
    op.drop_constraint("uq_forest_tenant_id_owner", "forest", schema=SCHEMA, type_="unique")
    op.create_index(
        "ix_forest_owner",
        "forest",
        ["tenant_id", "owner"],
        unique=True,
        schema=SCHEMA,
        postgresql_where=sa.text("state IN ('live', 'frozen')"),
    )
    add("session", sa.Column("origin_owner", sa.Text()), schema=SCHEMA)
    add("turn", sa.Column("erased", sa.Boolean(), server_default="false", nullable=False), schema=SCHEMA)
    add("fact", sa.Column("pinned", sa.Boolean(), server_default="false", nullable=False), schema=SCHEMA)
    add("fact", sa.Column("superseded_by", sa.Uuid()), schema=SCHEMA)
    add("fact", sa.Column("superseded_at", moment), schema=SCHEMA)
    add("maintenance", sa.Column("forest_id", sa.Uuid()), schema=SCHEMA)
    add("maintenance", sa.Column("actor", sa.Text(), server_default="", nullable=False), schema=SCHEMA)
    op.create_index("ix_maintenance_forest", "maintenance", ["tenant_id", "forest_id"], schema=SCHEMA)

    # What was cached before can't be told apart by whose words it holds; it costs calls only when work is repeated.
    op.execute("DELETE FROM memforest.extraction_cache")
    op.execute("DELETE FROM memforest.summary_cache")
    add("extraction_cache", sa.Column("forest_id", sa.Uuid()), schema=SCHEMA)
    add("extraction_cache", sa.Column("session_id", sa.Uuid()), schema=SCHEMA)
    op.create_index("ix_extraction_cache_session", "extraction_cache", ["tenant_id", "session_id"], schema=SCHEMA)
    op.create_index("ix_extraction_cache_forest", "extraction_cache", ["tenant_id", "forest_id"], schema=SCHEMA)
    add("summary_cache", sa.Column("forest_id", sa.Uuid()), schema=SCHEMA)
    add("summary_cache", sa.Column("tree_id", sa.Uuid()), schema=SCHEMA)
    op.create_index("ix_summary_cache_tree", "summary_cache", ["tenant_id", "tree_id"], schema=SCHEMA)
    op.create_index("ix_summary_cache_forest", "summary_cache", ["tenant_id", "forest_id"], schema=SCHEMA)
    # Whether a text's vector is still needed is asked by its hash.
    op.create_index("ix_candidate_text_hash", "candidate", ["tenant_id", "text_hash"], schema=SCHEMA)
    op.create_index("ix_candidate_routing_hash", "candidate", ["tenant_id", "routing_hash"], schema=SCHEMA)
    op.create_index("ix_fact_text_hash", "fact", ["tenant_id", "text_hash"], schema=SCHEMA)
    op.create_index(
        "ix_fact_superseded",
        "fact",
        ["tenant_id", "superseded_by"],
        schema=SCHEMA,
        postgresql_where=sa.text("superseded_by IS NOT NULL"),
    )

    op.create_table(
        "visit",
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("item_id", sa.Uuid(), nullable=False),
        sa.Column("forest_id", sa.Uuid(), nullable=False),
        sa.Column("visits", sa.Integer(), server_default="1", nullable=False),
        sa.Column("last_visit_at", moment, server_default=now, nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "item_id", name="pk_visit"),
        schema=SCHEMA,
    )
    op.create_index("ix_visit_forest", "visit", ["tenant_id", "forest_id"], schema=SCHEMA)
    op.create_table(
        "retention_policy",
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("forest_id", sa.Uuid(), nullable=False),
        sa.Column("max_age_s", sa.BigInteger()),
        sa.Column("max_facts", sa.Integer()),
        sa.Column("max_bytes", sa.BigInteger()),
        sa.Column("fraction", sa.Double(), server_default="0.1", nullable=False),
        sa.Column("updated_at", moment, server_default=now, nullable=False),
        sa.CheckConstraint("fraction > 0 AND fraction <= 1", name="ck_retention_policy_fraction"),
        sa.PrimaryKeyConstraint("tenant_id", "forest_id", name="pk_retention_policy"),
        schema=SCHEMA,
    )
    op.create_table(
        "audit",
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("audit_id", sa.BigInteger(), sa.Identity(), nullable=False),
        sa.Column("at", moment, server_default=now, nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("forest_id", sa.Uuid()),
        sa.Column("owner_hash", sa.LargeBinary()),
        sa.Column("task_id", sa.Uuid()),
        sa.Column("detail", document, server_default="{}", nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "audit_id", name="pk_audit"),
        schema=SCHEMA,
    )
    op.create_index("ix_audit_forest", "audit", ["tenant_id", "forest_id", "at"], schema=SCHEMA)
    op.create_index("ix_audit_owner_hash", "audit", ["tenant_id", "owner_hash", "at"], schema=SCHEMA)
    _tenant_table("visit", "SELECT, INSERT, UPDATE, DELETE")
    _tenant_table("retention_policy", "SELECT, INSERT, UPDATE, DELETE")
    _tenant_table("audit", "SELECT, INSERT")
    op.execute("GRANT USAGE ON ALL SEQUENCES IN SCHEMA memforest TO memforest_service")
    op.execute(REFUSE)
    op.execute(
        "CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON memforest.audit"
        " FOR EACH STATEMENT EXECUTE FUNCTION memforest.refuse_change()"
    )


def downgrade() -> None:
    op.drop_table("audit", schema=SCHEMA)
    op.execute("DROP FUNCTION memforest.refuse_change()")
    op.drop_table("retention_policy", schema=SCHEMA)
    op.drop_table("visit", schema=SCHEMA)
    for index, table in (
        ("ix_fact_superseded", "fact"),
        ("ix_fact_text_hash", "fact"),
        ("ix_candidate_routing_hash", "candidate"),
        ("ix_candidate_text_hash", "candidate"),
        ("ix_maintenance_forest", "maintenance"),
    ):
        op.drop_index(index, table, schema=SCHEMA)
    for table, columns in (
        ("summary_cache", ("tree_id", "forest_id")),
        ("extraction_cache", ("session_id", "forest_id")),
        ("maintenance", ("actor", "forest_id")),
        ("fact", ("superseded_at", "superseded_by", "pinned")),
        ("turn", ("erased",)),
        ("session", ("origin_owner",)),
    ):
        for column in columns:
            op.drop_column(table, column, schema=SCHEMA)
    op.drop_index("ix_forest_owner", "forest", schema=SCHEMA)
    op.drop_constraint(op.f("ck_forest_state"), "forest", schema=SCHEMA, type_="check")
    # Two forests of one owner exist only while one of them is hidden or going.
    op.execute("UPDATE memforest.forest SET owner = owner || ' ' || forest_id WHERE state IN ('hidden', 'gone')")
    op.create_unique_constraint("uq_forest_tenant_id_owner", "forest", ["tenant_id", "owner"], schema=SCHEMA)
    for column in ("rules", "state"):
        op.drop_column("forest", column, schema=SCHEMA)
