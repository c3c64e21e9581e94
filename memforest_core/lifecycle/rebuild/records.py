"""What a rebuild and a change of the embedding model read from the store."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from memforest_core.domain.ids import ForestId, NodeId, TreeId, TreeKind
from memforest_core.ingest.reduce.records import Rules
from memforest_core.ingest.refresh.records import ChildText


@dataclass(frozen=True, slots=True)
class Pair:
    """A live forest and the hidden one that will take its place."""

    source: ForestId
    copy: ForestId
    extract: bool
    """Cells of the copy are extracted again; else their candidates are copied."""


@dataclass(frozen=True, slots=True)
class Remaining:
    """What the copy still has to do, and its cells that can't be done."""

    extracting: int
    placing: int
    trees: int
    points: int
    dead: int

    @property
    def placed(self) -> bool:
        """Whether every cell is in the trees."""
        return self.extracting + self.placing == 0

    @property
    def done(self) -> bool:
        """Whether the copy is placed, refreshed and indexed."""
        return self.placed and self.trees + self.points == 0


@dataclass(frozen=True, slots=True)
class PlannedTree:
    """An active tree as it is now: its leaves' texts in key order."""

    id: TreeId
    kind: TreeKind
    label: str
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Spent:
    """What calls of one step and model have cost a tenant so far."""

    calls: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float
    cached_tokens: int = 0
    """Of the prompt tokens: those that the provider's cache knew."""


@dataclass(frozen=True, slots=True)
class Counts:
    """The sizes of a forest."""

    sessions: int
    turns: int
    cells: int
    candidates: int
    candidate_chars: int
    """Of their statements and quotes as JSON, which is about what a model writes to say them."""
    text_chars: int
    """Of their sentences alone."""
    unembedded: int
    """Texts of cells, facts and candidates that have no vector of the model."""
    unembedded_chars: int


@dataclass(frozen=True, slots=True)
class Options:
    """What a rebuild changes. Rules that are not named stay as the forest has them."""

    rules: Rules = field(default_factory=dict)
    extract: bool = False
    """Read every cell again, with today's prompt and model; answers that were paid for before are used."""
    summaries: bool = False
    """Write every summary again, with today's prompt and model; otherwise equal inputs have their summary already."""


class TextKind(StrEnum):
    """Whose texts have vectors of their own."""

    CELL = "cell"
    CANDIDATE = "candidate"
    FACT = "fact"


@dataclass(frozen=True, slots=True)
class StoredSummary:
    """A node's summary, whether a model wrote it, and its children under the new model."""

    node_id: NodeId
    version: int
    text: str
    from_model: bool
    children: tuple[ChildText, ...]
