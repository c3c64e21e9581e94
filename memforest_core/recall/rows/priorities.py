"""Which topics facts belong to, and what speaks for the priority of these: two statements."""

# ruff: noqa: S608 - statements are made of constants of this package

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from memforest_core.domain.ids import ForestId
from memforest_core.store.rows import TenantRows
from memforest_core.store.topics import TOPIC, described

_TOPICS_OF = sa.text(f"""
    SELECT p.payload_id, p.tree_id FROM memforest.placement p JOIN memforest.tree r ON r.tree_id = p.tree_id AND {TOPIC}
     WHERE p.tenant_id = :t AND p.payload_id = ANY(CAST(:ids AS uuid[]))
    """)

_THESE = sa.text(described(f"SELECT r.* FROM memforest.tree r WHERE {TOPIC} AND r.tree_id = ANY(CAST(:ids AS uuid[]))"))


class PriorityRows(TenantRows):
    """Reads of one transaction of a tenant."""

    def topics_of(self, forest: ForestId, facts: Sequence[UUID]) -> Mapping[UUID, list[UUID]]:
        """The topics that these facts belong to."""
        found: dict[UUID, list[UUID]] = defaultdict(list)
        for row in self._run(_TOPICS_OF, f=forest, ids=list(facts)) if facts else ():
            found[row.payload_id].append(row.tree_id)
        return found

    def rated(self, forest: ForestId, topics: Sequence[UUID], importance: float) -> Sequence[sa.Row[Any]]:
        """Rows of topics with ``visits``, ``last_visit_at``, ``stated``, ``learned_at`` and ``now``."""
        return self._run(_THESE, f=forest, ids=list(topics), importance=importance).all() if topics else []
