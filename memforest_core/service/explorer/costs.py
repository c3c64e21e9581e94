"""What model calls cost: by step, by model, by day, by owner."""

from __future__ import annotations

from datetime import timedelta

from memforest_core.errors import InvalidInput
from memforest_core.observe.records import CallFilter, CostBy
from memforest_core.service.explorer.drawing import proportions
from memforest_core.service.explorer.visits import Outcome, Shown, Visit

SPANS = {"1": "a day", "7": "a week", "30": "30 days", "365": "a year"}
TABLES = (CostBy.DAY, CostBy.STEP, CostBy.MODEL, CostBy.OWNER)
MOST_ROWS = 100
CALLS = 30


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
            "calls": visit.memory.calls(owner, limit=CALLS).items,
            "most": MOST_ROWS,
        },
    )
