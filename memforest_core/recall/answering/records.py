"""What answering reads and writes: whose memory it is, and what the calls cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.models.calls import CallRecord
from memforest_core.store.owners import ForestRef


class AnswerCalls(Protocol):
    """The forest of an owner, and the ledger of calls. Raises StoreUnavailable."""

    def forest(self, tenant: TenantId, owner: str) -> ForestRef | None:
        """The forest and its time zone; None for an owner without one."""
        ...

    def record(self, tenant: TenantId, forest: ForestId, calls: Sequence[CallRecord]) -> None:
        """Keep what calls cost, failed ones included."""
        ...
