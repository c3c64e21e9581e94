"""What giving a whole database another embedding model needs from the store."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from memforest_core.domain.ids import NodeId, TenantId, TreeId
from memforest_core.models.calls import CallRecord, OwnText, Vectors
from memforest_core.refresh.records import ChildText
from memforest_core.transfer.rebuild.records import Spent


class TextKind(StrEnum):
    """Whose texts have vectors of their own."""

    CELL = "cell"
    CANDIDATE = "candidate"
    FACT = "fact"


@dataclass(frozen=True, slots=True)
class TextPage:
    """Texts of some rows, and the last row among them; None after the last page."""

    texts: tuple[OwnText, ...]
    last: UUID | None


@dataclass(frozen=True, slots=True)
class StoredSummary:
    """A node's summary, whether a model wrote it, and its children under the new model."""

    node_id: NodeId
    version: int
    text: str
    from_model: bool
    children: tuple[ChildText, ...]


@dataclass(frozen=True, slots=True)
class NewVectors:
    """A summary's vectors under the new model."""

    node_id: NodeId
    version: int
    vector: Vectors
    pooled: Vectors


class ReembedRows(Protocol):
    """Rows of one transaction of a tenant."""

    def texts_after(self, kind: TextKind, after: UUID | None, limit: int) -> TextPage:
        """Texts of the next rows in the order of ids."""
        ...

    def known_vectors(self, model: str, texts: Collection[OwnText]) -> dict[OwnText, Vectors]:
        """The vectors of those texts that have one under this model."""
        ...

    def put_vectors(self, model: str, vectors: Mapping[OwnText, Vectors]) -> None:
        """Keep vectors of texts."""
        ...

    def levels(self) -> int:
        """The height of the highest tree."""
        ...

    def summaries(self, level: int, model: str, limit: int) -> Sequence[StoredSummary]:
        """Summaries of a level that have no vectors of this model; those below them have."""
        ...

    def counts(self, model: str) -> tuple[int, int, int, int]:
        """Summaries without vectors of this model, those among them that a model wrote with their characters, and
        scenes."""
        ...

    def put_summaries(self, model: str, vectors: Sequence[NewVectors]) -> None:
        """Give summaries their vectors, unless they were written again meanwhile."""
        ...

    def recenter(self, after: TreeId | None, model: str, limit: int) -> TreeId | None:
        """Make the centroids of the next scenes anew from what routing compares; the last of them, None at the end."""
        ...

    def record_call(self, call: CallRecord) -> None:
        """Keep what an embedding call cost."""
        ...

    def spent(self, model: str) -> Spent:
        """What the tenant's embedding calls of this model have cost."""
        ...


class ReembedStore(Protocol):
    """Opens transactions, and knows what goes on in the whole database."""

    def reembedding(self, tenant: TenantId) -> AbstractContextManager[ReembedRows]:
        """One transaction of a tenant."""
        ...

    def workers(self, dead_after_s: float) -> Sequence[str]:
        """The names of worker processes that are alive."""
        ...

    def live_collection(self) -> str | None:
        """The name of the collection that is in use."""
        ...

    def switch(self, name: str, model: str, dimension: int) -> None:
        """Make this the collection in use."""
        ...
