"""The vector index: dense and sparse search over facts, cells and nodes; always rebuildable."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, NamedTuple, Protocol
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from pydantic import GetPydanticSchema
from pydantic_core import core_schema

from memforest_core.domain.ids import ForestId, SessionId, TenantId, TreeId
from memforest_core.errors import InvalidSettings


def _as_numbers(_source: Any, _handler: Any) -> core_schema.CoreSchema:
    """JSON of a vector: its float32 numbers, little-endian, in base64. As decimal numbers they are four
    times as long and take most of a call's time."""
    return core_schema.no_info_after_validator_function(
        lambda text: np.frombuffer(b64decode(text, validate=True), dtype="<f4"),
        core_schema.str_schema(),
        serialization=core_schema.plain_serializer_function_ser_schema(
            lambda vector: b64encode(np.ascontiguousarray(vector, dtype="<f4").tobytes()).decode()
        ),
    )


DenseVector = Annotated[NDArray[np.float32], GetPydanticSchema(_as_numbers)]


class PointKind(StrEnum):
    """What a point represents."""

    FACT = "fact"
    CELL = "cell"
    NODE = "node"


@dataclass(frozen=True, slots=True)
class SparseVector:
    """Term weights: sorted unique uint32 indices and their positive values, same length."""

    indices: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class PointKey:
    """Whose point it is and which row it represents. Two keys never mean the same point, whatever ids rows have."""

    tenant: TenantId
    forest_id: ForestId
    id: UUID


@dataclass(frozen=True, slots=True)
class Point:
    """One index row. ``id`` is that of the row it represents; ``version`` only grows.

    Times are seconds since 1970 (float), None when unknown. ``tree_id``, ``level`` and ``is_root`` are set for nodes;
    ``session_id`` for cells.
    """

    id: UUID
    tenant: TenantId
    forest_id: ForestId
    kind: PointKind
    version: int
    dense: DenseVector
    sparse: SparseVector
    tree_id: TreeId | None = None
    tree_kind: str | None = None
    level: int | None = None
    is_root: bool = False
    session_id: SessionId | None = None
    time_start: float | None = None
    time_end: float | None = None

    @property
    def key(self) -> PointKey:
        """What names the point."""
        return PointKey(self.tenant, self.forest_id, self.id)


@dataclass(frozen=True, slots=True)
class IndexFilter:
    """What a search may see; always one forest of one tenant. Empty tuples mean "any"."""

    tenant: TenantId
    forest_id: ForestId
    kinds: tuple[PointKind, ...] = ()
    roots_only: bool = False
    tree_ids: tuple[TreeId, ...] = ()
    tree_kinds: tuple[str, ...] = ()
    session_ids: tuple[SessionId, ...] = ()
    ids: tuple[UUID, ...] | None = None
    """Score just these points; an empty tuple finds nothing."""
    overlaps: tuple[float, float] | None = None
    """Keep points whose [time_start, time_end] touches this interval, in seconds since 1970."""


@dataclass(frozen=True, slots=True)
class IndexQuery:
    """One search: a dense vector (cosine) or sparse terms (weights times IDF within the forest)."""

    vector: SparseVector | DenseVector
    filter: IndexFilter
    limit: int
    min_score: float | None = None


class Hit(NamedTuple):
    """A found point: its id, kind and score (cosine, or the sparse dot product)."""

    id: UUID
    kind: PointKind
    score: float


@dataclass(frozen=True, slots=True)
class Hits:
    """What one query found, by columns of equal length, as a recall needs its thousand hits. Iterating gives each
    ``Hit``."""

    ids: list[UUID]
    kinds: list[PointKind]
    scores: list[float]

    def __post_init__(self) -> None:
        if not len(self.ids) == len(self.kinds) == len(self.scores):
            raise ValueError("columns of hits differ in length")

    @classmethod
    def of(cls, hits: Iterable[Hit]) -> Hits:
        """These hits, in their order."""
        rows = list(hits)
        return cls([hit.id for hit in rows], [hit.kind for hit in rows], [hit.score for hit in rows])

    @classmethod
    def of_kind(cls, kind: PointKind, ids: list[UUID], scores: list[float]) -> Hits:
        """Hits that are all of one kind."""
        return cls(ids, [kind] * len(ids), scores)

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Hit]:
        return map(Hit, self.ids, self.kinds, self.scores)


@dataclass(frozen=True, slots=True)
class ScannedPoint:
    """A stored point without its vectors; ``kind`` as it is stored."""

    id: UUID
    tenant: TenantId
    forest_id: ForestId
    version: int
    kind: str

    @property
    def key(self) -> PointKey:
        """What names the point."""
        return PointKey(self.tenant, self.forest_id, self.id)


@dataclass(frozen=True, slots=True)
class ScanPage:
    """Points in an order that stays, and where the next page begins; None after the last."""

    points: tuple[ScannedPoint, ...]
    cursor: str | None


class VectorIndex(Protocol):
    """The port that a Qdrant server and the in-process Qdrant engine both fill."""

    @property
    def name(self) -> str:
        """The collection in use; carries embedding model and dimension."""

    def prepare(self) -> None:
        """Create the collection and its payload indexes when missing.

        Raises InvalidSettings when an existing collection has another dimension; IndexUnavailable.
        """

    def upsert(self, points: Sequence[Point]) -> None:
        """Write points durably; a point whose stored version is newer or equal stays as it is."""

    def delete(self, keys: Sequence[PointKey]) -> None:
        """Remove points; unknown ones are ignored."""

    def search(self, queries: Sequence[IndexQuery]) -> list[Hits]:
        """All searches in one round trip; for each, hits with the best score first (of points named by ids: in any
        order)."""

    def versions(self, keys: Sequence[PointKey]) -> dict[UUID, int]:
        """The stored version of each of these points of one tenant that exists, by the row it represents."""

    def differing(self, points: Sequence[Point]) -> frozenset[UUID]:
        """Those of these points of one tenant that are stored under the same version with another vector (within half
        precision), other terms or payload, or that no search finds by their payload."""

    def set_aside(self) -> None:
        """Set damaged files aside and begin an empty collection without a mark, which the next comparison fills from
        rows. Those of a server are left to it."""

    def count(self, tenant: TenantId, forest_id: ForestId | None = None) -> int:
        """How many points a tenant, or one forest of it, has."""

    def scan(self, cursor: str | None, limit: int, tenant: TenantId | None = None) -> ScanPage:
        """The next ``limit`` points of all tenants, or of one; ``cursor`` is that of the page before, None at first."""

    def read_mark(self) -> str | None:
        """What the collection was marked with last; None for a new one."""

    def write_mark(self, mark: str) -> None:
        """Mark the collection durably. No search, count or version ever sees the mark."""

    def close(self) -> None:
        """Release what is held; later calls fail."""


@dataclass(frozen=True, slots=True)
class SourceHit:
    """A point that was found: its id, its cosine, and those of its fields that are mapped. Untrusted as it is."""

    id: str
    score: float
    payload: Mapping[str, object]


class SourceMismatch(InvalidSettings):
    """A source that can't be read as it is configured, such as one with vectors that don't compare with those of the
    embedding model; the message says why."""

    code = "source_mismatch"


class External(Protocol):
    """One external collection. Thread-safe."""

    def search(self, vector: DenseVector, tenant: str, owners: Sequence[str], limit: int) -> list[SourceHit]:
        """The nearest points that this tenant and these owners may see, the nearest first.

        Raises SourceMismatch, IndexUnavailable, InvalidSettings, InvariantViolated.
        """

    def close(self) -> None:
        """Release the connection."""
