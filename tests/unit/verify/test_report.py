"""A report adds up what was found, and names few examples however much that is."""

from __future__ import annotations

from uuid import UUID

import pytest

from memforest_core.lifecycle.verify.records import EXAMPLES, Check, Found, Report, can_be_repaired

SOME = [Found(UUID(int=n), "gap") for n in range(20)]


def test_every_check_says_what_it_promises_and_is_in_the_report() -> None:
    report = Report()
    assert [result.check for result in report.checks] == list(Check)
    assert all(result.promise for result in report.checks)
    assert (report.violations, report.complete) == (0, True)


def test_all_violations_are_counted_and_a_few_are_named() -> None:
    report = Report()
    turns = report.results[Check.TURNS]
    turns.checked = 12
    turns.add_violations({"gap": 3_000, "uncovered": 1}, SOME)
    turns.add_violations({"gap": 20}, SOME)
    report.results[Check.LEASES].repaired += 2
    report.dead.update({"cells": 1})
    report.dead.update({"cells": 2, "nodes": 1})
    assert (turns.checked, turns.violations, dict(turns.kinds)) == (12, 3_021, {"gap": 3_020, "uncovered": 1})
    assert turns.examples == SOME[:EXAMPLES]
    assert (report.violations, report.repaired) == (3_021, 2)
    assert report.dead == {"cells": 3, "nodes": 1}


def test_what_could_not_be_looked_at_makes_a_report_incomplete() -> None:
    report = Report()
    report.results[Check.INDEX_POINTS].not_checked = "the index is unavailable"
    assert not report.complete


@pytest.mark.parametrize(
    ("check", "what", "repairable"),
    [
        (Check.SUMMARIES, "inputs", True),
        (Check.TREE_COUNTERS, "leaf_count", True),
        (Check.TREE_COUNTERS, "members", False),
        (Check.TREE_NODES, "interval", True),
        (Check.TREE_NODES, "key_order", False),
        (Check.OCCURRENCES, "no_fact", False),
        (Check.LEAVES, "no_payload", False),
    ],
)
def test_only_what_follows_from_persistent_state_is_repaired(check: Check, what: str, repairable: bool) -> None:
    assert can_be_repaired(check, Found(UUID(int=1), what)) is repairable
