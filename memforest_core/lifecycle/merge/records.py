"""Records of a merge: a source as rows of ids and structure, copies made in sets, and the report of a dry run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from memforest_core.domain.facts import Statement
from memforest_core.domain.ids import CellId, FactId, ScopeState, SessionId, TreeId, TreeKind
from memforest_core.lifecycle.merge.transplanting import Successor, Transplant
from memforest_core.memtree import Key, Node, TreeHead
from memforest_core.models.calls import Vectors


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session of a source."""

    id: SessionId
    external_id: str
    turns: int


class Meeting(StrEnum):
    """How a source's session meets what the target has."""

    NEW = "new"
    SAME = "same"
    """The target has all of its turns."""
    LONGER = "longer"
    """The target has its first turns."""


@dataclass(frozen=True, slots=True)
class SessionPlan:
    """What a session becomes, and the caller's id that it gets in the target.

    Turns from ``first_turn`` on are copied, into cells from ``first_cell`` on.
    """

    source: StoredSession
    target: SessionId
    name: str
    meeting: Meeting = Meeting.NEW
    first_turn: int = 0
    first_cell: int = 0

    @property
    def renamed(self) -> bool:
        """The target has another session of its id."""
        return self.name != self.source.external_id


@dataclass(frozen=True, slots=True)
class Overlap:
    """A session that the target has already, under the id that a source's session would get."""

    turns: int
    """How many the target has."""
    cells: int
    differs: bool
    """Some turn that both have is another one."""


@dataclass(frozen=True, slots=True)
class StoredCell:
    """A cell as merging sees it; the lowest free numbers for what was extracted from it, and for corrections."""

    id: CellId
    session_id: SessionId
    ordinal: int
    window: int
    first_turn: int
    last_turn: int
    char_start: int
    start: int
    end: int
    """Times in microseconds."""
    settled: bool
    """Extracted and placed: what is attached to it stays attached."""
    next_item: int
    next_correction: int


@dataclass(frozen=True, slots=True)
class CellCopy:
    """What a cell becomes in the target. ``cut``: the target has its first turns already, in a cell of its own."""

    source: StoredCell
    cell_id: CellId
    session_id: SessionId
    ordinal: int
    window_ordinal: int
    first_turn: int
    cut: bool


@dataclass(frozen=True, slots=True)
class StoredItem:
    """A candidate and the fact it is attached to; what it says, when it is a correction that has no fact yet."""

    cell_id: CellId
    item: int
    turns: tuple[int, ...]
    fact_id: FactId | None
    pending: Statement | None = None


@dataclass(frozen=True, slots=True)
class ItemCopy:
    """What a candidate becomes in the target; ``fact_id`` is the target's."""

    cell_id: CellId
    item: int
    new_cell: CellId
    new_item: int
    session_id: SessionId
    fact_id: FactId | None


@dataclass(frozen=True, slots=True)
class StoredFact:
    """A fact: what it says, the key and the interval of its leaves (microseconds), and what became of it."""

    id: FactId
    statement: Statement
    text_hash: bytes
    key: Key
    start: int
    end: int
    pinned: bool
    superseded: bool
    superseded_by: FactId | None


@dataclass(frozen=True, slots=True)
class FactCopy:
    """A fact of the source, the target's, and the target's successor of it if it was corrected."""

    source: FactId
    target: FactId
    superseded_by: FactId | None


@dataclass(frozen=True, slots=True)
class StoredScope:
    """A scope; ``total`` is the vector sum of a scene, times are microseconds."""

    id: TreeId
    kind: TreeKind
    key: str
    state: ScopeState
    k: int
    head: TreeHead | None
    domain: str
    total: Vectors | None
    start: int | None
    end: int | None


@dataclass(slots=True)
class ScopeCopy:
    """A scope of the source: its id and key in the target, the target's scope of that id, and the members it brings.

    ``copy`` is the source's tree, where that becomes the target's.
    """

    source: StoredScope
    id: TreeId
    key: str
    there: StoredScope | None
    plan: SessionPlan | None
    members: list[tuple[Successor, SessionId]]
    copy: Transplant | None = None

    @property
    def leaves(self) -> list[Node]:
        """The members as leaves of the target's tree."""
        return [successor.leaf(self.id) for successor, _ in self.members]

    @property
    def transplanted(self) -> bool:
        """Whether the source's tree is copied whole: the target has no such scope."""
        new = self.plan is None or self.plan.meeting is Meeting.NEW
        return new and self.there is None and self.source.head is not None and bool(self.members)


@dataclass(frozen=True, slots=True)
class ValueConflict:
    """Two facts about one attribute of one subject that give it different values for the same time (microseconds)."""

    subject: str
    attribute: str
    source_fact: FactId
    source_text: str
    source_value: str
    target_fact: FactId
    target_text: str
    target_value: str
    since: int


NAMED = 200
"""Examples of each kind that a report names; all are counted."""


class Counted(StrEnum):
    """The numbers of a receipt."""

    SESSIONS = "sessions"
    """Sessions copied."""
    SESSIONS_SAME = "sessions_same"
    """Sessions that the target has, whole or their beginning."""
    SESSIONS_CONFLICTING = "sessions_conflicting"
    """Sessions of one id with other turns, copied under another id; they are among ``sessions`` too."""
    FACTS = "facts"
    """Facts copied."""
    FACTS_EXACT = "facts_exact"
    FACTS_NEAR = "facts_near"
    CONFLICTS = "conflicts"
    """Conflicting sessions, and pairs of facts that give one attribute different values for the same time."""
    TREES_COPIED = "trees_copied"
    TREES_MATCHED = "trees_matched"
    LEAVES_INSERTED = "leaves_inserted"
    """Into matching trees, or instead of leaves of facts that the target has in other words."""
    NODES_DIRTY = "nodes_dirty"
    """Nodes that have to be summarized because of the merge."""


Tally = Counter[str]
"""Counts by what is ``Counted``."""


def numbers(tally: Mapping[str, str | int]) -> dict[str, int]:
    """All counts under their names, as a receipt has them; those that are not there are 0."""
    return {name.value: int(tally.get(name, 0)) for name in Counted}


@dataclass(frozen=True, slots=True)
class RenamedSession:
    """A session whose id another one with other turns has in the target: it is stored under another id."""

    owner: str
    session_id: str
    stored_as: str


@dataclass(frozen=True, slots=True)
class NearDuplicate:
    """Two sentences that become one fact; the target's stays."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class ConflictReport:
    """What a merge would do. ``counts`` are complete (they are those of the receipt); lists name some of each kind."""

    counts: Mapping[str, int]
    sessions: tuple[RenamedSession, ...]
    values: tuple[ValueConflict, ...]
    exact: tuple[str, ...]
    """Sentences that both sides have."""
    near: tuple[NearDuplicate, ...]

    @property
    def conflicts(self) -> int:
        """How much contradicts: sessions of one id, and values of one attribute at one time."""
        return self.counts["conflicts"]
