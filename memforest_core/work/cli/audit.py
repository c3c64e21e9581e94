"""``memforest operations`` and ``memforest audit``: what was requested of stored memory, by whom, and how it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from memforest_core.cli.toolkit.opening import opened_memory
from memforest_core.cli.toolkit.operating import (
    TIMEOUT_S,
    ActorOption,
    NoWaitOption,
    TimeoutOption,
    actor_named,
    counts_line,
)
from memforest_core.cli.toolkit.options import DataOption, JsonOption
from memforest_core.cli.toolkit.output import console, plain_table, print_json, printable
from memforest_core.work.records import TaskId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memforest_core.work.records import AuditEntry, OperationTask

LimitOption = Annotated[int, typer.Option(min=1, help="How many at most.")]


app = typer.Typer(
    help="List the newest operations (deletions, corrections, merges, exports and imports, rebuilds, policies), and"
    " cancel one.",
    invoke_without_command=True,
)


@app.callback()
def operations(
    context: typer.Context, limit: LimitOption = 20, data: DataOption = None, as_json: JsonOption = False
) -> None:
    """List the newest operations: deletions, corrections, merges, exports and imports, rebuilds, policies."""
    if context.invoked_subcommand is not None:
        return
    with opened_memory(data) as memory:
        found = memory.lifecycle.operations(limit)
    if as_json:
        print_json({"operations": found})
    else:
        _print_operations(found)


@app.command()
def cancel(
    operation: Annotated[UUID, typer.Argument(metavar="ID", help="The operation, as memforest operations lists it.")],
    no_wait: NoWaitOption = False,
    timeout: TimeoutOption = TIMEOUT_S,
    actor: ActorOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take an operation back that waits, or a merge, import, export or rebuild that is under way."""
    with opened_memory(data) as memory:
        taken = memory.lifecycle.cancel(TaskId(operation), actor=actor_named(actor))
        state = taken.state() if no_wait else taken.wait_cancelled(timeout)
    if as_json:
        print_json({"operation": str(taken.id), "kind": taken.kind, "state": state.state, "cancelled": state.cancelled})
    elif state.cancelled:
        console().print(f"Operation {taken.id} ({taken.kind}) was cancelled.")
    elif state.finished:
        console().print(f"Operation {taken.id} ({taken.kind}) was done before it could be cancelled.")
    else:
        console().print(f"Operation {taken.id} ({taken.kind}) will be cancelled: workers do it.")


def audit(
    owner: Annotated[
        str | None, typer.Option("--owner", "-o", help="Only this owner's, also after a deletion.", show_default=False)
    ] = None,
    action: Annotated[
        str | None, typer.Option("--action", help="Only this: erase, correct, merge...", show_default=False)
    ] = None,
    since: Annotated[str | None, typer.Option("--since", help="Only from this time on.", show_default=False)] = None,
    limit: LimitOption = 100,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print who requested what, when, and on which rows. Rows of the audit can be added, never changed."""
    with opened_memory(data) as memory:
        found = memory.lifecycle.audit(owner, action=action, since=since, limit=limit)
    if as_json:
        print_json({"audit": found})
    else:
        _print_audit(found)


def _print_operations(found: Sequence[OperationTask]) -> None:
    out = console()
    if not found:
        out.print("Nothing was requested yet.")
        return
    whole = ("requested", "operation")
    table = plain_table(*whole, "what", "by", "state", "done so far", whole=whole)
    for task in found:
        trouble = f"  {printable(task.error_text or '')} [{task.error_code}]" if task.error_code else ""
        table.add_row(
            f"{task.created_at:%Y-%m-%d %H:%M:%S}",
            str(task.id),
            f"{task.kind}{' (dry run)' if task.dry_run else ''}",
            printable(task.actor),
            f"{task.state}, waits for {task.waits_for}" if task.waits_for else task.state,
            f"{counts_line(task.progress)}{trouble}",
        )
    out.print(table)


def _print_audit(found: Sequence[AuditEntry]) -> None:
    out = console()
    if not found:
        out.print("The audit has nothing of that.")
        return
    table = plain_table("when", "who", "what", "outcome", "forest", "numbers", whole=("when", "forest"))
    for entry in found:
        table.add_row(
            f"{entry.at:%Y-%m-%d %H:%M:%S}" if entry.at else "",
            printable(entry.actor),
            entry.action,
            entry.outcome,
            str(entry.forest_id or ""),
            counts_line(entry.detail),
        )
    out.print(table)


def register(program: typer.Typer) -> None:
    """Add the commands."""
    program.add_typer(app, name="operations")
    program.command("audit")(audit)
