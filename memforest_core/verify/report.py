"""What verification found: per check how much was looked at, what is wrong, and what was repaired."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

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
        return self.check.promise


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


class Tally:
    """Adds up what checks find, in bounded memory."""

    def __init__(self) -> None:
        self.forests = 0
        self._results = {check: CheckResult(check, 0, Counter()) for check in Check}
        self._dead: Counter[str] = Counter()

    def checked(self, check: Check, count: int) -> None:
        """So many more items were checked."""
        self._change(check, checked=self._results[check].checked + count)

    def violated(self, check: Check, kinds: Mapping[str, int], some: Sequence[Found]) -> None:
        """Violations that are left, by kind, and some of them."""
        result = self._results[check]
        examples = (*result.examples, *some)[:EXAMPLES]
        self._change(check, kinds=Counter(result.kinds) + Counter(kinds), examples=examples)

    def repaired(self, check: Check, count: int) -> None:
        """So many rows or points were repaired for a check."""
        self._change(check, repaired=self._results[check].repaired + count)

    def skipped(self, check: Check, reason: str) -> None:
        """A check could not look at anything."""
        self._change(check, not_checked=reason)

    def dead(self, counts: Mapping[str, int]) -> None:
        """Dead work of some more forests."""
        self._dead.update(counts)

    def report(self) -> Report:
        """The sum so far."""
        return Report(self.forests, tuple(self._results.values()), dict(self._dead))

    def _change(self, check: Check, **values: Any) -> None:
        self._results[check] = replace(self._results[check], **values)
