"""Pages of the tenant's work: owners, operations, audit, policies, dead letters, costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container
from datetime import timedelta
from typing import Any, TypeVar

from memforest_core.domain.operation_rules import OperationKind
from memforest_core.domain.pages import Page, checked_id
from memforest_core.errors import InvalidInput, NotFound
from memforest_core.lifecycle.retain.records import Limits, Order, Phase, checked_limits
from memforest_core.lifecycle.retain.rows import RetentionRows
from memforest_core.lifecycle.retain.service import plan_of
from memforest_core.observe.reading.records import StoredOwner
from memforest_core.observe.records import CallFilter, CostBy
from memforest_core.service.explorer.drawing import proportions
from memforest_core.service.explorer.page_requests import Moved, Outcome, Shown, Visit, href
from memforest_core.service.explorer.rows import ExplorerRows
from memforest_core.work.records import OperationTask, TaskId

OWNERS = 25
"""Owners on one page."""
READ_AT_ONCE = 1_000


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


NEWEST, MORE = 25, 200
"""Items of a list without pages, and when all are wanted."""
COUNTED = ("sessions", "turns", "facts", "forgotten", "aged", "aged_facts", "nodes", "trees", "digests", "windows")
"""What a person wants to know of the progress of an operation."""


def _most(visit: Visit) -> int:
    return MORE if visit.parameter("all") else NEWEST


def _done(task: OperationTask) -> dict[str, int]:
    """What an operation has done so far, or would do."""
    found = ((name, task.progress.get(name)) for name in COUNTED)
    return {name.replace("_", " "): count for name, count in found if isinstance(count, int) and count}


def operations(visit: Visit) -> Outcome:
    """The newest operations, and what each has done."""
    visit.check("lifecycle.operations")
    found = visit.memory.lifecycle.operations(_most(visit))
    return Shown("operations.html", {"operations": [(task, _done(task)) for task in found], "most": NEWEST})


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
            "done": _done(task),
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
    entries = visit.memory.lifecycle.audit(owner, action=action, limit=_most(visit))
    actions = sorted(OperationKind)
    more = (
        None if len(entries) < NEWEST or visit.parameter("all") else href("/audit", owner=owner, action=action, all=1)
    )
    values = {"entries": entries, "owner": owner, "action": action, "actions": actions, "more": more}
    return Shown("audit.html", values)


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
    "max_age_days": "Delete turns older than so many days",
    "facts_max_age_days": "Delete facts not said for so many days",
    "digests_max_age_days": "Delete digests older than so many days",
    "window_max_age_days": "Delete window texts older than so many days",
    "faded_max_age_days": "Delete topics that are cold for so many days",
}
"""What a limit on age does, for the form."""
SIZES = {"max_facts": "At most so many facts", "max_bytes": "At most so many bytes"}


GOING = {
    Phase.AGED: "groups of turns",
    Phase.WORDS: "groups of turns",
    Phase.AGED_FACTS: "facts",
    Phase.FACTS: "facts",
    Phase.DIGESTS: "digests",
    Phase.WINDOWS: "window texts",
    Phase.WINDOW_ITEMS: "window texts",
}
"""What people call what a run deletes; a group of turns is a cell."""
PREVIEWED = 25
"""Owners for whom a policy of everybody else is counted before it is set."""


def policies(visit: Visit) -> Outcome:
    """All policies, and a form with the one of ``owner`` (without one, of everybody else)."""
    visit.check("lifecycle.policies")
    owner = visit.parameter("owner")
    return _policies(visit, owner, None)


def _policies(visit: Visit, owner: str | None, wanted: Limits | None) -> Outcome:
    """The page of policies; with ``wanted``, what these limits would delete, before they are set."""
    found = visit.memory.lifecycle.policies()
    chosen = next((policy for policy in found if policy.owner == owner), None)
    return Shown(
        "policies.html",
        {
            "policies": [(policy, explained(policy)) for policy in found],
            "owner": owner,
            "chosen": chosen,
            "limits": wanted or chosen or Limits(),
            "wanted": None if wanted is None else explained(wanted),
            "counts": None if wanted is None else _would_go(visit, owner, wanted, {each.owner for each in found}),
            "ages": AGES,
            "sizes": SIZES,
            "orders": FIRST_OUT,
            "may_set": visit.may("lifecycle.set_policy", owner=owner),
        },
    )


FIRST_OUT = {
    Order.AGE: "the least important",
    Order.VISITS: "those not visited for longest",
    Order.RELEVANCE: "those that recent questions found least",
    Order.CENTRALITY: "those that are connected least",
}


def explained(limits: Limits) -> list[str]:
    """What a policy does, a sentence for each limit."""
    at_once = f"{FIRST_OUT[limits.order]} go first, at most {100 * limits.fraction:g} % in one run"
    said = {
        "Turns said more than {:g} days ago are deleted, with what was learned from them alone.": limits.max_age_days,
        "Facts that nobody has said for {:g} days are deleted; their turns stay.": limits.facts_max_age_days,
        "Digests of days that ended more than {:g} days ago are deleted.": limits.digests_max_age_days,
        "Window texts older than {:g} days are deleted.": limits.window_max_age_days,
        "Topics that are cold for {:g} days are deleted.": limits.faded_max_age_days,
        f"An owner has at most {{:,}} facts: beyond that {at_once}.": limits.max_facts,
        f"An owner has at most {{:,}} bytes of turns and facts: beyond that {at_once}.": limits.max_bytes,
    }
    return [sentence.format(limit) for sentence, limit in said.items() if limit is not None]


def _would_go(visit: Visit, owner: str | None, limits: Limits, own: Container[str | None]) -> dict[str, Any]:
    """How many items of each kind one run would delete now: of an owner, or of the first owners without a policy."""
    services, tenant = visit.memory.services, visit.caller.tenant
    found = services.reading.owners(tenant, limit=PREVIEWED) if owner is None else Page(())
    names = [each.owner for each in found.items if each.owner not in own] if owner is None else [owner]
    with ExplorerRows.opened(services.engine, tenant) as owners:
        forests = [owners.forest(name) for name in names]
    counts: Counter[str] = Counter()
    with RetentionRows.opened(services.engine, tenant) as rows:
        when = limits.when(rows.now())
        for forest in forests:
            plan = plan_of(rows, forest, limits, when)
            for phase, count in [*((phase, len(each)) for phase, each in plan.leaves.items()), *plan.rows.items()]:
                counts[GOING[phase]] += count
    return {"items": counts, "owners": len(names), "partial": found.cursor is not None}


def set_policy(visit: Visit) -> Outcome:
    """Put the form's limits in the place of those that an owner, or everybody else, has; or only count."""
    owner = visit.form.get("owner") or None
    visit.check("lifecycle.set_policy", owner=owner)
    limits: dict[str, Any] = {name: _number(visit, name, float) for name in AGES}
    limits |= {name: _number(visit, name, int) for name in SIZES}
    order, fraction = visit.sent("order"), _share(visit)
    if visit.form.get("dry_run"):
        return _policies(visit, owner, checked_limits(Limits(**limits, fraction=fraction), order))
    visit.memory.lifecycle.set_policy(owner, **limits, fraction=fraction, order=order, actor=visit.actor)
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
        {"letters": dead.list(visit.parameter("owner"), limit=_most(visit)), "detail": detail, "most": _most(visit)},
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
MOST_ROWS = 25
LAST_CALLS = 25


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
            "priced": priced,
            "total": found[CostBy.STEP].total,
            "calls": visit.memory.calls(owner, limit=LAST_CALLS).items,
            "most": MOST_ROWS,
        },
    )
