"""A policy limits something by a sensible amount, or is refused with a sentence that says what to change."""

from __future__ import annotations

import math
from typing import Any

import pytest

from memforest_core.errors import InvalidInput
from memforest_core.lifecycle.retain.records import AGES, Limits, Order, audited, checked_limits
from tests.harness.builders import NOON


def test_limits_are_taken_as_they_are_given() -> None:
    assert checked_limits(Limits(30, 500, 2**40, 0.5)) == Limits(30.0, 500, 2**40, 0.5)
    assert checked_limits(Limits(max_facts=1)) == Limits(max_facts=1, fraction=0.1, order=Order.AGE)
    assert checked_limits(Limits(max_age_days=0.5), "visits") == Limits(max_age_days=0.5, order=Order.VISITS)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"fraction": 0.2}, "give max_age_days, max_facts or max_bytes"),
        *[
            ({name: days}, rf"{name} must be a number of days above 0 \(a second or more\)")
            for name in AGES.values()
            for days in (0, 1e-5, -1, math.nan, math.inf, 40_000, True, "30")
        ],
        *[({"max_facts": count}, "max_facts must be a whole number from 1 to 2,147,483,647") for count in (0, -5, 1.5)],
        *[({"max_facts": count}, "max_facts must be a whole number") for count in (True, 2**31, "9")],
        ({"max_bytes": 2**63}, "max_bytes"),
        *[
            ({"max_facts": 1, "fraction": share}, "fraction must be above 0 and at most 1")
            for share in (0, 0.0, -0.1, 1.1, math.nan, True)
        ],
    ],
)
def test_what_is_out_of_range_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as refused:
        checked_limits(Limits(**given))
    assert refused.value.code == "invalid_policy"


def test_an_order_is_one_of_two() -> None:
    with pytest.raises(InvalidInput, match="order must be one of age, visits"):
        checked_limits(Limits(max_facts=1), "luck")


def test_a_run_has_a_timestamp_for_each_kind() -> None:
    when = Limits(max_age_days=1, facts_max_age_days=2, digests_max_age_days=3, order=Order.VISITS).when(NOON)
    ages = {name: (NOON - each).days for name, each in when.before.items()}
    assert (when.at, ages, when.order) == (NOON, {"cutoff": 1, "facts": 2, "digests": 3}, Order.VISITS)


def test_the_audit_stores_what_is_limited_and_nothing_else() -> None:
    assert audited(Limits(max_age_days=1.5, fraction=0.25)) == {"max_age_s": 129_600, "fraction": "0.25"}
    assert audited(Limits(max_facts=1, order=Order.VISITS)) == {"max_facts": 1, "fraction": "0.1", "order": "visits"}
