"""Answering's port over Postgres: the forest that is asked, and the ledger of calls."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.models.calls import CallRecord
from memforest_core.recall.rows.reading import PostgresRecallStore
from memforest_core.store.calls import record_calls
from memforest_core.store.engine import tenant_transaction
from memforest_core.store.owners import ForestRef


class AnswerCalls:
    """The forest of an owner, and the ledger of calls. Raises StoreUnavailable."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def forest(self, tenant: TenantId, owner: str) -> ForestRef | None:
        """The forest and its time zone; None for an owner without one."""
        with PostgresRecallStore(self._engine).recalling(tenant) as rows:
            return rows.forest(owner)

    def record(self, tenant: TenantId, forest: ForestId, calls: Sequence[CallRecord]) -> None:
        """Keep what calls cost, failed ones included."""
        with tenant_transaction(self._engine, tenant) as connection:
            record_calls(connection, tenant, calls, forest, None)
