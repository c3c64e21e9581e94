"""A policy limits something by a sensible amount, or is refused with a sentence that says what to change."""

from __future__ import annotations

import math

import pytest

from memforest_core.errors import InvalidInput
from memforest_core.lifecycle.retain.records import Limits, Order, audited, checked_limits
from tests.harness.builders import NOON


def test_limits_are_taken_as_they_are_given() -> None:
    assert checked_limits(30, 500, 1_000_000, 0.5) == Limits(30.0, 500, 1_000_000, 0.5)
    assert checked_limits(max_facts=1) == Limits(max_facts=1, fraction=0.1)
    assert checked_limits(max_age_days=0.5).max_age_days == 0.5


def test_a_policy_that_limits_nothing_is_refused() -> None:
    with pytest.raises(InvalidInput, match="give max_age_days, max_facts or max_bytes") as refused:
        checked_limits(fraction=0.2)
    assert refused.value.code == "invalid_policy"


@pytest.mark.parametrize("days", [0, -1, math.nan, math.inf, 40_000, True, "30"])
def test_an_age_is_a_number_of_days(days: float) -> None:
    with pytest.raises(InvalidInput, match="max_age_days must be a number of days above 0"):
        checked_limits(max_age_days=days)


@pytest.mark.parametrize("count", [0, -5, 1.5, True, 2**31, "9"])
def test_facts_are_counted_in_whole_numbers(count: int) -> None:
    with pytest.raises(InvalidInput, match="max_facts must be a whole number from 1 to 2,147,483,647"):
        checked_limits(max_facts=count)


def test_bytes_are_counted_in_whole_numbers() -> None:
    assert checked_limits(max_bytes=2**40).max_bytes == 2**40
    with pytest.raises(InvalidInput, match="max_bytes"):
        checked_limits(max_bytes=2**63)


@pytest.mark.parametrize("fraction", [0, 0.0, -0.1, 1.1, math.nan, True])
def test_a_fraction_is_a_share(fraction: float) -> None:
    with pytest.raises(InvalidInput, match="fraction must be above 0 and at most 1"):
        checked_limits(max_facts=1, fraction=fraction)


@pytest.mark.parametrize("name", ["facts_max_age_days", "digests_max_age_days", "window_max_age_days"])
def test_each_kind_has_an_age_of_its_own(name: str) -> None:
    limits = checked_limits(**{name: 7.0})  # type: ignore[arg-type]
    assert (getattr(limits, name), limits.max_age_days) == (7.0, None)
    assert audited(limits) == {name.replace("_days", "_s"): 604_800, "fraction": "0.1"}
    with pytest.raises(InvalidInput, match=f"{name} must be a number of days above 0"):
        checked_limits(**{name: 0})  # type: ignore[arg-type]


def test_an_order_is_one_of_two() -> None:
    assert checked_limits(max_facts=1, order="visits").order is Order.VISITS
    assert checked_limits(max_facts=1).order is Order.AGE
    assert audited(Limits(max_facts=1, order=Order.VISITS)) == {"max_facts": 1, "fraction": "0.1", "order": "visits"}
    with pytest.raises(InvalidInput, match="order must be one of age, visits"):
        checked_limits(max_facts=1, order="luck")


def test_a_run_has_a_timestamp_for_each_kind() -> None:
    when = Limits(max_age_days=1, facts_max_age_days=2, digests_max_age_days=3, order=Order.VISITS).when(NOON)
    ages = {name: (NOON - each).days for name, each in when.before.items()}
    assert (when.at, ages, when.order) == (NOON, {"cutoff": 1, "facts": 2, "digests": 3}, Order.VISITS)


def test_the_audit_stores_what_is_limited_and_nothing_else() -> None:
    assert audited(Limits(max_age_days=1.5, fraction=0.25)) == {"max_age_s": 129_600, "fraction": "0.25"}
