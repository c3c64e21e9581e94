"""Policies as people state them, checked: what is limited, by how much, and how fast a forest may shrink."""

from __future__ import annotations

from math import isfinite

from memforest_core.errors import InvalidInput
from memforest_core.retain.records import DEFAULT_FRACTION, Limits
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
) -> Limits:
    """The limits of a policy, its age to the second.

    Raises InvalidInput when one is out of range, or when nothing is limited.
    """
    if max_age_days is None and max_facts is None and max_bytes is None:
        raise _invalid("A policy limits something: give max_age_days, max_facts or max_bytes, or clear the policy.")
    if max_age_days is not None and not _within(max_age_days, 1 / DAY_S, LONGEST_AGE_DAYS):
        raise _invalid(f"max_age_days must be a number of days above 0 and at most {LONGEST_AGE_DAYS:,.0f}.")
    if not _within(fraction, 0.0, 1.0) or fraction == 0.0:
        raise _invalid("fraction must be above 0 and at most 1: the share of a forest's facts that one run may forget.")
    return Limits(
        max_age_days=None if max_age_days is None else round(max_age_days * DAY_S) / DAY_S,
        max_facts=_counted(max_facts, "max_facts", MOST_FACTS),
        max_bytes=_counted(max_bytes, "max_bytes", MOST_BYTES),
        fraction=float(fraction),
    )


def told(limits: Limits) -> Numbers:
    """Limits as the audit keeps them."""
    age_s = None if limits.max_age_days is None else round(limits.max_age_days * DAY_S)
    stated = {"max_age_s": age_s, "max_facts": limits.max_facts, "max_bytes": limits.max_bytes}
    return {name: value for name, value in stated.items() if value is not None} | {"fraction": f"{limits.fraction:g}"}


def _invalid(message: str) -> InvalidInput:
    return InvalidInput(message, code="invalid_policy")


def _within(value: object, least: float, most: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and least <= value <= most


def _counted(value: int | None, name: str, most: int) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise _invalid(f"{name} must be a whole number from 1 to {most:,}.")
    return value
