"""Opens transactions that erase; each locks the forest, works in sets, and commits its progress with its rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection

from memforest_core.domain.ids import TenantId
from memforest_core.ingest.reduce.rows import ReduceRows
from memforest_core.lifecycle.erase.rows.deletion import DeletionRows
from memforest_core.lifecycle.erase.rows.remaining import RemainingRows
from memforest_core.lifecycle.erase.rows.targets import TargetRows
from memforest_core.lifecycle.erase.rows.words import WordRows
from memforest_core.store.engine import Engine, tenant_transaction
from memforest_core.store.owners import ForestRows
from memforest_core.store.vectors import VectorRows


class ErasureRows(ForestRows):
    """One transaction of a tenant, by what the steps of a deletion do in it."""

    def __init__(self, connection: Connection, tenant: TenantId) -> None:
        super().__init__(connection, tenant)
        self.deletion = DeletionRows(connection, tenant)
        self.targets = TargetRows(connection, tenant)
        self.words = WordRows(connection, tenant)
        self.vectors = VectorRows(connection, tenant)
        self.reducing = ReduceRows(connection, tenant)
        self.remaining = RemainingRows(connection, tenant)


@contextmanager
def erasing(engine: Engine, tenant: TenantId, *, dry_run: bool = False) -> Iterator[ErasureRows]:
    """One transaction of a tenant; a dry run leaves no trace. Raises StoreUnavailable."""
    with tenant_transaction(engine, tenant) as connection:
        undone = connection.begin_nested() if dry_run else None
        try:
            yield ErasureRows(connection, tenant)
        finally:
            if undone is not None:
                undone.rollback()
