"""What a forest being filled knows of its trees: their scopes, their leaves, and what summaries are made from."""

from __future__ import annotations

from dataclasses import dataclass, field

from memforest_core.domain.ids import PayloadId, SessionId, TreeId, TreeKind
from memforest_core.domain.indexed import TermCounts
from memforest_core.memtree import Key, Node, leaf
from memforest_core.models.calls import Vectors
from memforest_core.settings import ReduceSettings

REDUCE = ReduceSettings()


@dataclass(frozen=True, slots=True)
class Child:
    """What a node above reads of what is below it."""

    text: str
    pooled: Vectors
    counts: TermCounts
    leaves: int


@dataclass(slots=True)
class Scope:
    """What one tree is about, and its leaves so far."""

    id: TreeId
    kind: TreeKind
    key: str
    label: str
    k: int
    session: SessionId | None = None
    domain: str = ""
    always: bool = False
    """Has a tree from its first leaf."""
    leaves: dict[PayloadId, Node] = field(default_factory=dict)
    sessions: dict[PayloadId, SessionId] = field(default_factory=dict)

    @property
    def active(self) -> bool:
        """Whether there is evidence enough for a tree."""
        return self.always or (
            len(self.leaves) >= REDUCE.entity_min_facts
            and len(set(self.sessions.values())) >= REDUCE.entity_min_sessions
        )

    def take(self, payload: PayloadId, key: Key, span: tuple[int, int], session: SessionId) -> None:
        """One more leaf."""
        self.leaves[payload] = leaf(self.id, payload, key, *span)
        self.sessions[payload] = session
