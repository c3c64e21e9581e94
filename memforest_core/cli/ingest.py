"""``memforest ingest``: sessions from a file, one a line; running it again costs nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Literal

import typer

from memforest_core.cli.opening import opened_store
from memforest_core.cli.options import DataOption, JsonOption
from memforest_core.cli.output import Exit, console, print_json, printable
from memforest_core.cli.session_lines import read_line
from memforest_core.errors import InvalidInput, SessionConflict

if TYPE_CHECKING:
    from rich.progress import Progress

    from memforest_core.client import MemForestClient, SessionHandle

MAX_REPORTED = 1_000
"""Bad lines that are named; more are counted."""

Wait = Literal["none", "raw", "facts", "summaries"]


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that was refused; nothing of it is stored."""

    line: int
    code: str
    message: str


@dataclass(slots=True)
class Report:
    """What became of the lines."""

    accepted: int = 0
    """New sessions, and longer versions of stored ones."""
    unchanged: int = 0
    failed: int = 0
    new_turns: int = 0
    waited: Wait = "none"
    errors: list[BadLine] = field(default_factory=list)

    def keep(self, handle: SessionHandle) -> None:
        """Note an accepted session."""
        self.new_turns += handle.accepted.new_turns
        if handle.accepted.new_turns:
            self.accepted += 1
        else:
            self.unchanged += 1

    def refuse(self, line: int, error: InvalidInput | SessionConflict) -> None:
        """Note a bad line."""
        self.failed += 1
        if len(self.errors) < MAX_REPORTED:
            self.errors.append(BadLine(line, error.code, error.message))


def ingest(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE.jsonl",
            help='One session a line: {"owner", "session_id", "turns": [...], "started_at"?}; - reads stdin.',
        ),
    ],
    owner: Annotated[
        str | None, typer.Option("--owner", "-o", help="Of lines that name none.", show_default=False)
    ] = None,
    wait: Annotated[
        Wait | None,
        typer.Option(
            help="Wait until all sessions can be asked for as text, as facts, or with summaries."
            " Default: none; with --data summaries.",
            show_default=False,
        ),
    ] = None,
    backfill: Annotated[bool, typer.Option("--backfill/--live", help="Behind live sessions, or among them.")] = True,
    timeout: Annotated[
        float, typer.Option(min=0, help="Seconds to wait for one session at most, or for room in a full queue.")
    ] = 3600.0,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Hand over sessions from a file. What is stored already is left as it is, so run it again after an interruption.

    A bad line is reported with its number and the others go on; the exit code is 2 then. When the queue is full it
    waits for room; when there is none in time, the exit code is 75.
    """
    report = Report(waited=wait or ("none" if data is None else "summaries"))
    with (
        _opened(file) as source,
        opened_store(data, create=True) as store,
        _progress(as_json) as progress,
    ):
        sessions: list[tuple[str, str]] = []
        for handle in _handed_over(source, store.client, owner, backfill, timeout, report, progress):
            if report.waited != "none":
                sessions.append((handle.owner, handle.session_id))
        for session in progress.track(sessions, description=f"waiting for {report.waited}"):
            store.client.wait(*session, report.waited, timeout)
    _print(report, as_json)
    if report.failed:
        raise typer.Exit(Exit.MEND)


@contextmanager
def _opened(file: str) -> Iterator[BinaryIO]:
    """The file's bytes. Raises InvalidInput."""
    if file == "-":
        yield sys.stdin.buffer
        return
    try:
        source = Path(file).open("rb")  # noqa: SIM115 - closed below; only opening may fail here
    except OSError as error:
        raise InvalidInput(f"{file} can't be read ({error.strerror}).", code="unreadable_file") from None
    with source:
        yield source


def _progress(as_json: bool) -> Progress:
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=console(stderr=True),
        disable=as_json,
    )


def _handed_over(
    source: BinaryIO,
    client: MemForestClient,
    owner: str | None,
    backfill: bool,
    room_timeout_s: float,
    report: Report,
    progress: Progress,
) -> Iterator[SessionHandle]:
    """Enqueue line by line; a bad line is noted, anything else that goes wrong ends it."""
    size = Path(source.name).stat().st_size if source is not sys.stdin.buffer else None
    bar = progress.add_task("handing over", total=size)
    for number, raw in enumerate(source, start=1):
        progress.advance(bar, len(raw))
        if not raw.strip():
            continue
        try:
            line = read_line(raw, owner)
            handle = client.enqueue(
                line.owner,
                line.session_id,
                line.turns,
                started_at=line.started_at,
                backfill=backfill,
                room_timeout_s=room_timeout_s,
            )
        except (InvalidInput, SessionConflict) as error:
            report.refuse(number, error)
            continue
        report.keep(handle)
        yield handle


def _print(report: Report, as_json: bool) -> None:
    if as_json:
        print_json(report)
        return
    for bad in report.errors:
        print(f"line {bad.line}: {printable(bad.message)} [{bad.code}]", file=sys.stderr)
    print(
        f"{report.accepted} sessions accepted ({report.new_turns} new turns), {report.unchanged} unchanged,"
        f" {report.failed} failed."
    )


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("ingest")(ingest)
