"""What waiting for accepted work needs from the store."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from memforest_core.domain.ids import ForestId, SessionId, TenantId
from memforest_core.work.jobs import WorkError


@dataclass(frozen=True, slots=True)
class Backlog:
    """What a forest still has to do: cells not in the trees, dirty trees, index rows behind."""

    cells: int
    trees: int
    points: int

    @property
    def done(self) -> bool:
        """Whether everything accepted is durable, placed, refreshed and indexed."""
        return self.cells + self.trees + self.points == 0


class FlushRows(Protocol):
    """Rows of one flushing transaction."""

    def forest(self, owner: str) -> ForestId | None:
        """The owner's forest."""
        ...

    def backlog(self, forest: ForestId) -> Backlog:
        """What the forest still has to do (dead work is not counted)."""
        ...

    def last_error(self, forest: ForestId) -> WorkError | None:
        """What the last failed try of the forest's unfinished work ended with."""
        ...

    def release_held(self, forest: ForestId) -> int:
        """Close the forest's open last cells now; how many became ready."""
        ...

    def make_due(self, forest: ForestId, session: SessionId | None) -> int:
        """Make dirty trees due now: those that a session touches, or all; how many."""
        ...


class FlushStore(Protocol):
    """Opens flushing transactions."""

    def flushing(self, tenant: TenantId) -> AbstractContextManager[FlushRows]:
        """One transaction of a tenant."""
        ...
