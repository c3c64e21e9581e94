"""What verification found: per check how much was looked at, what is wrong, and what was mended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from memforest_core.verify.records import Check, Found

EXAMPLES = 5
"""Violations named per check; all are counted."""

PROMISES: Mapping[Check, str] = {
    Check.TURNS: "the turns of a session are numbered from 0 without gaps, and are in cells",
    Check.CELLS: "cells cover all turns of their session once, in order",
    Check.SESSION_COUNTERS: "sessions count their turns and cells",
    Check.WINDOWS: "a cell that waits for extraction can be claimed",
    Check.OUTCOMES: "an extracted cell says how that ended",
    Check.CANDIDATES: "a placed cell's candidates are attached to one fact each; none is superseded",
    Check.OCCURRENCES: "occurrences name turns that exist, of their cell's session and their fact's forest",
    Check.FACTS: "every fact has an occurrence and is in a scope",
    Check.TREE_HEADS: "active trees have one root, other scopes none",
    Check.TREE_NODES: "nodes are linked, filled, ordered and bounded as a tree of their branching is",
    Check.TREE_COUNTERS: "trees know their leaves, members and height",
    Check.PLACEMENTS: "every placement of an active tree has its leaf",
    Check.LEAVES: "every leaf has its placement and its payload, under the payload's key and interval",
    Check.PLACED_CELLS: "every placed cell has its leaf in its session's tree",
    Check.CHANGES: "a deleted turn has no words left, and a corrected fact has its successor",
    Check.LEASES: "work is running exactly when somebody holds a lease on it",
    Check.TASKS: "maintenance is running exactly when somebody holds a lease on it",
    Check.FORESTS: "no forest is frozen, hidden or going without an operation that is at it",
    Check.DUE_TREES: "a tree is due exactly when it has a dirty node",
    Check.DIRTY_PATHS: "what is above a dirty node is dirty",
    Check.SUMMARIES: "a clean node's summary was made from its children's texts as they are",
    Check.INDEX_ROWS: "index rows stand for something, and are done when the index has their version",
    Check.UNINDEXED: "every cell, fact and summary has an index row",
    Check.ORPHAN_VECTORS: "every vector is of a text that its forest still has",
    Check.INDEX_POINTS: "the index has the point of every row that says so",
    Check.ORPHAN_POINTS: "every point of the index has its row, and is not newer than it",
}

REPAIRABLE = frozenset(
    {
        Check.SESSION_COUNTERS,
        Check.WINDOWS,
        Check.TREE_NODES,
        Check.TREE_COUNTERS,
        Check.LEASES,
        Check.TASKS,
        Check.DUE_TREES,
        Check.DIRTY_PATHS,
        Check.SUMMARIES,
        Check.INDEX_ROWS,
        Check.UNINDEXED,
        Check.ORPHAN_VECTORS,
        Check.INDEX_POINTS,
        Check.ORPHAN_POINTS,
    }
)
"""Checks of derived artifacts and of who works on what. Persistent state is never changed."""

DERIVED_NODE_FIELDS = frozenset({"leaf_count", "interval"})
PERSISTENT_COUNTERS = frozenset({"members"})


def repairable(check: Check, found: Found) -> bool:
    """Whether a violation is of something that can be made again from persistent state."""
    if check is Check.TREE_NODES:
        return found.what in DERIVED_NODE_FIELDS
    return check in REPAIRABLE and found.what not in PERSISTENT_COUNTERS


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check. ``kinds`` counts the violations that are left; ``not_checked`` says why nothing could be looked at."""

    check: Check
    checked: int
    kinds: Mapping[str, int]
    examples: tuple[Found, ...] = ()
    repaired: int = 0
    not_checked: str | None = None

    @property
    def violations(self) -> int:
        """How often the promise is broken."""
        return sum(self.kinds.values())

    @property
    def promise(self) -> str:
        """What should hold."""
        return PROMISES[self.check]


@dataclass(frozen=True, slots=True)
class Report:
    """All checks over the forests that were looked at. ``dead`` is known trouble, not a violation."""

    forests: int
    checks: tuple[CheckResult, ...]
    dead: Mapping[str, int]

    @property
    def violations(self) -> int:
        """How many promises are broken."""
        return sum(result.violations for result in self.checks)

    @property
    def repaired(self) -> int:
        """How many rows and points were mended."""
        return sum(result.repaired for result in self.checks)

    @property
    def complete(self) -> bool:
        """Whether everything could be looked at."""
        return all(result.not_checked is None for result in self.checks)


@dataclass(slots=True)
class _Line:
    checked: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    examples: list[Found] = field(default_factory=list)
    repaired: int = 0
    not_checked: str | None = None


class Tally:
    """Adds up what checks find, in bounded memory."""

    def __init__(self) -> None:
        self.forests = 0
        self._lines = {check: _Line() for check in Check}
        self._dead: dict[str, int] = {}

    def looked(self, check: Check, count: int) -> None:
        """So many more items were checked."""
        self._lines[check].checked += count

    def broken(self, check: Check, kinds: Mapping[str, int], some: Sequence[Found]) -> None:
        """Violations that are left, by kind, and some of them."""
        line = self._lines[check]
        line.kinds.update(kinds)
        line.examples.extend(some[: EXAMPLES - len(line.examples)])

    def mended(self, check: Check, count: int) -> None:
        """So many rows were mended for a check."""
        self._lines[check].repaired += count

    def skipped(self, check: Check, reason: str) -> None:
        """A check could not look."""
        self._lines[check].not_checked = reason

    def buried(self, dead: Mapping[str, int]) -> None:
        """Dead work of some more forests."""
        for kind, count in dead.items():
            self._dead[kind] = self._dead.get(kind, 0) + count

    def report(self) -> Report:
        """The sum so far."""
        return Report(
            self.forests,
            tuple(
                CheckResult(
                    check,
                    line.checked,
                    dict(line.kinds),
                    tuple(line.examples),
                    line.repaired,
                    line.not_checked,
                )
                for check, line in self._lines.items()
            ),
            dict(self._dead),
        )
