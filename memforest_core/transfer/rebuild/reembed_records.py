"""What giving a whole database another embedding model needs from the store."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from memforest_core.domain.ids import NodeId
from memforest_core.models.calls import OwnText, Vectors
from memforest_core.refresh.records import ChildText


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
