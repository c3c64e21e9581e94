"""The first page: whether all is healthy, what is done over time, who and what was written to last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from memforest_core.errors import InvalidInput
from memforest_core.observe.records import KINDS, CallFilter, CostBy, Overview, Spent, SystemState
from memforest_core.service.explorer.charts import Chart, chart
from memforest_core.service.explorer.finding_rows import FindingRows, WorkAt
from memforest_core.service.explorer.page_requests import Moved, Outcome, Shown, Visit, age, counted, money, number

STALE_S = 900
"""Work has waited, or summaries or the index are behind, for so long: something is wrong."""
FAILING = 0.1
"""More than this share of the model calls of a minute or an hour has failed: something is wrong."""
NEWEST_SESSIONS, ACTIVE_OWNERS, DEAD_SHOWN = 8, 6, 5
SPANS = {"hour": (60, 60, "%H:%M"), "day": (1_800, 48, "%H:%M"), "month": (86_400, 30, "%d %b")}
"""Seconds of a step, steps, and how the axis writes them."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is wrong, and what to do: a page to open or a command to run."""

    sentence: str
    action: str = ""
    link: str = ""
    command: str = ""


def overview(visit: Visit) -> Outcome:
    """The state of the tenant's work; a key that may not see that goes on to its owners."""
    if not visit.may("dead.list"):
        return Moved("/owners")
    inspection, tenant = visit.memory.services.inspection, visit.caller.tenant
    seen, state = inspection.overview(tenant), inspection.system(tenant)
    with FindingRows.opened(visit.memory.services.engine, tenant) as rows:
        span, work = _work(rows, seen.at, visit.parameter("span"))
        sessions, owners = rows.newest(None, NEWEST_SESSIONS), rows.active(None, ACTIVE_OWNERS)
    hour = CallFilter(since=seen.at - timedelta(hours=1))
    last_hour = inspection.costs(tenant, CostBy.STEP, hour).total
    return Shown(
        "overview.html",
        {
            "seen": seen,
            "state": state,
            "troubles": troubles(seen, state, last_hour),
            "alive": [worker for worker in seen.workers if worker.alive],
            "span": span,
            "spans": tuple(SPANS),
            "work": work,
            "chart": _drawn(work, SPANS[span][2]),
            "priced": any(step.cost for step in work),
            "last_hour": last_hour,
            "sessions": sessions,
            "owners": owners,
            "dead": visit.memory.dead.list(limit=DEAD_SHOWN) if seen.dead else [],
        },
    )


def troubles(seen: Overview, state: SystemState, last_hour: Spent) -> list[Trouble]:
    """What needs a person, the most urgent first; empty: all is healthy."""
    found = []
    if not any(worker.alive for worker in seen.workers):
        sentence = "No worker runs: sessions are accepted, and nothing is extracted."
        found.append(Trouble(sentence, "Start one:", command="memforest worker"))
    for worker in seen.workers:
        if not worker.alive:
            sentence = f"Worker {worker.name} has sent no heartbeat for {age(worker.silent_s)}."
            found.append(Trouble(sentence, "Look at its log, then restart it."))
    if seen.dead:
        sentence = f"{number(seen.dead)} dead letter{'s' if seen.dead > 1 else ''}: work that failed at every try."
        found.append(Trouble(sentence, "Retry or discard", link="/dead"))
    for about, stale_s in (("Summaries", seen.summaries_stale_s), ("The vector index", seen.index_stale_s)):
        if stale_s > STALE_S:
            sentence = f"{about} {'are' if about.endswith('s') else 'is'} {age(stale_s)} behind."
            found.append(Trouble(sentence, "Run one more worker:", command="memforest worker"))
    found += [*_stuck(seen), *(_failing(seen.last_minute, "minute") or _failing(last_hour, "hour"))]
    waiting = [each for each in state.troubles if each.state != "dead"]
    found += [
        Trouble(f"{number(each.count)} × {each.kind} is tried again: {each.reason or each.code}", f"Code {each.code}")
        for each in waiting
    ]
    return found


def _stuck(seen: Overview) -> list[Trouble]:
    """Work that no live worker takes, or that has waited for long."""
    taken = {queue for worker in seen.workers if worker.alive for queue in worker.queues}
    idle = {kind: queue for queue, kinds in KINDS.items() if taken and queue not in taken for kind in kinds}
    found = []
    for depth in (each for each in seen.queues if each.state == "ready"):
        items = f"{counted(depth.items, 'items')} of {depth.kind.replace('_', ' ')}"
        if (queue := idle.get(depth.kind)) is not None:
            found.append(
                Trouble(f"No worker takes {items}.", "Start one:", command=f"memforest worker --queues {queue}")
            )
        elif depth.oldest_s > STALE_S and not (depth.dirty or depth.behind):
            sentence = f"{items[:1].upper()}{items[1:]} waited, the oldest for {age(depth.oldest_s)}."
            found.append(Trouble(sentence, "Run one more worker:", command="memforest worker"))
    return found


def _failing(spent: Spent, span: str) -> list[Trouble]:
    if spent.failed <= FAILING * spent.calls:
        return []
    sentence = f"{number(spent.failed)} of {counted(spent.calls, 'model calls')} of the last {span} failed."
    return [Trouble(sentence, "Check the model's address, key and limits:", command="memforest doctor")]


def _work(rows: FindingRows, now: datetime, wanted: str | None) -> tuple[str, Sequence[WorkAt]]:
    """The work of a span of time; without one of the shortest that has all of the last month. Raises InvalidInput."""
    if wanted is not None and wanted not in SPANS:
        raise InvalidInput(f"Set span to {', '.join(SPANS)}.", code="invalid_span")
    span, work = wanted or "month", _steps(rows, now, wanted or "month")
    for shorter in () if wanted else ("day", "hour"):
        within = _steps(rows, now, shorter)
        if sum(step.turns + step.calls for step in within) < sum(step.turns + step.calls for step in work):
            break
        span, work = shorter, within
    return span, work


def _steps(rows: FindingRows, now: datetime, span: str) -> Sequence[WorkAt]:
    step_s, steps, _ = SPANS[span]
    last = datetime.fromtimestamp(now.timestamp() // step_s * step_s, now.tzinfo)
    return rows.work(last - timedelta(seconds=step_s * (steps - 1)), last, step_s)


def _drawn(work: Sequence[WorkAt], form: str) -> Chart:
    """Turns and calls, and dollars where there are any."""
    series: dict[str, Sequence[float]] = {"Turns accepted": [step.turns for step in work]}
    series["Model calls"] = [step.calls for step in work]
    if any(step.cost for step in work):
        series["Dollars"] = [step.cost for step in work]
    return chart([step.at for step in work], series, form)


def described(step: WorkAt) -> str:
    """One step in words."""
    cost = f", {money(step.cost)}" if step.cost else ""
    return f"{number(step.turns)} turns, {number(step.calls)} calls{cost}"
