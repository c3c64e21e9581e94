"""What commands print and how they end: rich text for people, one JSON object a line for programs, exit codes.

Results go to stdout; progress, errors and logs to stderr. With ``--json`` an error is one line
``{"error": {"code": ..., "message": ...}}`` on stderr.

    0    done
    1    failed: an expectation was not met, or stored state is damaged
    2    to fix by the caller: arguments, input, settings, or the address or key of a service
    75   the same command can succeed later: waited too long, quota, rate limit (sysexits' EX_TEMPFAIL)
    130  interrupted (128 + SIGINT); 143 terminated (128 + SIGTERM); 141 the reader closed the pipe (128 + SIGPIPE)
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Any

from memforest_core.domain.pages import Document
from memforest_core.domain.pages import plain as plain
from memforest_core.errors import (
    BrokerUnavailable,
    CallerError,
    IndexUnavailable,
    MemForestError,
    ModelRateLimited,
    ModelRejected,
    ModelUnavailable,
    QuotaExceeded,
    RetryableError,
    StoreUnavailable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from datetime import datetime

    from rich.console import Console
    from rich.table import Table

    from memforest_core.domain.pages import Page

PIPE_WIDTH = 10_000
"""Columns when no terminal says how wide it is: lines are for other programs then, and stay whole."""


NAME = "memforest"


class Exit(IntEnum):
    """How a command ends."""

    DONE = 0
    FAILED = 1
    REFUSED = 2
    LATER = 75
    INTERRUPTED = 130
    READER_GONE = 141
    TERMINATED = 143


class Terminated(KeyboardInterrupt):
    """SIGTERM, so that what is open gets closed on the way out."""


def exit_code(error: MemForestError) -> Exit:
    """How a command ends that met this error."""
    match error:
        case QuotaExceeded() | ModelRateLimited():
            return Exit.LATER
        case CallerError() | ModelRejected():
            return Exit.REFUSED
        case StoreUnavailable() | BrokerUnavailable() | IndexUnavailable() | ModelUnavailable():
            return Exit.REFUSED  # an address or a server to check, as the message says
        case RetryableError():
            return Exit.LATER
        case _:
            return Exit.FAILED


def report(error: MemForestError, *, as_json: bool) -> Exit:
    """Print an error to stderr; the exit code that goes with it."""
    report_message(error.code, error.message, as_json=as_json)
    return exit_code(error)


def report_message(code: str, message: str, *, as_json: bool) -> None:
    """Print an error to stderr."""
    if as_json:
        print(json_line({"error": {"code": code, "message": message}}), file=sys.stderr)
    else:
        print(f"memforest: {printable(message)}", file=sys.stderr)


def report_progress(sentence: str) -> None:
    """Tell people on stderr what goes on."""
    print(f"memforest: {printable(sentence)}", file=sys.stderr, flush=True)


def print_json(value: object) -> None:
    """One JSON object on one line of stdout."""
    print(json_line(plain(value)))


def json_line(value: object) -> str:
    """JSON on one line whose text cannot steer a terminal: what does not print is escaped (``\\u009b``)."""
    written = json.dumps(value, ensure_ascii=False)
    if written.isprintable():
        return written
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in written)


def console(*, stderr: bool = False) -> Console:
    """A console for people; made for each use, so that it writes to what stdout or stderr is at that moment."""
    from rich.console import Console

    class PipeConsole(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # how that ends is decided in one place

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else PIPE_WIDTH
    return PipeConsole(file=stream, width=width, highlight=False, markup=False, emoji=False)


def plain_table(*titles: str, right: Collection[str] = (), whole: Collection[str] = ()) -> Table:
    """A table without lines; the columns in ``right`` hold numbers, those in ``whole`` are not wrapped either."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in titles:
        counts = title in right
        table.add_column(title, justify="right" if counts else "left", no_wrap=counts or title in whole)
    return table


def pairs_table(rows: Mapping[str, str], *, counts: bool = False) -> Table:
    """Names and values, one pair a row; ``counts`` are flush right."""
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim")
    table.add_column(justify="right" if counts else "left")
    for name, value in rows.items():
        table.add_row(name, value)
    return table


def printable(text: str) -> str:
    """Stored text on one line, without what would steer a terminal."""
    joined = " ".join(text.split())
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in joined)


def print_lines(text: str) -> None:
    """Print stored text with its lines; an indented line stays indented: its words go on, nobody else begins."""
    for line in text.split("\n"):
        console().print(f"{'  ' if line.startswith('  ') else ''}{printable(line)}")


_similar: list[Callable[[str], str | None]] = []
"""Finds an owner with a similar name in the store that is open."""


@contextmanager
def similar_owners(find: Callable[[str], str | None]) -> Iterator[None]:
    """Let ``no_memory`` name the similar owner that ``find`` finds."""
    _similar.append(find)
    try:
        yield
    finally:
        _similar.pop()


def no_memory(owner: str) -> str:
    """What a reading command says about an owner without a memory; while a store is open, with a similar name."""
    near = _similar[-1](owner) if _similar else None
    if near is not None:
        return f"{printable(owner)} has no memory yet: did you mean {printable(near)}?"
    return f"{printable(owner)} has no memory yet: memforest ingest stores a conversation."


def print_page(page: Page[Any], table: Table, owner: str | None = None, *, as_json: bool = False) -> None:
    """A page of a list: as JSON, or as a table with the next page's cursor, or that its owner has no memory."""
    if as_json:
        print_json(page)
    elif owner is not None and not page.owner_known:
        console().print(no_memory(owner))
    else:
        console().print(table)
        if page.cursor is not None:
            console().print(f"More follow: --cursor {page.cursor}", style="yellow", soft_wrap=True)


def counted(count: int, word: str) -> str:
    """A number with its noun: "1 turn", "2 turns"."""
    return f"{count} {word}{'' if count == 1 else 's'}"


def this_program() -> str:
    """This command as a shell in this directory runs it: by its name where PATH has it, else by its path."""
    own = Path(sys.argv[0]) if Path(sys.argv[0]).name == NAME else Path(sys.executable).with_name(NAME)
    found = which(NAME)
    if not own.is_file():
        return NAME if found else f"{sys.executable} -m memforest_core.cli"
    if found is not None and own.samefile(found):
        return NAME
    here = Path(os.path.relpath(own))
    return shlex.quote(str(own.absolute() if here.parts[0] == ".." else here))


def minute(moment: datetime | None) -> str:
    """A moment in a table; nothing for none."""
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M}"


def shortened(text: str, limit: int) -> str:
    """Printable text of at most ``limit`` characters."""
    line = printable(text)
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def named(label: str) -> str:
    """A tree's label as it is printed; scenes of no known domain have none."""
    return printable(label) or "(unnamed)"


def answered(found: Any, owner: str | None = None, *, as_json: bool) -> bool:
    """Print a result as JSON, or that its ``owner`` has no memory; False when it is still to be shown to people."""
    if as_json:
        print_json(found.to_dict() if isinstance(found, Document) else found)
        return True
    unknown = owner is not None and not found.owner_known
    if owner is not None and unknown:
        console().print(no_memory(owner))
    return unknown


def print_degraded(sentences: Iterable[str]) -> None:
    """Say what was done without a part that was unavailable."""
    for sentence in sentences:
        console().print(printable(sentence), style="yellow")
