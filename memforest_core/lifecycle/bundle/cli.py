"""``memforest export`` and ``memforest import``: a forest as one file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer

from memforest_core.cli.toolkit.operating import Run, bar, print_numbers, sharing
from memforest_core.cli.toolkit.options import OwnerOption, option
from memforest_core.cli.toolkit.output import plain
from memforest_core.work.records import Numbers

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The exported file.")]


@sharing("dry_run", "actor")
def export(
    run: Run,
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
) -> None:
    """Write an owner's memory to one file, as of this moment. Other work goes on.

    Parts that you leave out are made again after the import: vectors by embedding, summaries by refresh.
    """
    with run.memory() as memory, _rows_shown(run, "exporting") as watch:
        numbers = memory.lifecycle.export(
            owner,
            file,
            format=format_,
            vectors=vectors,
            summaries=summaries,
            overwrite=overwrite,
            actor=run.requester,
            dry_run=run.dry_run,
            watch=watch,
        )
    _print(run, file, numbers)


@sharing("dry_run", "actor")
def import_(
    run: Run,
    file: FileArgument,
    owner: Annotated[
        str | None, option("Owner of the imported memory. Default: the owner in the bundle.", "--owner", "-o")
    ] = None,
    vectors: Annotated[
        bool, typer.Option("--vectors/--no-vectors", help="Use the bundle's vectors, or embed the texts again.")
    ] = True,
) -> None:
    """Import an owner's memory from what export wrote. The owner must have none yet. Everything is checked before
    anything is written.

    After an interruption, run it again: it continues. Once it is done, it does nothing.
    """
    with run.memory(create=True) as memory, _rows_shown(run, "importing") as watch:
        numbers = memory.lifecycle.import_(
            file, owner, vectors=vectors, actor=run.requester, dry_run=run.dry_run, watch=watch
        )
    _print(run, file, numbers)


def _print(run: Run, file: Path, numbers: Numbers) -> None:
    if not run.answered({"file": file, "numbers": numbers}):
        print_numbers(plain(numbers))


@contextmanager
def _rows_shown(run: Run, title: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar; what it yields takes the rows done and all rows."""
    with bar(title, as_json=run.as_json) as update:
        yield lambda done, total: update(completed=done, total=total, numbers=f"{done}/{total}")
