"""The ledger of model calls."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from memforest_core.domain.ids import ForestId, SessionId, TenantId
from memforest_core.models.calls import CallRecord
from memforest_core.store import tables as m


def record_calls(
    connection: sa.Connection,
    tenant: TenantId,
    calls: Sequence[CallRecord],
    forest: ForestId | None,
    session: SessionId | None,
) -> None:
    """Keep what model calls cost."""
    if not calls:
        return
    connection.execute(
        sa.insert(m.LlmCall),
        [
            {
                "tenant_id": tenant,
                "step": call.step.value,
                "model": call.model,
                "forest_id": forest,
                "session_id": session,
                "prompt_tokens": call.prompt_tokens,
                "completion_tokens": call.completion_tokens,
                "cached_tokens": call.cached_tokens,
                "cost_usd": call.cost_usd,
                "latency_ms": call.latency_ms,
                "outcome": call.outcome,
            }
            for call in calls
        ],
    )
