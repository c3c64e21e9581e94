"""What commands share that ask for an operation: confirm, follow with a progress bar, print what was done."""

from __future__ import annotations

import getpass
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from memforest_core.cli.toolkit.options import option
from memforest_core.cli.toolkit.output import Exit, console, pairs_table, plain, print_json, printable
from memforest_core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from memforest_core.client.handles import Operation
    from memforest_core.work.records import OperationTask

DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
ActorOption = Annotated[str | None, option("The name for the audit; by default the logged-in user.", "--actor")]
NoWaitOption = Annotated[
    bool, typer.Option("--no-wait", help="Start the operation and do not wait. See memforest operations.")
]
TimeoutOption = Annotated[
    float, typer.Option(min=0, help="Maximum seconds to wait. The operation continues after that.")
]
TIMEOUT_S = 3_600.0


def actor_named(actor: str | None) -> str:
    """The name for the audit: as given, or the logged-in user."""
    return actor if actor is not None else f"cli:{getpass.getuser()}"


def confirm(question: str, *, yes: bool, as_json: bool) -> None:
    """Ask a person; a program has to say --yes. Raises InvalidInput; ends the command when the answer is no."""
    if yes:
        return
    if as_json or not sys.stdin.isatty():
        raise InvalidInput("Say --yes to do this without a question.", code="not_confirmed")
    if not typer.confirm(question, err=True):
        raise typer.Exit(Exit.FAILED)


def follow(
    operation: Operation,
    *,
    wait: bool,
    timeout_s: float,
    as_json: bool,
    title: str,
    show: Callable[[Mapping[str, object]], None] | None = None,
) -> Mapping[str, object]:
    """Follow an operation with a progress bar and print its end, by ``show`` or as a table; its numbers.

    Raises OperationFailed, WaitTimeout.
    """
    if not wait:
        state = operation.state()
        if as_json:
            print_json({"operation": str(operation.id), "kind": operation.kind, "state": state.state})
        else:
            console().print(f"Started: operation {operation.id}. Workers do it; see memforest operations.")
        return state.progress
    progress = _watched(operation, timeout_s, title, as_json=as_json)
    numbers = {name: value for name, value in progress.items() if not name.startswith("_")}
    if as_json:
        print_json({"operation": str(operation.id), "kind": operation.kind, "state": "done", "numbers": plain(numbers)})
    else:
        (show or print_numbers)(numbers)
    return numbers


def _watched(operation: Operation, timeout_s: float, title: str, *, as_json: bool) -> Mapping[str, object]:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[numbers]}"),
        TimeElapsedColumn(),
        console=console(stderr=True),
        disable=as_json,
        transient=True,
    ) as shown:
        bar = shown.add_task(title, total=None, numbers="")

        def watch(task: OperationTask) -> None:
            done, total = task.progress.get("done"), task.progress.get("total")
            shown.update(
                bar,
                description=f"{title}: {task.progress.get('phase', task.state)}",
                completed=int(done or 0),
                total=int(total) if total else None,
                numbers=counts_line(task.progress, limit=4),
            )

        return operation.wait(timeout_s, watch)


def counts_line(numbers: Mapping[str, object], limit: int | None = None) -> str:
    """Counts on one line, the first few of them; ids, cursors and zeros are left out."""
    counts = [
        f"{name.replace('_', ' ')} {value}" for name, value in numbers.items() if isinstance(value, int) and value
    ]
    return ", ".join(counts[:limit])


def print_numbers(numbers: Mapping[str, object]) -> None:
    """Counts as a table; ids, cursors and the phase are left out."""
    counts = {name: str(value) for name, value in numbers.items() if isinstance(value, int)}
    named = {printable(name.replace("_", " ")): count for name, count in counts.items()}
    console().print(pairs_table(named, counts=True))
