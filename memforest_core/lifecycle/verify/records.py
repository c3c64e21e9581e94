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
INTERRUPTED = "deleted_in_part"
"""A session whose first turns were deleted with it, and whose last turns came meanwhile: its deletion is completed."""
PERSISTENT_COUNTERS = frozenset({"members"})


class Check(StrEnum):
    """One check each, in the order of the report, with the promise that it checks and whether it can be repaired.

    Repairable are derived artifacts, who works on what, and deletions that were not completed. No other persistent
    state is changed.
    """

    promise: str
    repairable: bool

    def __new__(cls, value: str, promise: str, repairable: bool = False) -> Check:
        check = str.__new__(cls, value)
        check._value_, check.promise, check.repairable = value, promise, repairable
        return check

    TURNS = "turns", "turns of a session are numbered from 0 without gaps, in cells, or blank if erased", True
    CELLS = "cells", "cells cover all turns of their session once, in order"
    SESSION_COUNTERS = "session_counters", "sessions count their turns and cells", True
    WINDOWS = "windows", "a cell that waits for extraction can be claimed", True
    OUTCOMES = "outcomes", "an extracted cell says how that ended"
    CANDIDATES = "candidates", "a placed cell's candidates are attached to one fact each; none is superseded"
    OCCURRENCES = "occurrences", "occurrences name turns that exist, of their cell's session and their fact's forest"
    FACTS = "facts", "every fact has an occurrence and is in a scope"
    TREE_HEADS = "tree_heads", "active trees have one root, other scopes none"
    TREE_NODES = "tree_nodes", "nodes are linked, filled, ordered and bounded as a tree of their branching is", True
    TREE_COUNTERS = "tree_counters", "trees know their leaves, members and height", True
    PLACEMENTS = "placements", "every placement of an active tree has its leaf"
    LEAVES = "leaves", "every leaf has its placement and its payload, under the payload's key and interval"
    PLACED_CELLS = "placed_cells", "every placed cell has its leaf in its session's tree"
    CHANGES = "changes", "a deleted turn has no words left, and a corrected fact has its successor"
    SESSION_WINDOWS = "session_windows", "a session's window is of turns that are there, and of none deleted", True
    CALENDAR = "calendar", "a day's digest is of turns that are there", True
    LEASES = "leases", "work is running exactly when somebody holds a lease on it", True
    TASKS = "tasks", "maintenance is running exactly when somebody holds a lease on it", True
    FORESTS = "forests", "no forest is frozen, hidden or going without an operation that is at it"
    DUE_TREES = "due_trees", "a tree is due exactly when it has a dirty node", True
    DIRTY_PATHS = "dirty_paths", "what is above a dirty node is dirty", True
    SUMMARIES = "summaries", "a clean node's summary was made from its children's texts as they are", True
    INDEX_ROWS = "index_rows", "index rows stand for something, and are done when the index has their version", True
    UNINDEXED = "unindexed", "every cell, fact and summary has an index row", True
    ORPHAN_VECTORS = "orphan_vectors", "every vector is of a text that its forest still has", True
    INDEX_POINTS = "index_points", "the index has the point of every row that says so, with its contents", True
    ORPHAN_POINTS = "orphan_points", "every point of the index has its row, and is not newer than it", True


@dataclass(frozen=True, slots=True)
class Found:
    """A violation: the id of the row that breaks a promise, of vectors their forest's, and a stable word for how."""

    id: UUID
    what: str


def can_be_repaired(check: Check, found: Found) -> bool:
    """Whether a violation is of something that can be made again from persistent state."""
    if check is Check.TREE_NODES:
        return found.what in DERIVED_NODE_FIELDS
    if check is Check.TURNS:
        return found.what == INTERRUPTED
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
