"""What a visitor sees first: the state of the tenant's work, and whose memories there are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from memforest_core.domain.pages import Page
from memforest_core.observe.reading.records import StoredOwner
from memforest_core.observe.records import CallFilter, CostBy, Spent, SpentOn
from memforest_core.service.explorer.drawing import proportions
from memforest_core.service.explorer.visits import Moved, Outcome, Shown, Visit, href

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
