"""Reads a forest as of one moment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Self

import sqlalchemy as sa

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.lifecycle.bundle.records import VECTOR, BundleTable, ForestHead, Row
from memforest_core.lifecycle.bundle.rows.values import counting, in_full, reading
from memforest_core.store import tables as m
from memforest_core.store.engine import tenant_transaction
from memforest_core.store.owners import find_forest, known
from memforest_core.store.rows import TenantRows

_HASHES = sa.text("""
    SELECT text_hash FROM memforest.fact WHERE tenant_id = :t AND forest_id = :f
    UNION ALL
    SELECT h FROM memforest.cell c
      JOIN memforest.candidate k ON k.tenant_id = :t AND k.cell_id = c.cell_id
     CROSS JOIN LATERAL (VALUES (k.text_hash), (k.routing_hash)) AS u(h)
     WHERE c.tenant_id = :t AND c.forest_id = :f
    """)

_MODELS = sa.text("""
    SELECT DISTINCT s.model FROM memforest.tree r
      JOIN memforest.node n ON n.tenant_id = :t AND n.tree_id = r.tree_id
      JOIN memforest.node_summary s ON s.tenant_id = :t AND s.node_id = n.node_id
     WHERE r.tenant_id = :t AND r.forest_id = :f
    """)


class ExportRows(TenantRows):
    """One forest as of one moment; rows are streamed."""

    def __init__(self, connection: sa.Connection, tenant: TenantId, forest: ForestId) -> None:
        super().__init__(connection, tenant)
        self._forest = forest
        self._values = {"t": tenant, "f": forest}

    @classmethod
    @contextmanager
    def of_owner(cls, engine: sa.Engine, tenant: TenantId, owner: str) -> Iterator[Self]:
        """An owner's forest in one read-only transaction. Raises NotFound."""
        options = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        with tenant_transaction(engine, tenant, **options) as connection:
            forest = known(find_forest(connection, tenant, owner), owner).id
            rows = cls(connection, tenant, forest)
            rows.unhurried()
            connection.execute(sa.text("SET LOCAL cursor_tuple_fraction = 1"))
            yield rows

    def head(self) -> ForestHead:
        """The forest."""
        found = self._db.execute(
            sa.select(m.Forest.__table__).where(m.Forest.tenant_id == self._tenant, m.Forest.forest_id == self._forest)
        ).one()
        return ForestHead(
            ForestId(found.forest_id),
            found.owner,
            found.time_zone,
            found.scene_seq,
            found.rules,
            found.display_name,
        )

    def counts(self) -> Mapping[str, int]:
        """How many rows each table has, but for the vectors."""
        return dict(self._db.execute(counting(self._tenant, self._forest)).all())

    def pages(self, table: BundleTable, page: int, with_vectors: bool) -> Iterator[Sequence[Row]]:
        """Rows of a table, in the order of their keys; facts in the order in which they came."""
        streaming = {"stream_results": True, "max_row_buffer": page}
        statement = reading(table, self._tenant, self._forest, with_vectors)
        with self._db.execute(statement, execution_options=streaming) as rows:
            for some in rows.partitions(page):
                yield [in_full(table, tuple(row)) for row in some]

    def hashes(self, page: int) -> Iterator[Sequence[bytes]]:
        """The hashes of all texts of candidates and facts that have vectors, ``page`` rows at a time."""
        streaming = {"stream_results": True, "max_row_buffer": page}
        with self._db.execute(_HASHES, self._values, execution_options=streaming) as rows:
            for some in rows.scalars().partitions(page):
                yield [bytes(each) for each in some]

    def summary_models(self) -> Sequence[str]:
        """The models that wrote the summaries."""
        return self._db.scalars(_MODELS, self._values).all()

    def vectors(self, model: str, hashes: Sequence[bytes]) -> Sequence[Row]:
        """The vectors of these texts that are there, in the order of hashes."""
        found = self._db.execute(
            sa.select(m.VectorRow.text_hash, m.VectorRow.vector)
            .where(
                m.VectorRow.tenant_id == self._tenant,
                m.VectorRow.forest_id == self._forest,
                m.VectorRow.model == model,
                m.VectorRow.text_hash.in_(hashes),
            )
            .order_by(m.VectorRow.text_hash)
        )
        return [in_full(VECTOR, (bytes(row.text_hash), bytes(row.vector))) for row in found]
