"""The ledger of model calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

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
    if calls:
        own = {"tenant_id": tenant, "forest_id": forest, "session_id": session}
        connection.execute(sa.insert(m.LlmCall), [asdict(call) | {"step": call.step.value} | own for call in calls])
