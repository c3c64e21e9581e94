"""Telling workers that there is work."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from memforest_core.domain.ids import TenantId


class WakeUps(Protocol):
    """Sends wake-ups to workers. Losing one is harmless."""

    def send(self, queue: str, tenant: TenantId, ref: UUID | str, count: int = 1) -> bool:
        """Send ``count`` messages; False when the broker could not be reached in time."""
        ...
