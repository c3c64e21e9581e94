"""``memforest status``, ``top`` and ``metrics``: the state of the system; they need the database only."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from memforest_core.cli.toolkit.memory_opening import opened_store
from memforest_core.cli.toolkit.options import DataOption, JsonOption, argument, option
from memforest_core.cli.toolkit.output import (
    Exit,
    answered,
    console,
    pairs_table,
    plain,
    plain_table,
    print_json,
    printable,
)
from memforest_core.errors import InvalidInput, StoreUnavailable

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.table import Table

    from memforest_core.domain.ids import TenantId
    from memforest_core.ingest.accept.records import SessionProgress
    from memforest_core.observe.inspection import InspectionService
    from memforest_core.observe.records import Overview, Spent, SystemState


MINUTE_S = 60.0
HOUR_S = 3_600.0
DAY_S = 86_400.0
AMOUNTS = ("calls", "failed", "prompt", "cached", "completion", "dollars")
OLD_S = 60.0
"""Waiting for longer than this is worth a colour."""


def top(
    interval: Annotated[float, typer.Option(min=0.2, help="Seconds between two frames.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print one frame and end.")] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Watch queues, workers, model calls and dead letters. With --json, print one frame."""
    with opened_store(data) as store:
        if as_json:
            print_json(store.inspection.overview(store.tenant).to_dict())
        elif once:
            console().print(frame(store.inspection.overview(store.tenant)))
        else:
            watch(store.inspection, store.tenant, interval)


def watch(inspection: InspectionService, tenant: TenantId, interval: float) -> None:
    """Draw until interrupted. A database that fails later is waited for; at the start that is an error."""
    from rich.live import Live

    seen: Overview | None = None
    out = console()
    # Into a pipe frames follow each other: a live display would show nothing until its end.
    live = Live(console=out, auto_refresh=False, screen=True) if out.is_terminal else None
    with live or nullcontext():
        while True:
            picture, seen = next_frame(inspection, tenant, seen)
            if live is not None:
                live.update(picture, refresh=True)
            else:
                out.print(picture)
            time.sleep(interval)


def next_frame(
    inspection: InspectionService, tenant: TenantId, seen: Overview | None
) -> tuple[RenderableType, Overview | None]:
    """The next picture, and what its successor is compared with. Raises StoreUnavailable before the first."""
    from rich.text import Text

    try:
        now = inspection.overview(tenant)
    except StoreUnavailable as error:
        if seen is None:
            raise
        return Text(error.message, style="red"), seen
    return frame(now, seen), now


def frame(now: Overview, before: Overview | None = None) -> Group:
    """One picture; with ``before`` it has the change of each depth per minute."""
    from rich.console import Group
    from rich.text import Text

    alive = sum(worker.alive for worker in now.workers)
    head = Text(f"{now.at:%Y-%m-%d %H:%M:%S} UTC   workers {alive} alive", style="bold")
    silent = len(now.workers) - alive
    if silent:
        head.append(f", {silent} silent", style="red")
    head.append(f"   dirty nodes {now.dirty_nodes}")
    head.append(f"   dead {now.dead}", style="red" if now.dead else "")
    stale = Text(f"behind: summaries {age(now.summaries_stale_s)}, index {age(now.index_stale_s)}", style="dim")
    return Group(head, stale, _queues(now, before), Text(), _spending(now), Text(), _workers(now))


def rates(now: Overview, before: Overview | None) -> Mapping[tuple[str, str], float]:
    """Change of each depth in items per minute, by kind and state; a depth that was not there was 0."""
    if before is None:
        return {}
    minutes = max((now.at - before.at).total_seconds(), 0.001) / MINUTE_S
    former = {(depth.kind, depth.state): depth.items for depth in before.queues}
    current = {(depth.kind, depth.state): depth.items for depth in now.queues}
    return {key: (current.get(key, 0) - former.get(key, 0)) / minutes for key in former | current}


def age(seconds: float) -> str:
    """A duration in its two largest units at most."""
    if seconds < MINUTE_S:
        return f"{seconds:.0f} s"
    if seconds < HOUR_S:
        return f"{seconds // MINUTE_S:.0f} min {seconds % MINUTE_S:.0f} s"
    if seconds < DAY_S:
        return f"{seconds // HOUR_S:.0f} h {seconds % HOUR_S // MINUTE_S:.0f} min"
    return f"{seconds // DAY_S:.0f} d {seconds % DAY_S // HOUR_S:.0f} h"


def amounts(spent: Spent) -> tuple[str, ...]:
    """What was spent, under the titles ``AMOUNTS``."""
    counts = (spent.calls, spent.failed, spent.prompt_tokens, spent.cached_tokens, spent.completion_tokens)
    return (*(f"{count:,}" for count in counts), dollars(spent.cost_usd))


def dollars(amount: float) -> str:
    """An amount in cents, or as much of a smaller one as says something."""
    return f"${amount:,.2f}" if amount >= 1 or not amount else f"${amount:.4f}"


def _queues(now: Overview, before: Overview | None) -> Table:
    table = plain_table("work", "state", "items", "oldest", "per minute", right=("items", "oldest", "per minute"))
    changes = rates(now, before)
    for depth in now.queues:
        change = changes.get((depth.kind, depth.state))
        table.add_row(
            depth.kind,
            depth.state,
            f"{depth.items:,}",
            age(depth.oldest_s),
            "" if change is None else f"{change:+,.0f}",
            style="red" if depth.dead else "yellow" if depth.oldest_s > OLD_S else "",
        )
    if not now.queues:
        table.add_row("nothing waits", "", "0", "", "")
    return table


def _spending(now: Overview) -> Table:
    table = plain_table("model calls", *AMOUNTS, right=AMOUNTS)
    for title, spent in (("last minute", now.last_minute), ("today (UTC)", now.today)):
        table.add_row(title, *amounts(spent))
    return table


def _workers(now: Overview) -> Table:
    table = plain_table("worker", "queues", "version", "heartbeat", right=("heartbeat",))
    for worker in now.workers:
        table.add_row(
            printable(worker.name),
            ", ".join(worker.queues),
            worker.version,
            f"{age(worker.silent_s)} ago",
            style="" if worker.alive else "red",
        )
    if not now.workers:
        table.add_row("no worker", "", "", "", style="red")
    return table


def status(
    session: Annotated[str | None, argument("A session's id.")] = None,
    owner: Annotated[str | None, option("Whose session.", "--owner", "-o")] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the schema, workers, waiting work with its age, and failures. With SESSION: the progress of that
    session."""
    if session is not None and owner is None:
        raise InvalidInput("Say whose session it is: --owner.", code="missing_owner")
    if session is not None and owner is not None:
        with opened_store(data) as store:
            progress = store.client.status(owner, session)
        if not answered(
            {"owner": owner, "session": session} | plain(progress) | {"coverage": progress.coverage}, as_json=as_json
        ):
            _print_session(owner, session, progress)
        return
    with opened_store(data) as store:
        state = store.inspection.system(store.tenant)
        now = store.inspection.overview(store.tenant)
    if not answered(now.to_dict() | plain(state), as_json=as_json):
        _print_system(state, now)


def _print_session(owner: str, session: str, progress: SessionProgress) -> None:
    rows = {
        "session": f"{printable(session)} of {printable(owner)}",
        "stage": progress.stage.value,
        "coverage": f"{progress.coverage:.0%} of the cells are understood",
        "turns": f"{progress.turns} in {progress.cells} cells",
        "cells": f"{progress.indexed} searchable, {progress.extracted} extracted, {progress.placed} placed",
        "facts": f"{progress.facts}",
        "dirty trees": f"{progress.dirty_trees}",
        "outcomes": ", ".join(
            f"{getattr(progress, outcome)} {outcome}"
            for outcome in ("ok", "empty", "repaired", "verbatim", "failed", "dead", "waiting")
        ),
    }
    if progress.last_error is not None:
        rows["last error"] = f"{printable(progress.last_error.message)} [{progress.last_error.code}]"
    console().print(pairs_table(rows))


def _print_system(state: SystemState, now: Overview) -> None:
    totals = state.totals
    behind = "" if state.schema_revision == state.schema_needed else f" (this version needs {state.schema_needed})"
    rows = {
        "schema": f"{state.schema_revision or 'none'}{behind}",
        "memory": f"{state.owners} owners, {totals.sessions} sessions, {totals.turns} turns, {totals.facts} facts",
        "cells": _counts(totals.cells),
        "index rows": _counts(totals.index_rows),
        "trees": f"{totals.trees}, {totals.dirty_trees} dirty ({totals.dirty_nodes} nodes), {totals.due_trees} due",
        "verbatim": f"{totals.verbatim_cells} cells stored word by word",
        "dead": f"{now.dead} items" + (": memforest dead list" if now.dead else ""),
    }
    out = console()
    out.print(pairs_table(rows))
    for warning in state.warnings:
        out.print(f"  {warning}", style="yellow")
    for trouble in state.troubles:
        out.print(
            f"  {trouble.count} {trouble.kind}s {trouble.state}: {printable(trouble.reason)} [{trouble.code}]",
            style="red" if trouble.state == "dead" else "yellow",
        )
    out.print(frame(now))


def _counts(by_state: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {state}" for state, count in sorted(by_state.items())) or "none"


def metrics(data: DataOption = None) -> None:
    """Print the backlog, its age and the workers of all tenants in Prometheus' format.

    Exit code 1 when Postgres does not answer.
    """
    from prometheus_client import CollectorRegistry, generate_latest

    from memforest_core.observe.prometheus import BacklogCollector
    from memforest_core.observe.rows import ObserveStore
    from memforest_core.settings import load_settings

    registry = CollectorRegistry()
    with opened_store(data) as store:
        registry.register(BacklogCollector(ObserveStore(store.engine), load_settings()))
        written = generate_latest(registry).decode()
    print(written, end="")
    if "\nmemforest_store_up 0.0" in written:
        raise typer.Exit(Exit.FAILED)
