"""What commands share, above all those that ask for an operation: options, confirm, follow with a progress bar."""

from __future__ import annotations

import getpass
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from memforest_core.cli.toolkit.memory_opening import Store, opened_memory, opened_store
from memforest_core.cli.toolkit.options import (
    CursorOption,
    DataOption,
    Given,
    JsonOption,
    LimitOption,
    option,
    with_parameters,
)
from memforest_core.cli.toolkit.output import Exit, answered, console, pairs_table, plain, printable
from memforest_core.errors import InvalidInput

if TYPE_CHECKING:
    from memforest_core.client.api import MemForest
    from memforest_core.client.handles import Operation
    from memforest_core.work.records import OperationTask


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a command: the options that commands share, in the order of ``--help``, and what is done with them.

    A command has --data and --json, and those of the others that ``sharing`` names.
    """

    limit: LimitOption = 100
    cursor: CursorOption = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")] = False
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Start the operation and do not wait. See memforest operations.")
    ] = False
    timeout: Annotated[
        float, typer.Option(min=0, help="Maximum seconds to wait. The operation continues after that.")
    ] = 3_600.0
    actor: Annotated[str | None, option("The name for the audit; by default the logged-in user.", "--actor")] = None
    data: DataOption = None
    as_json: JsonOption = False

    @property
    def requester(self) -> str:
        """The name for the audit: as given, or the logged-in user."""
        return self.actor if self.actor is not None else f"cli:{getpass.getuser()}"

    def memory(self, *, create: bool = False) -> AbstractContextManager[MemForest]:
        """The whole memory that --data or the settings name."""
        return opened_memory(self.data, create=create)

    def store(self, *, create: bool = False) -> AbstractContextManager[Store]:
        """The producer, the database and inspection that --data or the settings name."""
        return opened_store(self.data, create=create)

    def confirm(self, question: str) -> None:
        """Ask a person, unless --yes says it; ends the command when the answer is no. Raises InvalidInput for a program
        without --yes."""
        if self.yes:
            return
        if self.as_json or not sys.stdin.isatty():
            raise InvalidInput("Say --yes to do this without a question.", code="not_confirmed")
        if not typer.confirm(question, err=True):
            raise typer.Exit(Exit.FAILED)

    def follow(
        self, operation: Operation, title: str, show: Callable[[Mapping[str, object]], None] | None = None
    ) -> Mapping[str, object]:
        """Follow an operation with a progress bar and print its end, by ``show`` or as a table; its numbers.

        With --no-wait, print that it is started. Raises OperationFailed, WaitTimeout.
        """
        about = {"operation": str(operation.id), "kind": operation.kind}
        if self.no_wait:
            state = operation.state()
            if not self.answered(about | {"state": state.state}):
                console().print(f"Started: operation {operation.id}. Workers do it; see memforest operations.")
            return state.progress
        progress = _watched(operation, self.timeout, title, as_json=self.as_json)
        numbers = {name: value for name, value in progress.items() if not name.startswith("_")}
        if not self.answered(about | {"state": "done", "numbers": plain(numbers)}):
            (show or print_numbers)(numbers)
        return numbers

    def answered(self, found: Any, owner: str | None = None) -> bool:
        """Print a result with --json, or that its ``owner`` has no memory; False when people are to see it."""
        return answered(found, owner, as_json=self.as_json)


def sharing(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command of a function whose first parameter is a ``Run``: its own options, then these shared ones."""
    kinds = get_type_hints(Run, include_extras=True)
    wanted = {*names, "data", "as_json"}
    shared = [Given(each.name, kinds[each.name], each.default) for each in fields(Run) if each.name in wanted]

    def made(function: Callable[..., None]) -> Callable[..., None]:
        own = [*inspect.signature(function).parameters.values()][1:]
        own_kinds = get_type_hints(function, include_extras=True)

        def command(**values: Any) -> None:
            run = Run(**{each.name: values.pop(each.name) for each in shared})
            function(run, **values)

        given = [Given(each.name, own_kinds[each.name], each.default) for each in own]
        return with_parameters(command, (*given, *shared), function.__name__, function.__doc__)

    return made


def _watched(operation: Operation, timeout_s: float, title: str, *, as_json: bool) -> Mapping[str, object]:
    with bar(title, as_json=as_json) as update:

        def watch(task: OperationTask) -> None:
            done, total = task.progress.get("done"), task.progress.get("total")
            update(
                description=f"{title}: {task.progress.get('phase', task.state)}",
                completed=int(done or 0),
                total=int(total) if total else None,
                numbers=counts_line(task.progress, limit=4),
            )

        return operation.wait(timeout_s, watch)


@contextmanager
def bar(title: str, *, as_json: bool) -> Iterator[Callable[..., None]]:
    """A progress bar that ends with ``numbers``; what it yields takes what changes of it, as ``Progress.update``."""
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
        yield partial(shown.update, shown.add_task(title, total=None, numbers=""))


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
