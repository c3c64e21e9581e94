"""Scenes are topics: titles, tags, and a temperature that says whether their points are in the vector index."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

compatible = False
"""A worker of the version before deletes facts and leaves the titles and tags of their topics, and writes the points of
cold topics."""

SCHEMA = "memforest"
WORDS = ("title", "tags")
"""Columns that hold words: no samples of them in the catalog."""


def upgrade() -> None:
    for column in WORDS:
        op.add_column("tree", sa.Column(column, sa.Text(), nullable=True), schema=SCHEMA)
        op.execute(f"ALTER TABLE {SCHEMA}.tree ALTER COLUMN {column} SET STATISTICS 0")
    op.add_column("tree", sa.Column("cold_at", sa.TIMESTAMP(timezone=True), nullable=True), schema=SCHEMA)
    op.add_column(
        "index_row",
        sa.Column("cold", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        schema=SCHEMA,
    )
    op.create_index(
        "ix_tree_topic",
        "tree",
        ["tenant_id", "forest_id", "time_end", "tree_id"],
        schema=SCHEMA,
        postgresql_where=sa.text("kind = 'scene' AND state = 'active'"),
    )
    op.create_index(
        "ix_index_row_cold",
        "index_row",
        ["tenant_id", "forest_id", "kind"],
        schema=SCHEMA,
        postgresql_where=sa.text("cold"),
    )


def downgrade() -> None:
    # Cold points are missing in the index: their rows are behind again.
    op.execute("SELECT set_config('memforest.across', 'on', true)")
    op.execute(
        f"""UPDATE {SCHEMA}.index_row i SET state = 'ready', indexed_version = 0, attempts = 0,
                   version = greatest(i.version + 1, nextval('{SCHEMA}.point_version'))
             WHERE i.cold AND i.state = 'done'"""
    )
    op.execute("SELECT set_config('memforest.across', '', true)")
    op.drop_index("ix_index_row_cold", "index_row", schema=SCHEMA)
    op.drop_index("ix_tree_topic", "tree", schema=SCHEMA)
    op.drop_column("index_row", "cold", schema=SCHEMA)
    for column in ("cold_at", *reversed(WORDS)):
        op.drop_column("tree", column, schema=SCHEMA)
