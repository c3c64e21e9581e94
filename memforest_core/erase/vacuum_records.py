"""What vacuuming after deletions needs from the store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import Enum
from typing import Protocol

from memforest_core.domain.ids import TenantId


class Vacuumed(Enum):
    """What became of a table."""

    DONE = "vacuumed"
    NO_RIGHT = "skipped"
    """The service role may not: before Postgres 17 only owners can."""
    BUSY = "busy"
    """Another vacuum is at it, or somebody changes the table's definition."""


class VacuumStore(Protocol):
    """The tables and the tasks that vacuum them."""

    def ask(self, tenant: TenantId, every_s: float) -> None:
        """Ask for all tables to be vacuumed at the end of the current span of ``every_s`` seconds; all deletions of a
        span share one task, and none of them is asked for after it began."""
        ...

    def tables(self) -> Sequence[str]:
        """The tables that hold a tenant's rows, in one order."""
        ...

    def held_back(self, transaction_id: int) -> bool:
        """Whether some open transaction is older than this one, so that what this one deleted must be kept for it."""
        ...

    def vacuum(self, table: str) -> Vacuumed:
        """Vacuum one table and its indexes."""
        ...

    def done_since(self, tenant: TenantId, moment: datetime) -> bool:
        """Whether all tables were vacuumed by a task that began after this moment."""
        ...
