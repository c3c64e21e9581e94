"""What verification found: per check how much was looked at, what is wrong, and what was repaired."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from memforest_core.verify.records import Check, Found

EXAMPLES = 5
"""Violations named per check; all are counted."""

DERIVED_NODE_FIELDS = frozenset({"leaf_count", "interval"})
PERSISTENT_COUNTERS = frozenset({"members"})


def can_be_repaired(check: Check, found: Found) -> bool:
    """Whether a violation is of something that can be made again from persistent state."""
    if check is Check.TREE_NODES:
        return found.what in DERIVED_NODE_FIELDS
    return check.repairable and found.what not in PERSISTENT_COUNTERS


@dataclass(slots=True)
class CheckResult:
    """One check. ``kinds`` counts the violations that are left; ``not_checked`` says why nothing could be looked at."""

    check: Check
    checked: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    examples: list[Found] = field(default_factory=list)
    repaired: int = 0
    not_checked: str | None = None

    def add_violations(self, kinds: Mapping[str, int], some: Sequence[Found]) -> None:
        """Add violations that are left, by kind; of ``some`` of them a few are kept as examples."""
        self.kinds.update(kinds)
        self.examples += some[: EXAMPLES - len(self.examples)]

    @property
    def violations(self) -> int:
        """How often the promise is broken."""
        return self.kinds.total()

    @property
    def promise(self) -> str:
        """What should hold."""
        return self.check.promise


@dataclass(slots=True)
class Report:
    """All checks over the forests that were looked at. ``dead`` counts work that was given up: no violation."""

    forests: int = 0
    results: dict[Check, CheckResult] = field(default_factory=lambda: {check: CheckResult(check) for check in Check})
    dead: Counter[str] = field(default_factory=Counter)

    @property
    def checks(self) -> tuple[CheckResult, ...]:
        """The results of all checks, in the order of ``Check``."""
        return tuple(self.results.values())

    @property
    def violations(self) -> int:
        """How many promises are broken."""
        return sum(result.violations for result in self.checks)

    @property
    def repaired(self) -> int:
        """How many rows and points were repaired."""
        return sum(result.repaired for result in self.checks)

    @property
    def complete(self) -> bool:
        """Whether everything could be looked at."""
        return all(result.not_checked is None for result in self.checks)
