"""What verification checks and finds, and its report: what was checked, what is wrong, what was repaired."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from uuid import UUID

EXAMPLES = 5
"""Violations named per check; all are counted."""

DERIVED_NODE_FIELDS = frozenset({"leaf_count", "interval"})
PERSISTENT_COUNTERS = frozenset({"members"})


class Check(StrEnum):
    """One check each, in the order of the report: the table whose rows it checks, the promise, whether it is repaired.

    Repairable are derived artifacts, and who works on what. Persistent state is never changed.
    """

    table: str
    promise: str
    repairable: bool

    def __new__(cls, value: str, table: str, promise: str, repairable: bool = False) -> Check:
        check = str.__new__(cls, value)
        check._value_, check.table, check.promise, check.repairable = value, table, promise, repairable
        return check

    TURNS = "turns", "session", "turns of a session are numbered from 0 without gaps, in cells, or blank if erased"
    CELLS = "cells", "cell", "cells cover all turns of their session once, in order"
    PACKS = "packs", "turn_pack", "a pack has the texts of the turns that name it, and no other"
    SESSION_COUNTERS = "session_counters", "session", "sessions count their turns and cells", True
    WINDOWS = "windows", "cell", "a cell that waits for extraction can be claimed", True
    OUTCOMES = "outcomes", "cell", "an extracted cell says how that ended"
    CANDIDATES = "candidates", "candidate", "a placed cell's candidates have one fact each; none is superseded"
    OCCURRENCES = "occurrences", "occurrence", "occurrences name turns of their cell's session and facts of its forest"
    FACTS = "facts", "fact", "every fact has an occurrence and is in a scope"
    TREE_HEADS = "tree_heads", "tree", "active trees have one root, other scopes none"
    TREE_NODES = (
        "tree_nodes",
        "node",
        "nodes are linked, filled, ordered and bounded as their tree's branching says",
        True,
    )
    TREE_COUNTERS = "tree_counters", "tree", "trees know their leaves, members and height", True
    PLACEMENTS = "placements", "placement", "no scope with a tree has a placement"
    LEAVES = "leaves", "node", "every leaf has its payload, under the payload's key and interval"
    PLACED_CELLS = "placed_cells", "cell", "every placed cell has its leaf in its session's tree"
    CHANGES = "changes", "fact", "a corrected fact has its successor"
    SESSION_WINDOWS = (
        "session_windows",
        "session_window",
        "a session's window is of turns that are there, not deleted",
        True,
    )
    TOPICS = "topics", "turn_topic", "a turn's topic is a scene of its forest, and no deleted turn has one"
    CALENDAR = "calendar", "calendar_digest", "a day's digest is of turns that are there", True
    LEASES = "leases", "index_row", "work is running exactly when somebody holds a lease on it", True
    TASKS = "tasks", "maintenance", "maintenance is running exactly when somebody holds a lease on it", True
    FORESTS = "forests", "forest", "no forest is frozen, hidden or going without an operation that is at it"
    DUE_TREES = "due_trees", "tree", "a tree is due exactly when it has a dirty node", True
    DIRTY_PATHS = "dirty_paths", "node", "what is above a dirty node is dirty", True
    SUMMARIES = "summaries", "node", "a clean node's summary was made from its children's texts as they are", True
    INDEX_ROWS = "index_rows", "index_row", "rows are of something, and done when the index has their version", True
    UNINDEXED = "unindexed", "index_row", "every cell, fact and summary has an index row", True
    ORPHAN_VECTORS = "orphan_vectors", "vector", "every vector is of a text that its forest still has", True
    INDEX_POINTS = "index_points", "index_row", "the index has every point that its row says, with its contents", True
    ORPHAN_POINTS = "orphan_points", "index_row", "every point of the index has its row, and is not newer than it", True


@dataclass(frozen=True, slots=True)
class Found:
    """A violation: the id of the row that breaks a promise, of vectors their forest's, and a stable word for how."""

    id: UUID
    what: str


def can_be_repaired(check: Check, found: Found) -> bool:
    """Whether a violation is of something that can be made again from persistent state."""
    if check is Check.TREE_NODES:
        return found.what in DERIVED_NODE_FIELDS
    return check.repairable and found.what not in PERSISTENT_COUNTERS


@dataclass(slots=True)
class CheckResult:
    """One check. ``kinds`` counts the violations that are left; ``not_checked`` says why nothing could be checked."""

    check: Check
    checked: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    examples: list[Found] = field(default_factory=list)
    repaired: int = 0
    not_checked: str | None = None

    def add_violations(self, kinds: Mapping[str, int], some: Sequence[Found]) -> None:
        """Add violations that are left, by kind; of ``some`` of them a few become examples."""
        self.kinds.update(kinds)
        self.examples += some[: EXAMPLES - len(self.examples)]

    @property
    def violations(self) -> int:
        """How often the promise is broken."""
        return self.kinds.total()

    @property
    def promise(self) -> str:
        return self.check.promise


@dataclass(slots=True)
class Report:
    """All checks over the forests that were checked. ``dead`` counts work that was given up: no violation."""

    forests: int = 0
    results: dict[Check, CheckResult] = field(default_factory=lambda: {check: CheckResult(check) for check in Check})
    dead: Counter[str] = field(default_factory=Counter)

    @property
    def checks(self) -> tuple[CheckResult, ...]:
        return tuple(self.results.values())

    @property
    def violations(self) -> int:
        """How many promises are broken."""
        return sum(result.violations for result in self.checks)

    @property
    def repaired(self) -> int:
        return sum(result.repaired for result in self.checks)

    @property
    def complete(self) -> bool:
        """Whether everything could be checked."""
        return all(result.not_checked is None for result in self.checks)
