"""What is stored, as readers see it. Times are aware datetimes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from memforest_core.domain.facts import Statement
from memforest_core.domain.ids import FactId, NodeId, TreeId, TreeKind
from memforest_core.domain.pages import Document, Page


@dataclass(frozen=True, slots=True)
class StoredOwner:
    """One owner's memory, in numbers."""

    owner: str
    display_name: str | None
    sessions: int
    turns: int
    facts: int
    updated_at: datetime | None
    """When its last turn was accepted; None before the first one."""


@dataclass(frozen=True, slots=True)
class StoredSession:
    """One session."""

    id: str
    """The caller's id."""
    started_at: datetime
    updated_at: datetime
    """When its last turn was accepted."""
    turns: int
    cells: int
    metadata: Mapping[str, object]
    origin: str | None
    """Whose forest it was accepted in, when it came here by a merge."""
    channel: str | None = None
    """Where it took place, if that was said."""
    pinned: bool = False
    """Whether policies leave it alone."""


@dataclass(frozen=True, slots=True)
class FactSource:
    """Where a fact was said: turns of one session, by their ids, in order."""

    session_id: str
    turn_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StoredFact:
    """One canonical fact, and every place where it was said."""

    id: FactId
    statement: Statement
    known_since: datetime
    """When it was stored."""
    pinned: bool
    superseded_by: FactId | None
    """The fact that corrected it."""
    sources: tuple[FactSource, ...]

    @property
    def text(self) -> str:
        """Its sentence."""
        return self.statement.text


@dataclass(frozen=True, slots=True)
class StoredTree:
    """One tree."""

    id: TreeId
    kind: TreeKind
    label: str
    """What it is about: a session's id, an entity's name, a scene's domain."""
    leaves: int
    height: int
    k: int
    """Children of a node at most."""
    root_id: NodeId
    start: datetime | None
    """The earliest time of its leaves, if known."""
    end: datetime | None
    summary: str
    """Of its root; empty when it has none yet."""
    title: str = ""
    """Of a scene; empty when it has none yet."""
    title_source: str = ""
    """How the title was made: "model", "terms" (its most telling terms), or "degraded" (as terms, since the model was
    unavailable)."""


@dataclass(frozen=True, slots=True)
class TreeNode:
    """One node, without what is around it."""

    id: NodeId
    level: int
    """0 is a leaf."""
    leaves: int
    start: datetime | None
    end: datetime | None
    text: str
    """Its summary; of a leaf the fact or the cell."""
    source: str
    """How the text was made: "fact", "cell", or the summary's source; empty when there is none yet."""
    fresh: bool
    """Whether the text has seen all leaves below it."""
    fact_id: FactId | None
    """Of a leaf that is a fact."""


@dataclass(frozen=True, slots=True)
class StoredNode(Document):
    """One node, and the nodes around it."""

    node: TreeNode
    tree_id: TreeId
    kind: TreeKind
    label: str
    parent: TreeNode | None
    predecessor: TreeNode | None
    """The node before it in time, on the same level of the tree."""
    successor: TreeNode | None
    children: Page[TreeNode]
