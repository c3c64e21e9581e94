"""Policies: what may be stored, for everybody and for single owners; set, changed and cleared."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from memforest_core.errors import InvalidInput
from memforest_core.lifecycle.retain.records import Limits, Order
from memforest_core.service.explorer.visits import Moved, Outcome, Shown, Visit

T = TypeVar("T", int, float)

AGES = {
    "max_age_days": "Turns",
    "facts_max_age_days": "Facts",
    "digests_max_age_days": "Digests",
    "window_max_age_days": "Windows",
}
"""What a limit on age is about."""
SIZES = {"max_facts": "Most facts", "max_bytes": "Most bytes"}


def policies(visit: Visit) -> Outcome:
    """All policies, and a form with the one of ``owner`` (without one, of everybody else)."""
    visit.check("lifecycle.policies")
    found, owner = visit.memory.lifecycle.policies(), visit.parameter("owner")
    chosen = next((policy for policy in found if policy.owner == owner), None)
    return Shown(
        "policies.html",
        {
            "policies": found,
            "owner": owner,
            "chosen": chosen,
            "limits": chosen or Limits(),
            "ages": AGES,
            "sizes": SIZES,
            "orders": tuple(Order),
            "may_set": visit.may("lifecycle.set_policy", owner=owner),
        },
    )


def set_policy(visit: Visit) -> Outcome:
    """Put the form's limits in the place of those that an owner, or everybody else, has."""
    owner = visit.form.get("owner") or None
    visit.check("lifecycle.set_policy", owner=owner)
    visit.memory.lifecycle.set_policy(
        owner,
        max_age_days=_number(visit, "max_age_days", float),
        facts_max_age_days=_number(visit, "facts_max_age_days", float),
        digests_max_age_days=_number(visit, "digests_max_age_days", float),
        window_max_age_days=_number(visit, "window_max_age_days", float),
        max_facts=_number(visit, "max_facts", int),
        max_bytes=_number(visit, "max_bytes", int),
        fraction=_share(visit),
        order=visit.sent("order"),
        actor=visit.actor,
    )
    return Moved("/policies")


def clear(visit: Visit) -> Outcome:
    """Let nothing of an owner, or of everybody else, be forgotten by itself."""
    owner = visit.form.get("owner") or None
    visit.check("lifecycle.clear_policy", owner=owner)
    visit.memory.lifecycle.clear_policy(owner, actor=visit.actor)
    return Moved("/policies")


def _number(visit: Visit, name: str, kind: Callable[[str], T]) -> T | None:
    """A field of the form as a number; None for an empty one. Raises InvalidInput."""
    text = visit.form.get(name, "").strip()
    try:
        return kind(text) if text else None
    except ValueError:
        raise InvalidInput(f"{name} must be a number, or empty for no limit.", code="invalid_policy") from None


def _share(visit: Visit) -> float:
    """The share of a forest that one run may forget, which the form has in per cent. Raises InvalidInput."""
    share = _number(visit, "per_cent", float)
    if share is None:
        raise InvalidInput("Say how many per cent of the facts one run may forget.", code="invalid_policy")
    return share / 100
