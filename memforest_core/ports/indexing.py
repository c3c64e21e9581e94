"""What the indexer needs from the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from memforest_core.domain.ids import ForestId, LeaseToken, SessionId, TenantId, TreeId, WorkerId
from memforest_core.domain.indexed import TermCounts
from memforest_core.ports.extract import VectorRows
from memforest_core.ports.index import PointKind
from memforest_core.ports.models import CallRecord, Vectors

NO_TERMS = TermCounts(())


@dataclass(frozen=True, slots=True)
class StalePoint:
    """An index row that is behind, with what its point is made of.

    ``text`` is embedded, unless ``vector`` is there (nodes bring their own). ``gone`` points are deleted.
    """

    id: UUID
    forest_id: ForestId
    kind: PointKind
    version: int
    gone: bool
    text: str = ""
    vector: Vectors | None = None
    counts: TermCounts = NO_TERMS
    leaves: int = 1
    tree_id: TreeId | None = None
    tree_kind: str | None = None
    level: int | None = None
    is_root: bool = False
    session_id: SessionId | None = None
    time_start: float | None = None
    time_end: float | None = None


class IndexRows(VectorRows, Protocol):
    """Rows of one indexing transaction."""

    def claim_points(
        self, kinds: Sequence[PointKind], worker: WorkerId, limit: int, lease_s: float
    ) -> tuple[LeaseToken, list[StalePoint]]:
        """Take index rows that are behind, under one lease."""
        ...

    def finish_points(self, token: LeaseToken, versions: Mapping[UUID, int]) -> None:
        """The index holds these versions; rows changed meanwhile stay behind."""
        ...

    def retry_points(self, token: LeaseToken, delay_s: float, code: str, text: str) -> None:
        """Give the rows back for a later try."""
        ...

    def record_calls(self, calls: Sequence[CallRecord], forest: ForestId | None, session: SessionId | None) -> None:
        """Account for model calls."""
        ...


class IndexStore(Protocol):
    """Opens indexing transactions."""

    def indexing(self, tenant: TenantId) -> AbstractContextManager[IndexRows]:
        """One transaction of a tenant."""
        ...
