"""Vectors in half precision, a mean vector only where it differs, and no index of what changes with each claim.

Vectors that are there stay as they are: both kinds are read.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

compatible = False
"""The version before can't read half precision."""

SCHEMA = "memforest"
BATCH = 2_000
FILL = {"index_row": (50, 80), "tree": (50, 80), "placement": (90, 100)}
"""Per cent of a page that inserts fill, new and before. Claimed index rows and a scene with its centroid have to fit in
beside the old ones."""
BEHIND = sa.text("indexed_version < version")


def upgrade() -> None:
    for name in ("claim", "lease", "token"):
        op.drop_index(f"ix_index_row_{name}", "index_row", schema=SCHEMA)
    columns = ["tenant_id", "kind", "lane", "available_at"]
    op.create_index("ix_index_row_behind", "index_row", columns, schema=SCHEMA, postgresql_where=BEHIND)
    op.drop_index("ix_node_token", "node", schema=SCHEMA)
    # Inner nodes, which are updated most, have no payload.
    op.drop_index("ix_node_payload", "node", schema=SCHEMA)
    leaves = sa.text("payload_id IS NOT NULL")
    op.create_index("ix_node_payload", "node", ["tenant_id", "payload_id"], schema=SCHEMA, postgresql_where=leaves)
    op.alter_column("node_summary", "pooled", nullable=True, schema=SCHEMA)
    # Vectors do not shrink by compression, and are read with their rows.
    for table, column in (("vector", "vector"), ("node_summary", "vector"), ("node_summary", "pooled")):
        op.execute(f"ALTER TABLE {SCHEMA}.{table} ALTER COLUMN {column} SET STORAGE MAIN")
    for table, (new, _) in FILL.items():
        op.execute(f"ALTER TABLE {SCHEMA}.{table} SET (fillfactor = {new})")


def downgrade() -> None:
    op.execute("SELECT set_config('memforest.across', 'on', true)")
    op.execute(f"UPDATE {SCHEMA}.node_summary SET pooled = vector WHERE pooled IS NULL")
    for table, column in (("vector", "vector"), ("node_summary", "vector"), ("node_summary", "pooled")):
        _widen(f"{SCHEMA}.{table}", column)
        op.execute(f"ALTER TABLE {SCHEMA}.{table} ALTER COLUMN {column} SET STORAGE EXTENDED")
    op.execute("SELECT set_config('memforest.across', '', true)")
    op.alter_column("node_summary", "pooled", nullable=False, schema=SCHEMA)
    for table, (_, before) in FILL.items():
        op.execute(f"ALTER TABLE {SCHEMA}.{table} SET (fillfactor = {before})")
    op.drop_index("ix_node_payload", "node", schema=SCHEMA)
    op.create_index("ix_node_payload", "node", ["tenant_id", "payload_id"], schema=SCHEMA)
    op.create_index(
        "ix_node_token",
        "node",
        ["tenant_id", "lease_token"],
        schema=SCHEMA,
        postgresql_where=sa.text("lease_token IS NOT NULL"),
    )
    op.drop_index("ix_index_row_behind", "index_row", schema=SCHEMA)
    for name, columns, where in (
        ("claim", ["tenant_id", "kind", "lane", "available_at"], "state = 'ready'"),
        ("lease", ["lease_until"], "state = 'running'"),
        ("token", ["tenant_id", "lease_token"], "lease_token IS NOT NULL"),
    ):
        op.create_index(f"ix_index_row_{name}", "index_row", columns, schema=SCHEMA, postgresql_where=sa.text(where))


def _widen(table: str, column: str) -> None:
    """Write the vectors of half precision, whose bytes are odd in number, as float32."""
    connection = op.get_bind()
    for places, halves in _halves(connection, table, column):
        wide = [np.frombuffer(raw, "<f2", len(raw) // 2).astype("<f4").tobytes() for raw in halves]
        connection.execute(
            sa.text(
                f"UPDATE {table} AS x SET {column} = u.wide"
                " FROM unnest(CAST(:places AS text[]), CAST(:wide AS bytea[])) AS u(place, wide)"
                " WHERE x.ctid = CAST(u.place AS tid)"
            ),
            {"places": places, "wide": wide},
        )


def _halves(connection: sa.Connection, table: str, column: str) -> Iterator[tuple[list[str], list[bytes]]]:
    """Pages of rows' places and vectors of half precision; each is written in full before the next is read."""
    odd = sa.text(
        f"SELECT CAST(ctid AS text) AS place, {column} AS half FROM {table}"
        f" WHERE octet_length({column}) % 2 = 1 LIMIT {BATCH}"
    )
    while rows := connection.execute(odd).all():
        yield [row.place for row in rows], [bytes(row.half) for row in rows]
