"""What the indexer needs from the store, and what keeps rows and points in agreement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from memforest_core.domain.ids import ForestId, LeaseToken, SessionId, TenantId, TreeId, WorkerId
from memforest_core.domain.indexed import TermCounts
from memforest_core.index.vector_index import PointKey, PointKind
from memforest_core.models.calls import CallRecord, Vectors
from memforest_core.store.vectors import VectorRows

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
    waited_s: float | None = None
    """Of a cell that is indexed for the first time: how long ago it was accepted, in seconds, when it was claimed."""

    def key(self, tenant: TenantId) -> PointKey:
        """What names it in the index."""
        return PointKey(tenant, self.forest_id, self.id)


@dataclass(frozen=True, slots=True)
class PointRow:
    """An index row's own idea of its point: the version wanted and the version last seen written, 0 for none."""

    id: UUID
    forest_id: ForestId
    version: int
    indexed_version: int
    deleted: bool

    def key(self, tenant: TenantId) -> PointKey:
        """What names its point."""
        return PointKey(tenant, self.forest_id, self.id)


class IndexRows(VectorRows, Protocol):
    """Rows of one indexing transaction."""

    def claim_points(
        self, kinds: Sequence[PointKind], worker: WorkerId, limit: int, lease_s: float
    ) -> tuple[LeaseToken, list[StalePoint]]:
        """Take index rows that are behind, under one lease.

        None, while it is not certain that the points are not newer than the rows: a restored store has not been
        looked at yet, or the tenant's parity task is under way.
        """
        ...

    def hold_points(self, token: LeaseToken, versions: Mapping[UUID, int]) -> frozenset[UUID]:
        """Hold the rows that are still under the lease to the end of the transaction; those that may be written.

        What somebody else has locked is left out: it is about to be marked anew, or buried.

        These are as they were claimed: nobody has marked or buried them since, and their forests were not given up.
        ``put_vectors`` of their texts belongs into the same transaction.
        """
        ...

    def finish_points(
        self, token: LeaseToken, written: Mapping[UUID, int], dropped: Mapping[UUID, int], alone: UUID | None = None
    ) -> tuple[frozenset[UUID], frozenset[UUID]]:
        """The index holds the written versions, and tombstones of the dropped ones have done their work.

        What else is under the lease is given back as behind. Returns all these, and what somebody else has locked: a
        writer of the forest that has a row may wait for another one of these, so nothing is waited for but the row
        that is given ``alone``, in a transaction of its own. Of what is in neither the lease was lost, or it was
        buried while the lease held.
        """
        ...

    def undo_points(self, token: LeaseToken, points: Sequence[UUID]) -> None:
        """These points were deleted from the index after their lease was lost: forget tombstones, renew what lives."""
        ...

    def renew_points(self, points: Sequence[UUID]) -> int:
        """Mark what lives of these points as behind: their points may be missing; how many. Leases stay."""
        ...

    def retry_points(self, token: LeaseToken, delay_s: float, code: str, text: str) -> None:
        """Give the rows back for a later try; one that somebody else has locked keeps its lease until that ends."""
        ...

    def release_points(self, token: LeaseToken, code: str, text: str) -> None:
        """Give the rows back as they were: it was not their turn that failed, the index was away."""
        ...

    def behind(self, forest: ForestId, limit: int) -> int:
        """How many of a forest's points are not in the index as they should be; ``limit`` stands for that many or more.

        Also ``limit`` while nobody knows: a restored store has not been looked at yet, or is being compared.
        """
        ...

    def behind_by_kind(self) -> Mapping[PointKind, int]:
        """How many rows of each kind are behind, over all forests."""
        ...

    def forest(self, owner: str) -> ForestId | None:
        """The forest of an owner."""
        ...

    def any_indexed(self) -> bool:
        """Whether the index holds, as far as the rows know, any point of the tenant."""
        ...

    def mark_all(self, after: UUID | None, limit: int, forest: ForestId | None, lost: bool) -> tuple[UUID | None, int]:
        """Mark the next ``limit`` rows in the order of ids as behind, under a higher version, in the backfill lane.

        ``forest`` None: of all forests. ``lost`` says that the index holds none of their points. Returns the last id,
        None when there was no row left, and how many rows.
        """
        ...

    def point_rows(self, ids: Sequence[UUID]) -> dict[UUID, PointRow]:
        """The rows of these points."""
        ...

    def written_rows(self, after: UUID | None, limit: int) -> Sequence[PointRow]:
        """The next rows in the order of ids that say that the index has their point."""
        ...

    def overtake(self, versions: Mapping[UUID, int]) -> int:
        """Raise rows above these versions, which the index holds and no row has confirmed; how many.

        They are behind then. Otherwise the guard against late writers would keep a point that no row stands for.
        """
        ...

    def mark_missing(self, rows: Sequence[PointRow], found: Mapping[UUID, int]) -> int:
        """Mark rows as behind whose point is missing, or has only the version ``found``; how many.

        Rows that changed since they were read are left: they are behind already.
        """
        ...

    def record_calls(self, calls: Sequence[CallRecord], forest: ForestId | None, session: SessionId | None) -> None:
        """Account for model calls."""
        ...


class IndexStore(Protocol):
    """Opens indexing transactions."""

    def indexing(self, tenant: TenantId) -> AbstractContextManager[IndexRows]:
        """One transaction of a tenant."""
        ...


@dataclass(frozen=True, slots=True)
class CollectionMark:
    """The live collection, and the mark that the database has of it.

    ``store`` names this start of this database, ``confirmed_store`` the one under which ``generation`` was confirmed;
    ``now`` is the database's clock in seconds since 1970.
    """

    name: str
    model: str
    dimension: int
    generation: UUID | None
    confirmed_store: str | None
    store: str
    now: float


class MarkRows(Protocol):
    """The live collection's row, held by the one process that compares the marks."""

    def confirm(self, generation: UUID, store: str) -> None:
        """Both stores have this mark now."""
        ...


class MarkStore(Protocol):
    """The mark in the database."""

    def look(self) -> CollectionMark | None:
        """The live collection; None before there is one."""
        ...

    def marking(self) -> AbstractContextManager[MarkRows | None]:
        """Rows inside for the one process that may compare and mark now, None for others."""
        ...

    def tenants(self) -> Sequence[TenantId]:
        """All tenants, in order."""
        ...
