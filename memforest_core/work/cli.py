"""``memforest operations``, ``audit`` and ``dead``: what was requested, by whom, and what was given up."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal
from uuid import UUID

import typer
from pydantic import TypeAdapter

from memforest_core.cli.toolkit.memory_opening import opened_memory, opened_store
from memforest_core.cli.toolkit.operating import Run, counts_line, sharing
from memforest_core.cli.toolkit.options import DataOption, JsonOption, argument, delegated, option
from memforest_core.cli.toolkit.output import Exit, answered, console, pairs_table, plain_table, print_json, printable
from memforest_core.errors import InvalidInput
from memforest_core.work.records import Acted, AuditEntry, DeadDetail, DeadKind, DeadLetter, OperationTask, TaskId

LimitOption = Annotated[int, typer.Option(min=1, help="Maximum number of items.")]


operations_app = typer.Typer(
    name="operations",
    help="List the newest operations (deletions, corrections, merges, exports and imports, rebuilds, policies), and"
    " cancel one.",
    invoke_without_command=True,
)


@operations_app.callback()
def operations(
    context: typer.Context, limit: LimitOption = 20, data: DataOption = None, as_json: JsonOption = False
) -> None:
    """List the newest operations: deletions, corrections, merges, exports and imports, rebuilds, policies."""
    if delegated(context):
        return
    with opened_memory(data) as memory:
        found = memory.lifecycle.operations(limit)
    if not answered({"operations": found}, as_json=as_json):
        _print_operations(found)


@operations_app.command()
@sharing("no_wait", "timeout", "actor")
def cancel(
    run: Run,
    operation: Annotated[UUID, typer.Argument(metavar="ID", help="The operation, as memforest operations lists it.")],
) -> None:
    """Cancel an operation that has not started, or a running merge, import, export or rebuild."""
    with run.memory() as memory:
        taken = memory.lifecycle.cancel(TaskId(operation), actor=run.requester)
        state = taken.state() if run.no_wait else taken.wait_cancelled(run.timeout)
    about = {"operation": str(taken.id), "kind": taken.kind, "state": state.state, "cancelled": state.cancelled}
    if run.answered(about):
        return
    if state.cancelled:
        console().print(f"Operation {taken.id} ({taken.kind}) was cancelled.")
    elif state.finished:
        console().print(f"Operation {taken.id} ({taken.kind}) was done before it could be cancelled.")
    else:
        console().print(f"Operation {taken.id} ({taken.kind}) will be cancelled: workers do it.")


audit_app = typer.Typer(
    name="audit",
    help="Print who requested what, when, and on which rows; prove that nobody changed that.",
    invoke_without_command=True,
)


@audit_app.callback()
def audit(
    context: typer.Context,
    owner: Annotated[str | None, option("Only rows of this owner, also after a deletion.", "--owner", "-o")] = None,
    action: Annotated[str | None, option("Only one action: erase, correct, merge, ...", "--action")] = None,
    since: Annotated[str | None, option("Only from this time on.", "--since")] = None,
    limit: LimitOption = 100,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print who requested what, when, and on which rows. Rows of the audit can be added, never changed."""
    if delegated(context):
        return
    with opened_memory(data) as memory:
        found = memory.lifecycle.audit(owner, action=action, since=since, limit=limit)
    if not answered({"audit": found}, as_json=as_json):
        _print_audit(found)


@audit_app.command()
def head(
    sign: Annotated[bool, typer.Option("--sign", help="Sign it with MEMFOREST_DATABASE__AUDIT_KEY.")] = False,
    data: DataOption = None,
) -> None:
    """Print the newest row's number and hash as JSON. Keep it where the database's administrators can't write."""
    with opened_memory(data) as memory:
        print_json(memory.lifecycle.audit_head(sign=sign))


@audit_app.command()
def verify(
    head: Annotated[
        Path | None, option("What audit head printed before: no row up to it may differ.", "--head")
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find rows of the audit that were changed, removed or inserted. Exit code 1: there are some."""
    from memforest_core.work.audit import AuditHead

    try:
        before = None if head is None else TypeAdapter(AuditHead).validate_json(head.read_bytes())
    except (OSError, ValueError):
        raise InvalidInput(f"{head} has no output of memforest audit head.", code="invalid_head") from None
    with opened_memory(data) as memory:
        report = memory.lifecycle.audit_verify(before)
    if not answered(report, as_json=as_json):
        for each in report.findings:
            console().print(each, style="red")
        compared = f", and extend the {report.extends} head" if report.extends else ""
        sound = f"{report.head.rows} rows of the audit are as they were written{compared}."
        console().print(sound if report.sound else "The audit is not proven.")
    if not report.sound:
        raise typer.Exit(Exit.FAILED)


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


Kind = Literal["cell", "node", "task"]

OwnerFilter = Annotated[str | None, option("Only those of this owner.", "--owner", "-o")]
KindFilter = Annotated[Kind | None, option("Only cells, tree nodes or maintenance tasks.", "--kind")]
CodeFilter = Annotated[str | None, option("Only those with this error code.", "--code")]
Ids = Annotated[list[str], argument("Ids, or the first 8 or more characters of them.", metavar="ID...")]

dead_app = typer.Typer(
    name="dead",
    help="Show, retry or discard dead letters: work that was given up. Nothing of it is lost.",
    no_args_is_help=True,
)


@dead_app.command("list")
def list_(
    owner: OwnerFilter = None,
    kind: KindFilter = None,
    code: CodeFilter = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of items.")] = 1_000,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List dead letters: where, which error, attempts, since when. No conversation text."""
    with opened_store(data) as store:
        found = store.client.dead.list(owner, code=code, kinds=_kinds(kind), limit=limit + 1)
    letters = found[:limit]
    if not answered({"dead": letters, "more": len(found) > limit}, as_json=as_json):
        _print_letters(letters, more=len(found) > limit)


@dead_app.command()
def show(
    id_: Annotated[str, typer.Argument(metavar="ID", help="Its id, or the first 8 or more characters of it.")],
    text: Annotated[bool, typer.Option("--text", help="Also print the conversation text.")] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print everything about one dead letter. Conversation text only with --text."""
    with opened_store(data) as store:
        found = store.client.dead.show(id_, text=text)
    texts = {} if found.texts is None else {"texts": found.texts}
    if not answered({"dead": found.letter, "about": found.about} | texts, as_json=as_json):
        _print_detail(found)


@dead_app.command()
def retry(
    ids: Annotated[
        list[str] | None, argument("Ids, or the first 8 or more characters of them.", metavar="[ID]...")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that match --owner, --kind and --code.")] = False,
    owner: OwnerFilter = None,
    kind: KindFilter = None,
    code: CodeFilter = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Try again with a new count of attempts, for example after a fix or with a new key."""
    if bool(ids) == everything:
        raise InvalidInput("Name what to retry by its ids, or give --all.", code="nothing_named")
    if ids and (owner or kind or code):
        raise InvalidInput("--owner, --kind and --code go with --all.", code="nothing_named")
    with opened_store(data) as store:
        dead = store.client.dead
        acted = dead.retry(*ids) if ids else dead.retry_all(owner, code=code, kinds=_kinds(kind))
    _print_acted("tried again", acted, named=len(set(ids or ())), as_json=as_json)


@dead_app.command()
@sharing("yes")
def discard(run: Run, ids: Ids) -> None:
    """Give up the work for good. A cell's turns stay searchable but get no facts. A node still has its summary."""
    count = len(set(ids))
    run.confirm(f"Go on without {count} given-up piece{'s' if count > 1 else ''} of work?")
    with run.store() as store:
        acted = store.client.dead.discard(*ids)
    _print_acted("discarded", acted, named=count, as_json=run.as_json)


def _kinds(kind: Kind | None) -> tuple[DeadKind, ...]:
    return () if kind is None else (DeadKind(kind),)


def _print_letters(letters: Sequence[DeadLetter], *, more: bool) -> None:
    out = console()
    if not letters:
        out.print("Nothing is dead.")
        return
    titles = ("kind", "id", "step", "owner", "session", "tries", "lost", "since", "error")
    table = plain_table(*titles, right=("tries", "lost"), whole=("id", "since"))
    for letter in letters:
        table.add_row(
            letter.kind.value,
            str(letter.id),
            letter.step,
            printable(letter.owner or ""),
            printable(letter.session or ""),
            str(letter.attempts),
            str(letter.lost_leases),
            f"{letter.since:%Y-%m-%d %H:%M:%S}" if letter.since else "",
            f"{printable(letter.text)} [{printable(letter.code)}]",
        )
    out.print(table)
    out.print(f"{len(letters)} dead{', and more: raise --limit' if more else ''}.", style="dim")


def _print_detail(found: DeadDetail) -> None:
    letter = found.letter
    rows: dict[str, object] = {
        letter.kind.value: letter.id,
        "step": letter.step,
        "owner": letter.owner or "",
        "session": letter.session or "",
        "error": f"{letter.text} [{letter.code}]",
        "attempts": letter.attempts,
        "lost leases": letter.lost_leases,
        "since": f"{letter.since:%Y-%m-%d %H:%M:%S} UTC" if letter.since else "",
    }
    rows |= {name.replace("_", " "): value for name, value in found.about.items()}
    out = console()
    out.print(pairs_table({name: printable(str(value)) for name, value in rows.items()}))
    for text in found.texts or ():
        for line in text.splitlines():
            out.print(f"  {printable(line)}")


def _print_acted(verb: str, acted: Acted, *, named: int, as_json: bool) -> None:
    unchanged = max(0, named - len(acted.changed))
    if answered({"changed": acted.changed, "unchanged": unchanged}, as_json=as_json):
        return
    left = f", {unchanged} left as they are (no longer dead, or under way)" if unchanged else ""
    console().print(f"{len(acted.changed)} {verb}{left}.")
