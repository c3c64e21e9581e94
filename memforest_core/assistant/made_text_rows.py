"""Texts that were made of a memory, in ``summary_cache`` under a hash: one store for profiles and contexts.

Each is stored as one about the whole forest: any deletion from the memory drops it in its own transaction.
"""

from __future__ import annotations

from collections.abc import Collection

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from memforest_core.domain.ids import FactId, ForestId
from memforest_core.store import tables as m
from memforest_core.store.rows import TenantRows, among


class MadeTextRows(TenantRows):
    """Texts that were made of a tenant's memories."""

    def made_text(self, key: bytes, *, lock: bool = False) -> str | None:
        """The text under a hash; with ``lock`` locked until the transaction ends, None if another one has it."""
        stored = m.Summary
        statement = sa.select(stored.text).where(stored.tenant_id == self._tenant, stored.input_hash == key)
        found: str | None = self._db.scalar(statement.with_for_update(skip_locked=True) if lock else statement)
        return found

    def put_text(self, forest: ForestId, key: bytes, text: str, *, replace: bool) -> None:
        """Store a text under a hash; without ``replace`` only if there is none."""
        row = {"tenant_id": self._tenant, "input_hash": key, "text": text, "forest_id": forest, "tree_id": forest}
        new = insert(m.Summary).values(row)
        renewed = {"text": new.excluded.text, "created_at": sa.func.clock_timestamp()}
        index = ["tenant_id", "input_hash"]
        self._db.execute(
            new.on_conflict_do_update(index_elements=index, set_=renewed) if replace else new.on_conflict_do_nothing()
        )

    def locked_facts(self, forest: ForestId, facts: Collection[FactId]) -> dict[FactId, bytes]:
        """Those of these facts that no deletion has locked or taken, with the hashes of their texts.

        They are locked until the transaction ends: a deletion either is seen here, or waits and then finds the text.
        """
        fact = m.FactRow
        found = self._db.execute(
            sa.select(fact.fact_id, fact.text_hash)
            .where(fact.tenant_id == self._tenant, fact.forest_id == forest, among(fact.fact_id, facts))
            .order_by(fact.fact_id)
            .with_for_update(read=True, key_share=True, skip_locked=True)
        )
        return {FactId(row.fact_id): bytes(row.text_hash) for row in found}
