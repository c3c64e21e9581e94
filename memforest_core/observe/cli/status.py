"""``memforest status``: the state of the system, or the progress of one session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from memforest_core.cli.toolkit.opening import opened_store
from memforest_core.cli.toolkit.options import DataOption, JsonOption
from memforest_core.cli.toolkit.output import console, pairs_table, plain, print_json, printable
from memforest_core.errors import InvalidInput
from memforest_core.observe.cli.top import age, dollars, json_of

if TYPE_CHECKING:
    from memforest_core.ingest.accept.records import SessionProgress
    from memforest_core.observe.records import Overview, SystemState


def status(
    session: Annotated[str | None, typer.Argument(help="A session's id.", show_default=False)] = None,
    owner: Annotated[str | None, typer.Option("--owner", "-o", help="Whose session.", show_default=False)] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print schema, workers, what waits and since when, and what failed; with SESSION how far that one is."""
    if session is not None and owner is None:
        raise InvalidInput("Say whose session it is: --owner.", code="missing_owner")
    if session is not None and owner is not None:
        with opened_store(data) as store:
            progress = store.client.status(owner, session)
        if as_json:
            print_json({"owner": owner, "session": session} | plain(progress) | {"coverage": progress.coverage})
        else:
            _print_session(owner, session, progress)
        return
    with opened_store(data) as store:
        state = store.inspection.system(store.tenant)
        now = store.inspection.overview(store.tenant)
    if as_json:
        print_json(json_of(now) | plain(state))
    else:
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
    alive = [worker for worker in state.workers if worker.alive]
    behind = "" if state.schema_revision == state.schema_needed else f" (this version needs {state.schema_needed})"
    rows = {
        "schema": f"{state.schema_revision or 'none'}{behind}",
        "workers": f"{len(alive)} alive, {len(state.workers) - len(alive)} silent",
        "memory": f"{state.owners} owners, {totals.sessions} sessions, {totals.turns} turns, {totals.facts} facts",
        "cells": _counts(totals.cells),
        "index rows": _counts(totals.index_rows),
        "trees": f"{totals.trees}, {totals.dirty_trees} dirty ({totals.dirty_nodes} nodes), {totals.due_trees} due",
        "verbatim": f"{totals.verbatim_cells} cells stored word by word",
        "behind": f"summaries {age(now.summaries_stale_s)}, index {age(now.index_stale_s)}",
        "dead": f"{now.dead} items" + (": memforest dead list" if now.dead else ""),
        "today": f"{now.today.calls} model calls ({now.today.failed} failed), {dollars(now.today.cost_usd)}",
    }
    out = console()
    out.print(pairs_table(rows))
    for warning in state.warnings:
        out.print(f"  {warning}", style="yellow")
    for depth in now.queues:
        out.print(
            f"  {depth.kind}: {depth.items} {depth.state}, oldest {age(depth.oldest_s)}",
            style="red" if depth.dead else "",
        )
    for worker in state.workers:
        heartbeat = f"heartbeat {worker.silent_s:.0f} s ago"
        out.print(
            f"  {printable(worker.name)}  {', '.join(worker.queues)}  {heartbeat}",
            style="" if worker.alive else "red",
        )
    for trouble in state.troubles:
        out.print(
            f"  {trouble.count} {trouble.kind}s {trouble.state}: {printable(trouble.reason)} [{trouble.code}]",
            style="red" if trouble.state == "dead" else "yellow",
        )


def _counts(by_state: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {state}" for state, count in sorted(by_state.items())) or "none"
