"""What resumable tasks on the maintain queue need from the store: rows of ids and numbers, never text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NewType, Protocol
from uuid import UUID

from memforest_core.domain.ids import LeaseToken, TenantId, WorkerId

TaskId = NewType("TaskId", UUID)

Numbers = Mapping[str, str | int]
"""Ids, counts and phases under their names: a task's arguments or its progress, as JSON keeps them."""


class MaintenanceKind(StrEnum):
    """The tasks that this version knows. A row may carry another kind, of another version: it is left alone."""

    REBUILD = "index_rebuild"
    """Write all points of a tenant, or of one forest, anew."""
    PARITY = "index_parity"
    """Make a tenant's rows and points agree after one of the stores was restored or lost."""


@dataclass(frozen=True, slots=True)
class MaintenanceTask:
    """One task: what it is about (``subject`` and ``arguments``) and how far it has come (``progress``)."""

    id: TaskId
    kind: str
    subject: str
    arguments: Numbers
    progress: Numbers
    state: str
    attempts: int
    lost_leases: int
    created_at: datetime
    finished_at: datetime | None
    error_code: str | None
    error_text: str | None

    @property
    def finished(self) -> bool:
        """Whether nothing will happen to it anymore."""
        return self.state in ("done", "dead")


@dataclass(frozen=True, slots=True)
class ClaimedTask:
    """A task held under a lease."""

    token: LeaseToken
    task: MaintenanceTask


class MaintenanceRows(Protocol):
    """Task rows of one transaction of a tenant."""

    def enqueue(self, kind: str, subject: str, arguments: Numbers, lane: int = 0) -> TaskId:
        """Ask for a task; while one of this kind and subject waits or runs, that one is meant."""
        ...

    def claim(self, kinds: Sequence[str], worker: WorkerId, lease_s: float) -> ClaimedTask | None:
        """Take the next task of these kinds, live lane first, then the one that has waited longest."""
        ...

    def keep(self, token: LeaseToken, progress: Numbers, lease_s: float) -> bool:
        """Store progress and renew the lease; False when the lease was lost."""
        ...

    def finish(self, token: LeaseToken) -> bool:
        """The task is done; False when the lease was lost."""
        ...

    def retry(self, token: LeaseToken, delay_s: float, counts: bool, code: str, text: str) -> None:
        """Give the task back for a later try; ``counts`` says whether this try counts against it."""
        ...

    def hand_back(self, token: LeaseToken) -> None:
        """Give the task back with what it has reached, for whoever comes next."""
        ...

    def bury(self, token: LeaseToken, code: str, text: str) -> None:
        """The task can't succeed until somebody acts."""
        ...

    def get(self, task: TaskId) -> MaintenanceTask | None:
        """One task."""
        ...

    def list(self, kinds: Sequence[str], limit: int) -> Sequence[MaintenanceTask]:
        """Tasks of these kinds, the newest first."""
        ...


class MaintenanceStore(Protocol):
    """Opens transactions on tasks."""

    def maintaining(self, tenant: TenantId) -> AbstractContextManager[MaintenanceRows]:
        """One transaction of a tenant."""
        ...
