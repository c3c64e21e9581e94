"""What workers need from the store to stay alive, to find work, and to free what was lost."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Protocol

from memforest_core.domain.ids import TenantId, WorkerId


class WorkKind(StrEnum):
    """Kinds of work that can wait, as ``waiting`` names them."""

    EXTRACT = "extract"
    REDUCE = "reduce"
    REFRESH = "refresh"
    MAINTAIN = "maintain"
    REDO = "redo"
    HELD = "held"
    AGAIN = "again"


@dataclass(frozen=True, slots=True)
class LeaseLimits:
    """When a lease is lost, and when lost leases make work suspicious."""

    dead_after_s: float
    max_lost_leases: int


class JobRows(Protocol):
    """Rows of one upkeep transaction of a tenant."""

    def free_lost(self, limits: LeaseLimits) -> int:
        """Free work whose lease ended with its deadline or its worker; how much.

        Lost leases are counted apart from failures; past the limit the work is dead-lettered.
        """
        ...

    def release_sources(self) -> None:
        """Give the sources of merges that were given up before they moved anything back to their owners."""
        ...

    def reopen_verbatim(self, limit: int) -> int:
        """Windows kept word by word, whose time has come, become ready for extraction again; how many cells.

        At most ``limit`` windows, and only those that are in the trees as a whole.
        """
        ...

    def release_held(self) -> int:
        """Open last cells whose quiet period is over become ready; how many."""
        ...


class JobStore(Protocol):
    """Upkeep, within a tenant and across tenants (ids only)."""

    def upkeep(self, tenant: TenantId) -> AbstractContextManager[JobRows]:
        """One transaction of a tenant."""
        ...

    def waiting(self, kind: WorkKind) -> list[TenantId]:
        """Tenants that have work of a kind that can be claimed now: the live lane first, else at random."""
        ...

    def lost(self, limits: LeaseLimits) -> list[TenantId]:
        """Tenants that have leases which ended without a finish."""
        ...

    def enlist(self, worker: WorkerId, name: str, queues: Sequence[str], connections: int = 0) -> None:
        """Note a new worker process, and how many connections it may open."""
        ...

    def strike_off_name(self, name: str) -> int:
        """Strike off the workers with this name, whose successor the caller is; how many."""
        ...

    def beat(self, worker: WorkerId) -> bool:
        """Renew a worker's heartbeat on the database's clock; False when it was struck off."""
        ...

    def leave(self, worker: WorkerId) -> None:
        """Strike a worker off; its leases end at once."""
        ...

    def strike_off_dead(self, dead_after_s: float) -> int:
        """Remove workers long without a heartbeat; how many."""
        ...

    def reconciling(self) -> AbstractContextManager[bool]:
        """True inside for the one worker that may reconcile now."""
        ...


class Lane(IntEnum):
    """Live sessions go before bulk imports."""

    LIVE = 0
    BACKFILL = 1


@dataclass(frozen=True, slots=True)
class WorkError:
    """What a failed try ended with: a code for programs, a sentence for people; never conversation text or a key."""

    code: str
    message: str
