"""``memforest export`` and ``memforest import``: a forest as one file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer

from memforest_core.cli.toolkit.memory_opening import opened_memory
from memforest_core.cli.toolkit.operating import ActorOption, DryRunOption, actor_named, print_numbers
from memforest_core.cli.toolkit.options import DataOption, JsonOption, OwnerOption, option
from memforest_core.cli.toolkit.output import answered, console, plain
from memforest_core.work.records import Numbers

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The exported file.")]


def export(
    file: FileArgument,
    owner: OwnerOption,
    format_: Annotated[
        Literal["bundle", "jsonl", "sqlite"],
        option("A bundle; SQLite with views for people; or JSON lines. import reads each.", "--format"),
    ] = "bundle",
    vectors: Annotated[
        bool | None, typer.Option("--vectors/--no-vectors", help="With vectors. Default: not in JSON lines.")
    ] = None,
    summaries: Annotated[bool, typer.Option("--summaries/--no-summaries", help="With its summaries.")] = True,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
    dry_run: DryRunOption = False,
    actor: ActorOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write an owner's memory to one file, as of this moment. Other work goes on.

    Parts that you leave out are made again after the import: vectors by embedding, summaries by refresh.
    """
    with opened_memory(data) as memory, bar("exporting", as_json=as_json) as watch:
        numbers = memory.lifecycle.export(
            owner,
            file,
            format=format_,
            vectors=vectors,
            summaries=summaries,
            overwrite=overwrite,
            actor=actor_named(actor),
            dry_run=dry_run,
            watch=watch,
        )
    _print(file, numbers, as_json)


def import_(
    file: FileArgument,
    owner: Annotated[
        str | None, option("Owner of the imported memory. Default: the owner in the bundle.", "--owner", "-o")
    ] = None,
    vectors: Annotated[
        bool, typer.Option("--vectors/--no-vectors", help="Use the bundle's vectors, or embed the texts again.")
    ] = True,
    dry_run: DryRunOption = False,
    actor: ActorOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Import an owner's memory from what export wrote. The owner must have none yet. Everything is checked before
    anything is written.

    After an interruption, run it again: it continues. Once it is done, it does nothing.
    """
    with opened_memory(data, create=True) as memory, bar("importing", as_json=as_json) as watch:
        numbers = memory.lifecycle.import_(
            file, owner, vectors=vectors, actor=actor_named(actor), dry_run=dry_run, watch=watch
        )
    _print(file, numbers, as_json)


def _print(file: Path, numbers: Numbers, as_json: bool) -> None:
    if not answered({"file": file, "numbers": numbers}, as_json=as_json):
        print_numbers(plain(numbers))


@contextmanager
def bar(title: str, *, as_json: bool) -> Iterator[Callable[[int, int], None]]:
    """A progress bar; what it yields takes the rows done and all rows."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console(stderr=True),
        disable=as_json,
        transient=True,
    ) as shown:
        task = shown.add_task(title, total=None)
        yield lambda done, total: shown.update(task, completed=done, total=total)
