"""Which stored facts are near a batch's candidates: looked up before the forest is locked."""

from __future__ import annotations

from itertools import islice

from memforest_core.domain.ids import FactId, TenantId
from memforest_core.errors import IndexUnavailable
from memforest_core.index.vector_index import IndexFilter, IndexQuery, PointKind, VectorIndex
from memforest_core.ingest.reduce.records import ReduceBatch
from memforest_core.settings import ReduceSettings

SCENE_NEIGHBOURS = 24
"""Nearest facts whose scenes a candidate is compared with, however many scenes the forest has."""
NEAR_LIMIT = 8
"""Nearest facts of a candidate that are compared with it."""


def near_facts(
    index: VectorIndex, tenant: TenantId, batch: ReduceBatch, rules: ReduceSettings
) -> tuple[list[FactId], list[FactId]] | None:
    """Stored facts that may be the same as a candidate, and those whose scenes it may join; None when the index is
    unavailable."""
    where = IndexFilter(tenant, batch.forest_id, kinds=(PointKind.FACT,))
    most = max(NEAR_LIMIT, SCENE_NEIGHBOURS)
    vectors = [item.vector for cell in batch.cells for item in cell.candidates if item.vector is not None]
    if not vectors:
        return [], []
    try:
        found = index.search([IndexQuery(vector, where, most) for vector in vectors])
    except IndexUnavailable:
        return None
    likely = [hit.id for hits in found for hit in islice(hits, NEAR_LIMIT) if hit.score >= rules.near_duplicate]
    neighbours = [row for hits in found for row in hits.ids[:SCENE_NEIGHBOURS]]
    return [*dict.fromkeys(map(FactId, likely))], [*dict.fromkeys(map(FactId, neighbours))]
