"""Limits as people state them, checked: what is limited, by how much, and how fast a forest may shrink."""

from __future__ import annotations

from math import isfinite

from memforest_core.errors import InvalidInput
from memforest_core.lifecycle.retain.records import AGES, DEFAULT_FRACTION, Limits, Order
from memforest_core.work.records import Numbers

DAY_S = 86_400
LONGEST_AGE_DAYS = 36_500.0
"""A hundred years: beyond it a limit on age is none."""
MOST_FACTS = 2**31 - 1
MOST_BYTES = 2**63 - 1


def checked_limits(
    max_age_days: float | None = None,
    max_facts: int | None = None,
    max_bytes: int | None = None,
    fraction: float = DEFAULT_FRACTION,
    *,
    facts_max_age_days: float | None = None,
    digests_max_age_days: float | None = None,
    window_max_age_days: float | None = None,
    order: Order | str = Order.AGE,
) -> Limits:
    """The limits of a policy, its ages to the second.

    Raises InvalidInput when one is out of range, or when nothing is limited.
    """
    ages = {
        "max_age_days": max_age_days,
        "facts_max_age_days": facts_max_age_days,
        "digests_max_age_days": digests_max_age_days,
        "window_max_age_days": window_max_age_days,
    }
    if all(each is None for each in (*ages.values(), max_facts, max_bytes)):
        raise _invalid(
            "A policy limits something: give max_age_days, max_facts or max_bytes, or the age of facts, digests or"
            " windows (facts_max_age_days, digests_max_age_days, window_max_age_days), or clear the policy."
        )
    if not _within(fraction, 0.0, 1.0) or fraction == 0.0:
        raise _invalid("fraction must be above 0 and at most 1: the share of a forest's facts that one run may forget.")
    if order not in list(Order):
        raise _invalid(f"order must be one of {', '.join(Order)}.")
    return Limits(
        **{name: _aged(days, name) for name, days in ages.items()},
        max_facts=_counted(max_facts, "max_facts", MOST_FACTS),
        max_bytes=_counted(max_bytes, "max_bytes", MOST_BYTES),
        fraction=float(fraction),
        order=Order(order),
    )


def audited(limits: Limits) -> Numbers:
    """Limits as the audit stores them."""
    stated: dict[str, str | int] = {
        AGES[name].replace("_days", "_s"): round(days * DAY_S) for name, days in limits.ages().items()
    }
    stated |= {name: most for name in ("max_facts", "max_bytes") if (most := getattr(limits, name)) is not None}
    ordered = {} if limits.order is Order.AGE else {"order": limits.order.value}
    return {**stated, "fraction": f"{limits.fraction:g}", **ordered}


def _invalid(message: str) -> InvalidInput:
    return InvalidInput(message, code="invalid_policy")


def _within(value: object, least: float, most: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and least <= value <= most


def _aged(days: float | None, name: str) -> float | None:
    if days is None:
        return None
    if not _within(days, 1 / DAY_S, LONGEST_AGE_DAYS):
        raise _invalid(f"{name} must be a number of days above 0 and at most {LONGEST_AGE_DAYS:,.0f}.")
    return round(days * DAY_S) / DAY_S


def _counted(value: int | None, name: str, most: int) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise _invalid(f"{name} must be a whole number from 1 to {most:,}.")
    return value
