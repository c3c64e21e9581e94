"""``memforest forget``: delete what was said, with a receipt that says what went and that nothing is left."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated

import typer

from memforest_core.cli.toolkit.memory_opening import quiet_logs
from memforest_core.cli.toolkit.operating import Run, sharing
from memforest_core.cli.toolkit.options import JsonOption, OwnerOption, option
from memforest_core.cli.toolkit.output import Exit, answered, console, counted, plain_table, printable
from memforest_core.lifecycle.erase.records import LEFT, Receipt


@sharing("dry_run", "yes", "no_wait", "timeout", "actor")
def forget(
    run: Run,
    owner: OwnerOption,
    session: Annotated[str | None, option("A whole session.", "--session")] = None,
    turns: Annotated[list[str] | None, option("A turn of --session, by its id; repeatable.", "--turn")] = None,
    fact: Annotated[str | None, option("A fact. The turns that say it stay.", "--fact")] = None,
    since: Annotated[str | None, option("What was said from this moment on.", "--since")] = None,
    until: Annotated[str | None, option("What was said before this moment.", "--until")] = None,
    speaker: Annotated[str | None, option("All words of a speaker, by id.", "--speaker")] = None,
    everything: Annotated[bool, typer.Option("--everything", help="The owner's whole memory.")] = False,
    receipt: Annotated[
        bool, typer.Option("--receipt", help="Print what was removed from where, and what a search for it found.")
    ] = False,
) -> None:
    """Delete turns, a fact, a session, a time range, a speaker's words, or everything. It can't be undone.

    Recall no longer finds it as soon as the rows are deleted. Summaries that quoted it are hidden until they are
    written again. The exit code is 1 if a reference was left.
    """
    if not run.dry_run:
        run.confirm(f"Delete this from the memory of {printable(owner)} for good?")
    with run.memory() as memory:
        operation = memory.lifecycle.forget(
            owner,
            session=session,
            turns=turns or (),
            fact=fact,
            since=since,
            until=until,
            speaker=speaker,
            everything=everything,
            actor=run.requester,
            dry_run=run.dry_run,
        )
        if not receipt or run.dry_run or run.no_wait:
            show = partial(_print_counts, "Would be deleted" if run.dry_run else "Deleted")
            numbers = run.follow(operation, "deleting", show=show)
            if not run.dry_run and not run.no_wait and _left(numbers):
                raise typer.Exit(Exit.FAILED)
            return
        operation.wait(run.timeout)
        shown = memory.lifecycle.receipt(operation.id)
    if not run.answered({"receipt": shown}):
        _print_receipt(shown)
    if not shown.clean:
        raise typer.Exit(Exit.FAILED)


def _left(numbers: Mapping[str, object]) -> int:
    """References that the search found after the deletion."""
    return sum(int(str(count)) for name, count in numbers.items() if name.startswith(LEFT))


def _print_counts(title: str, numbers: Mapping[str, object]) -> None:
    """What went, in one sentence; ``--receipt`` prints every count."""
    counts = ((word, int(str(numbers.get(f"{word}s", 0)))) for word in ("session", "turn", "fact"))
    said = ", ".join(counted(count, word) for word, count in counts if count) or "nothing that was said"
    left = _left(numbers)
    rest = f"{counted(left, 'reference')} left: request it once more" if left else "nothing refers to it"
    console().print(f"{title}: {said}{'' if title != 'Deleted' else f'; {rest}'}.")


def _print_receipt(receipt: Receipt) -> None:
    out = console()
    out.print(f"Receipt of operation {receipt.task}, requested by {printable(receipt.actor)}.")
    for title, counts in (("removed", receipt.removed), ("left", receipt.left)):
        table = plain_table(title, "", right=("",))
        for name, count in counts.items():
            table.add_row(printable(name.replace("_", " ")), str(count))
        out.print(table)
    out.print("Nothing of it is left." if receipt.clean else "References are left: request it once more.")
    if receipt.finished_at is not None and not receipt.vacuumed:
        out.print("Its pages are vacuumed within minutes; memforest db vacuum does it now.")


def vacuum(
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="Rewrite the tables, so that no deleted byte is left in their files. Each table is locked meanwhile.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Remove deleted rows from the files of all tables and indexes. Workers do it within minutes without this command.

    Connects with MEMFOREST_DATABASE__MIGRATION_URL.
    """
    from memforest_core.lifecycle.erase.rows.vacuum_rows import vacuum_now
    from memforest_core.settings import load_settings

    quiet_logs()
    tables = vacuum_now(load_settings().database, full=full)
    if not answered({"vacuumed": tables}, as_json=as_json):
        print(f"{len(tables)} tables are vacuumed.")
