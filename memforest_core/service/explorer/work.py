"""Pages of the tenant's work: overview, owners, operations, audit, policies, dead letters, costs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from memforest_core.domain.operation_rules import OperationKind
from memforest_core.domain.pages import Page, checked_id
from memforest_core.errors import InvalidInput, NotFound
from memforest_core.lifecycle.retain.records import Limits, Order
from memforest_core.observe.reading.records import StoredOwner
from memforest_core.observe.records import CallFilter, CostBy, Spent, SpentOn
from memforest_core.service.explorer.drawing import proportions
from memforest_core.service.explorer.page_requests import Moved, Outcome, Shown, Visit, href
from memforest_core.service.explorer.rows import ExplorerRows
from memforest_core.work.records import OperationTask, TaskId

OWNERS = 50
"""Owners on one page."""
HOURS = 24
READ_AT_ONCE = 1_000
DEAD_SHOWN = 8
NOTHING = Spent(0, 0, 0, 0, 0, 0.0)


def overview(visit: Visit) -> Outcome:
    """The state of the tenant's work; a key that may not see that goes on to its owners."""
    if not visit.may("dead.list"):
        return Moved("/owners")
    inspection, tenant = visit.memory.services.inspection, visit.caller.tenant
    seen = inspection.overview(tenant)
    state = inspection.system(tenant)
    since = seen.at.replace(minute=0, second=0, microsecond=0) - timedelta(hours=HOURS - 1)
    hours = _hours(since, inspection.costs(tenant, CostBy.HOUR, CallFilter(since=since)).rows)
    last_hour = inspection.costs(tenant, CostBy.STEP, CallFilter(since=seen.at - timedelta(hours=1))).total
    return Shown(
        "overview.html",
        {
            "seen": seen,
            "state": state,
            "hours": hours,
            "call_bars": proportions([spent.calls for _, spent in hours]),
            "cost_bars": proportions([spent.cost_usd for _, spent in hours]),
            "last_hour": last_hour,
            "dead": visit.memory.dead.list(limit=DEAD_SHOWN),
            "owners": _owners(visit, "", None, 10),
            "quota": visit.memory.quota(),
        },
    )


def owners(visit: Visit) -> Outcome:
    """The owners that the key reaches."""
    prefix, cursor = visit.parameter("prefix") or "", visit.parameter("cursor")
    found = _owners(visit, prefix, cursor, OWNERS)
    more = href("/owners", prefix=prefix, cursor=found.cursor) if found.cursor else None
    return Shown("owners.html", {"owners": found, "prefix": prefix, "more": more})


def _owners(visit: Visit, prefix: str, cursor: str | None, limit: int) -> Page[StoredOwner]:
    """A page of owners; of a key that is bound to a pattern those that match it."""
    reading, caller = visit.memory.services.reading, visit.caller
    if caller.owners is None:
        return reading.owners(caller.tenant, prefix=prefix, limit=limit, cursor=cursor)
    start = caller.owners_begin
    if not (start.startswith(prefix) or prefix.startswith(start)):
        return Page(())
    found = reading.owners(caller.tenant, prefix=max(start, prefix, key=len), limit=READ_AT_ONCE, cursor=cursor)
    return Page(tuple(each for each in found.items if caller.may_ask_of(each.owner)), found.cursor)


def _hours(since: datetime, rows: tuple[SpentOn, ...]) -> list[tuple[str, Spent]]:
    """What was spent in each of the last hours, the oldest first."""
    found = {row.name: row.spent for row in rows}
    moments = [(since + timedelta(hours=number)).astimezone(UTC) for number in range(HOURS)]
    return [(f"{moment:%d %b %H}:00", found.get(f"{moment:%Y-%m-%dT%H}", NOTHING)) for moment in moments]


NEWEST = 100


def operations(visit: Visit) -> Outcome:
    """The newest operations."""
    visit.check("lifecycle.operations")
    return Shown("operations.html", {"operations": visit.memory.lifecycle.operations(NEWEST)})


def operation(visit: Visit) -> Outcome:
    """One operation: how far it is, and the receipt of a deletion that is done."""
    owner = visit.parameter("owner")
    task = _task(visit, visit.needed("id"), owner)
    lifecycle = visit.memory.lifecycle
    erased = task.kind == OperationKind.ERASE and task.finished
    return Shown(
        "operation.html",
        {
            "task": task,
            "owner": owner,
            "receipt": lifecycle.receipt(task.id) if erased else None,
            "may_cancel": not task.finished and visit.may("lifecycle.cancel"),
        },
    )


def cancel(visit: Visit) -> Outcome:
    """Take an operation back."""
    visit.check("lifecycle.cancel")
    task = TaskId(checked_id(visit.sent("id"), "id"))
    visit.memory.lifecycle.cancel(task, actor=visit.actor)
    return Moved(href("/operation", id=task))


def audit(visit: Visit) -> Outcome:
    """The audit: callers and what they started."""
    owner, action = visit.parameter("owner"), visit.parameter("action")
    visit.check("lifecycle.audit", owner=owner)
    entries = visit.memory.lifecycle.audit(owner, action=action, limit=NEWEST)
    actions = sorted(OperationKind)
    return Shown("audit.html", {"entries": entries, "owner": owner, "action": action, "actions": actions})


def _task(visit: Visit, id_: str, owner: str | None) -> OperationTask:
    """An operation that this key may see: of a key that is bound to owners, on the memory of one of them."""
    task: OperationTask = visit.memory.lifecycle.operation(TaskId(checked_id(id_, "id")))
    if visit.caller.owners is not None:
        visit.check("sessions", owner=owner)
        with ExplorerRows.opened(visit.memory.services.engine, visit.caller.tenant) as rows:
            forest = None if owner is None else rows.find_forest(owner)
        if forest is None or forest.id != task.forest_id:
            raise NotFound("This owner has no such operation.")
    return task


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
    limits: dict[str, Any] = {name: _number(visit, name, float) for name in AGES}
    limits |= {name: _number(visit, name, int) for name in SIZES}
    visit.memory.lifecycle.set_policy(
        owner, **limits, fraction=_share(visit), order=visit.sent("order"), actor=visit.actor
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


MOST_LETTERS = 200


def letters(visit: Visit) -> Outcome:
    """What was given up, and why; one of them whole."""
    visit.check("dead.list", owner=visit.parameter("owner"))
    dead, chosen = visit.memory.dead, visit.parameter("id")
    detail = None
    if chosen is not None:
        visit.check("dead.show")
        detail = dead.show(chosen)
    return Shown(
        "dead.html",
        {"letters": dead.list(visit.parameter("owner"), limit=MOST_LETTERS), "detail": detail, "most": MOST_LETTERS},
    )


def retry(visit: Visit) -> Outcome:
    """Try one again, or all of them."""
    if visit.form.get("all"):
        visit.check("dead.retry_all")
        visit.memory.dead.retry_all()
    else:
        visit.check("dead.retry")
        visit.memory.dead.retry(visit.sent("id"))
    return Moved("/dead")


def discard(visit: Visit) -> Outcome:
    """Go on without one."""
    visit.check("dead.discard")
    visit.memory.dead.discard(visit.sent("id"))
    return Moved("/dead")


SPANS = {"1": "a day", "7": "a week", "30": "30 days", "365": "a year"}
TABLES = (CostBy.DAY, CostBy.STEP, CostBy.MODEL, CostBy.OWNER)
MOST_ROWS = 100
LAST_CALLS = 30


def costs(visit: Visit) -> Outcome:
    """Spending of a span of days, of one owner or of all, and the last calls."""
    owner, days = visit.parameter("owner"), visit.parameter("days") or "30"
    visit.check("calls", owner=owner)
    if days not in SPANS:
        raise InvalidInput(f"Set days to {', '.join(SPANS)}.", code="invalid_days")
    inspection, tenant = visit.memory.services.inspection, visit.caller.tenant
    since = inspection.overview(tenant).at - timedelta(days=int(days))
    found = {by: inspection.costs(tenant, by, CallFilter(since=since, owner=owner)) for by in TABLES}
    if owner is not None:
        del found[CostBy.OWNER]
    # Without prices, as offline, bars compare the calls.
    priced = found[CostBy.STEP].total.cost_usd > 0
    bars = {
        by: proportions([row.spent.cost_usd if priced else row.spent.calls for row in each.rows])
        for by, each in found.items()
    }
    return Shown(
        "costs.html",
        {
            "owner": owner,
            "days": days,
            "spans": SPANS,
            "tables": found,
            "bars": bars,
            "total": found[CostBy.STEP].total,
            "calls": visit.memory.calls(owner, limit=LAST_CALLS).items,
            "most": MOST_ROWS,
        },
    )
