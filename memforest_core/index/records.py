"""What the indexer needs from the store, and for comparing rows with points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from memforest_core.domain.ids import ForestId, LeaseToken, TenantId, WorkerId
from memforest_core.domain.indexed import TermCounts, bm25_weights
from memforest_core.index.vector_index import Point, PointKey, PointKind, SparseVector
from memforest_core.models.calls import OwnText, Vectors

NO_TERMS = TermCounts(())

LEASE_S = 120.0
"""How long a claimed index row is left to its worker."""


@dataclass(slots=True)
class PointLease:
    """Index rows that a writer makes under a lease of its worker's, because it indexes them itself after its commit:
    they need no claim.

    ``points`` may name rows whose transaction was rolled back.
    """

    worker: WorkerId
    token: LeaseToken = field(default_factory=lambda: LeaseToken(uuid4()))
    points: set[UUID] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class StalePoint:
    """An index row that is behind, with what its point is made of.

    ``text`` is embedded, unless ``vector`` is there (nodes bring their own). ``gone`` points are deleted, and so are
    those of ``cold`` rows, which stay.
    """

    id: UUID
    forest_id: ForestId
    kind: PointKind
    version: int
    gone: bool
    cold: bool = False
    text: str = ""
    turns: tuple[int, ...] = ()
    """Of a cell: where in ``text``, in characters, its turns begin."""
    vector: Vectors | None = None
    counts: TermCounts = NO_TERMS
    leaves: int = 1
    place: Mapping[str, Any] = field(default_factory=dict)
    """Fields of its ``Point``: the tree and level of a node, the session of a cell, its times."""
    waited_s: float | None = None
    """Of a cell that is indexed for the first time: how long ago it was accepted, in seconds, when it was claimed."""

    @property
    def wanted(self) -> bool:
        """Whether the index should have the point."""
        return not self.gone and not self.cold

    @property
    def own_text(self) -> OwnText:
        """Its text, whose vector belongs to its forest."""
        return OwnText(self.forest_id, self.text)

    def key(self, tenant: TenantId) -> PointKey:
        """What names it in the index."""
        return PointKey(tenant, self.forest_id, self.id)

    def point(self, tenant: TenantId, vectors: Mapping[OwnText, Vectors]) -> Point:
        """The point, with the vector of its text among ``vectors``."""
        return Point(
            id=self.id,
            tenant=tenant,
            forest_id=self.forest_id,
            kind=self.kind,
            version=self.version,
            dense=self.vector if self.vector is not None else vectors[self.own_text],
            sparse=SparseVector(*bm25_weights(self.counts, self.leaves)),
            **self.place,
        )


def texts_of(points: Sequence[StalePoint]) -> list[OwnText]:
    """The texts of those points that bring no vector."""
    return list(dict.fromkeys(point.own_text for point in points if point.wanted and point.vector is None))


@dataclass(frozen=True, slots=True)
class PointRow:
    """An index row's own idea of its point: the version wanted and the version last seen written, 0 for none."""

    id: UUID
    forest_id: ForestId
    version: int
    indexed_version: int
    deleted: bool
    cold: bool = False
    """There should be no point for it now."""

    def key(self, tenant: TenantId) -> PointKey:
        """What names its point."""
        return PointKey(tenant, self.forest_id, self.id)


@dataclass(frozen=True, slots=True)
class StoredGeneration:
    """The live collection, and the generation that the database has.

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
