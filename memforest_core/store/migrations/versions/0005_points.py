"""Vectors belong to forests; versions of points come from one sequence; a point knows whether it holds erased words."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

compatible = False
"""The version before would put vectors without a forest, and points under other ids."""

SCHEMA = "memforest"
BATCH = 2_000
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)

REFERENCES = """
    SELECT tenant_id, forest_id, text_hash FROM memforest.cell
    UNION SELECT tenant_id, forest_id, text_hash FROM memforest.fact
    UNION SELECT c.tenant_id, c.forest_id, h.hash FROM memforest.cell c
      JOIN memforest.candidate k ON k.tenant_id = c.tenant_id AND k.cell_id = c.cell_id
     CROSS JOIN LATERAL (VALUES (k.text_hash), (k.routing_hash)) AS h(hash)"""


def _embedded(text: str, started: datetime) -> bytes:
    """The hash of what was embedded of a cell when this was written: its text under its date."""
    at = started.astimezone(UTC)
    day = f"{DAYS[at.weekday()]} {at.day} {MONTHS[at.month - 1]} {at.year}"
    return hashlib.sha256(f"{day}\n{text}".encode()).digest()


def _rehash(embedded: bool) -> None:
    """Cells are found by the hash of what is embedded of them, which is more than their text."""
    connection = op.get_bind()
    tenant, cell = "", UUID(int=0)
    while True:
        rows = connection.execute(
            sa.text(
                "SELECT tenant_id, cell_id, text, time_start FROM memforest.cell"
                " WHERE (tenant_id, cell_id) > (:t, :c) ORDER BY tenant_id, cell_id LIMIT :n"
            ),
            {"t": tenant, "c": cell, "n": BATCH},
        ).all()
        if not rows:
            return
        values: dict[str, Any] = {
            "tenants": [row.tenant_id for row in rows],
            "cells": [row.cell_id for row in rows],
            "hashes": [
                _embedded(row.text, row.time_start) if embedded else hashlib.sha256(row.text.encode()).digest()
                for row in rows
            ],
        }
        connection.execute(
            sa.text(
                "UPDATE memforest.cell c SET text_hash = u.hash FROM unnest(CAST(:tenants AS text[]),"
                " CAST(:cells AS uuid[]), CAST(:hashes AS bytea[])) AS u(tenant, cell, hash)"
                " WHERE c.tenant_id = u.tenant AND c.cell_id = u.cell"
            ),
            values,
        )
        tenant, cell = rows[-1].tenant_id, rows[-1].cell_id


def _table(*keys: str) -> None:
    """The table of vectors under this key, beside the one there is."""
    op.execute("ALTER TABLE memforest.vector RENAME TO vector_before")
    op.execute("ALTER TABLE memforest.vector_before RENAME CONSTRAINT pk_vector TO pk_vector_before")
    types: dict[str, sa.types.TypeEngine[Any]] = {
        "tenant_id": sa.Text(),
        "forest_id": sa.Uuid(),
        "model": sa.Text(),
        "text_hash": sa.LargeBinary(),
    }
    op.create_table(
        "vector",
        *(sa.Column(key, types[key], nullable=False) for key in keys),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        schema=SCHEMA,
    )
    op.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON memforest.vector TO memforest_service")
    op.execute("ALTER TABLE memforest.vector ENABLE ROW LEVEL SECURITY")
    op.execute(
        "CREATE POLICY tenant_isolation ON memforest.vector"
        " USING (tenant_id = current_setting('memforest.tenant', true))"
        " WITH CHECK (tenant_id = current_setting('memforest.tenant', true))"
    )


def _index(name: str, table: str, *columns: str) -> None:
    op.drop_index(name, table, schema=SCHEMA)
    op.create_index(name, table, list(columns), schema=SCHEMA)


def upgrade() -> None:
    _rehash(embedded=True)
    _table("tenant_id", "forest_id", "model", "text_hash")
    # What no text of any forest has was left behind by something that was erased: it goes.
    op.execute(
        f"""INSERT INTO memforest.vector (tenant_id, forest_id, model, text_hash, vector)
            SELECT v.tenant_id, r.forest_id, v.model, v.text_hash, v.vector
              FROM memforest.vector_before v JOIN ({REFERENCES}) r USING (tenant_id, text_hash)
              JOIN memforest.forest f ON f.tenant_id = r.tenant_id AND f.forest_id = r.forest_id
             ORDER BY v.tenant_id, r.forest_id, v.model, v.text_hash"""
    )
    op.drop_table("vector_before", schema=SCHEMA)
    op.create_primary_key("pk_vector", "vector", ["tenant_id", "forest_id", "model", "text_hash"], schema=SCHEMA)
    op.create_foreign_key(
        "fk_vector_forest",
        "vector",
        "forest",
        ["tenant_id", "forest_id"],
        ["tenant_id", "forest_id"],
        source_schema=SCHEMA,
        referent_schema=SCHEMA,
    )
    _index("ix_cell_forest", "cell", "tenant_id", "forest_id", "text_hash")
    _index("ix_fact_text_hash", "fact", "tenant_id", "forest_id", "text_hash")

    op.execute("CREATE SEQUENCE memforest.point_version")
    op.execute("GRANT USAGE ON SEQUENCE memforest.point_version TO memforest_service")
    op.execute(
        "SELECT setval('memforest.point_version', (SELECT coalesce(max(version), 0) + 1 FROM memforest.index_row))"
    )
    op.alter_column("index_row", "version", server_default=sa.text("nextval('memforest.point_version')"), schema=SCHEMA)
    op.add_column(
        "index_row", sa.Column("erased_version", sa.BigInteger(), server_default="0", nullable=False), schema=SCHEMA
    )
    op.create_index(
        "ix_index_row_erased",
        "index_row",
        ["tenant_id", "forest_id"],
        schema=SCHEMA,
        postgresql_where=sa.text("erased_version > 0"),
    )


def downgrade() -> None:
    op.drop_index("ix_index_row_erased", "index_row", schema=SCHEMA)
    op.drop_column("index_row", "erased_version", schema=SCHEMA)
    op.alter_column("index_row", "version", server_default=None, schema=SCHEMA)
    op.execute("DROP SEQUENCE memforest.point_version")
    _index("ix_fact_text_hash", "fact", "tenant_id", "text_hash")
    _index("ix_cell_forest", "cell", "tenant_id", "forest_id")
    _table("tenant_id", "model", "text_hash")
    op.execute(
        """INSERT INTO memforest.vector (tenant_id, model, text_hash, vector)
           SELECT DISTINCT ON (tenant_id, model, text_hash) tenant_id, model, text_hash, vector
             FROM memforest.vector_before ORDER BY tenant_id, model, text_hash, forest_id"""
    )
    op.drop_table("vector_before", schema=SCHEMA)
    op.create_primary_key("pk_vector", "vector", ["tenant_id", "model", "text_hash"], schema=SCHEMA)
    _rehash(embedded=False)
