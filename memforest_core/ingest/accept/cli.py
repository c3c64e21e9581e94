"""``memforest ingest``: sessions from a file, our own lines or what others export; running it again costs nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from io import BufferedIOBase, BufferedReader
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from memforest_core.cli.toolkit.memory_opening import opened_store
from memforest_core.cli.toolkit.options import DataOption, JsonOption, option
from memforest_core.cli.toolkit.output import Exit, console, print_json, printable
from memforest_core.errors import InvalidInput, SessionConflict
from memforest_core.ingest.formats.file_items import Converted, Item, Refused, Wordless
from memforest_core.ingest.formats.json_items import read_lines

if TYPE_CHECKING:
    from rich.progress import Progress

    from memforest_core.client.handles import SessionHandle
    from memforest_core.client.producer import MemForestClient
    from memforest_core.ingest.formats.formats import Format

MAX_REPORTED = 1_000
"""Bad lines and items that are named; more are counted."""
CHUNK_BYTES = 2**18
"""Read at once, at most."""

Wait = Literal["none", "raw", "facts", "summaries"]
FileFormat = Literal[
    "jsonl", "auto", "locomo", "longmemeval", "openai", "sharegpt", "mem0", "langchain", "history", "sqlite"
]


@dataclass(frozen=True, slots=True)
class BadItem:
    """What was refused, by its line or by its position in the file's list; nothing of it is stored."""

    line: int | None
    item: int | None
    session_id: str | None
    code: str
    message: str


@dataclass(slots=True)
class Report:
    """What became of the file's sessions."""

    format: str
    accepted: int = 0
    """New sessions, and longer versions of stored ones."""
    unchanged: int = 0
    wordless: int = 0
    """Sessions without a word to remember."""
    failed: int = 0
    new_turns: int = 0
    waited: Wait = "none"
    errors: list[BadItem] = field(default_factory=list)
    warnings: tuple[str, ...] = ()
    """What works less well for these sessions than it could, and what to set."""

    def count(self, handle: SessionHandle) -> None:
        """Note an accepted session."""
        self.new_turns += handle.accepted.new_turns
        if handle.accepted.new_turns:
            self.accepted += 1
        else:
            self.unchanged += 1

    def refuse(self, position: int, session_id: str | None, error: InvalidInput | SessionConflict) -> None:
        """Note a bad line or item."""
        self.failed += 1
        if len(self.errors) < MAX_REPORTED:
            line, item = (position, None) if self.format == "jsonl" else (None, position)
            self.errors.append(BadItem(line, item, session_id if item else None, error.code, error.message))


def ingest(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help='One session a line: {"owner", "session_id", "turns": [...], "started_at"?, "display_name"?,'
            ' "channel"?, "time_zone"?}; or an export as --format lists them; - reads stdin.',
        ),
    ],
    format_: Annotated[
        FileFormat | None,
        option(
            "jsonl: as above. openai: ChatGPT's conversations.json. sharegpt: conversations of from and value."
            " mem0: exported memories. langchain: serialized messages. history, sqlite: a chatbot's own sessions and"
            " messages. locomo, longmemeval: the data sets' files. Default: recognized by the file's beginning,"
            " else jsonl; with auto an unknown beginning is an error.",
            "--format",
        ),
    ] = None,
    owner: Annotated[
        str | None,
        option(
            "Whose sessions these are: needed for openai and sharegpt; for jsonl and mem0, of lines and memories"
            " that name none; for the others in place of what the file says.",
            "--owner",
            "-o",
        ),
    ] = None,
    display_name: Annotated[str | None, option("What the owner of --owner is called.", "--display-name")] = None,
    time_zone: Annotated[
        str | None, option("Where the speakers are, such as Europe/Paris; lines may have their own.")
    ] = None,
    session: Annotated[str | None, option("The session of a file of one conversation that has no id.")] = None,
    columns: Annotated[
        list[str] | None,
        option(
            "For history and sqlite: content=body, session=room, messages=TABLE, role:captain=user and the like;"
            " can be given several times.",
            "--map",
            metavar="WHAT=NAME",
        ),
    ] = None,
    wait: Annotated[
        Wait | None,
        option(
            "Wait until all sessions can be recalled as text, as facts, or with summaries."
            " Default: none; with --data summaries."
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

    A bad line or item is reported with its number and the others go on; the exit code is 2 then. When the queue is
    full it waits for room; when there is none in time, the exit code is 75.
    """
    if display_name is not None and owner is None:
        raise InvalidInput("Give --owner with --display-name, which is the name of that owner.", code="missing_owner")
    from rich.progress import Progress

    with _opened(file) as source:
        progress = Progress(console=console(stderr=True), disable=as_json)
        found, chunks = _recognized(format_, _chunks(source, progress), as_json)
        items = _items(found, chunks, owner, session, columns or [], None if file == "-" else Path(file))
        report = Report(found or "jsonl", waited=wait or ("none" if data is None else "summaries"))
        with opened_store(data, create=True) as store, progress:
            names = {} if display_name is None else {owner: display_name}
            handles = _handed_over(items, store.client, report, names, time_zone, backfill, timeout)
            sessions = [(handle.owner, handle.session_id) for handle in handles if report.waited != "none"]
            for accepted in progress.track(sessions, description=f"waiting for {report.waited}"):
                store.client.wait(*accepted, report.waited, timeout)
            if report.accepted:
                report.warnings = store.inspection.system(store.tenant).warnings
    _print(report, as_json)


@contextmanager
def _opened(file: str) -> Iterator[BufferedIOBase]:
    """The file's bytes. Raises InvalidInput."""
    if file == "-":
        # What a terminal's or pipe's bytes are read through, whatever its annotation leaves open.
        yield cast(BufferedIOBase, sys.stdin.buffer)
        return
    with ExitStack() as opened:
        try:
            source = opened.enter_context(Path(file).open("rb"))
        except OSError as error:
            raise InvalidInput(f"{file} can't be read ({error.strerror}).", code="unreadable_file") from None
        yield source


def _chunks(source: BufferedIOBase, progress: Progress) -> Iterator[bytes]:
    """The file in chunks; a pipe gives what it contains now."""
    is_file = isinstance(source, BufferedReader) and source is not sys.stdin.buffer
    size = Path(source.name).stat().st_size if is_file and isinstance(source, BufferedReader) else None
    bar = progress.add_task("handing over", total=size)
    while chunk := source.read1(CHUNK_BYTES):
        progress.advance(bar, len(chunk))
        yield chunk


def _recognized(
    format_: FileFormat | None, chunks: Iterator[bytes], as_json: bool
) -> tuple[Format | None, Iterator[bytes]]:
    """The format, None for our own lines, and the whole file again. Raises InvalidInput for an unknown beginning."""
    from memforest_core.ingest.formats.formats import HEAD_BYTES, OWN_LINES, Format, formats_of, recognized

    if format_ == OWN_LINES:
        return None, chunks
    if format_ not in (None, "auto"):
        return Format(format_), chunks
    head = b""
    for chunk in chunks:
        head += chunk
        # Lines that come slowly through a pipe are taken as they come.
        if len(head) >= HEAD_BYTES or (b"\n" in head and formats_of(head)):
            break
    found = None if format_ is None and not formats_of(head) else recognized(head)
    if not as_json and (found is not None or format_ == "auto"):
        print(f"Format: {found or OWN_LINES}.", file=sys.stderr)
    return found, chain([head], chunks)


def _items(
    format_: Format | None,
    chunks: Iterator[bytes],
    owner: str | None,
    session: str | None,
    columns: Sequence[str],
    path: Path | None,
) -> Iterator[Item]:
    """The sessions of the file. Raises InvalidInput for a missing owner, and for an option that the format ignores."""
    from memforest_core.ingest.formats.formats import Format, converted
    from memforest_core.ingest.formats.history import parse_columns

    names = parse_columns(columns)
    if columns and format_ not in (Format.HISTORY, Format.SQLITE):
        raise InvalidInput("Leave --map out: it is for --format history and sqlite.", code="invalid_map")
    if session is not None and format_ not in (Format.HISTORY, Format.LANGCHAIN):
        raise InvalidInput("Leave --session out: it is for --format langchain and history.", code="invalid_session")
    if format_ is None:
        return read_lines(chunks, owner)
    return converted(format_, chunks, owner, session=session, columns=names, path=path)


def _handed_over(
    items: Iterator[Item],
    client: MemForestClient,
    report: Report,
    names: Mapping[str | None, str],
    time_zone: str | None,
    backfill: bool,
    room_timeout_s: float,
) -> Iterator[SessionHandle]:
    """Enqueue one by one, with the ``names`` of owners, and in the zone unless a session has one; bad items are noted
    in the report, any other error ends the command."""
    for item in items:
        match item:
            case Refused():
                report.refuse(item.position, item.session_id, item.error)
            case Wordless():
                report.wordless += 1
            case Converted():
                try:
                    handle = client.enqueue(
                        item.owner,
                        item.session_id,
                        item.turns,
                        started_at=item.started_at,
                        display_name=names.get(item.owner, item.display_name),
                        channel=item.channel,
                        time_zone=item.time_zone or time_zone,
                        backfill=backfill,
                        room_timeout_s=room_timeout_s,
                    )
                except (InvalidInput, SessionConflict) as error:
                    report.refuse(item.position, item.session_id, error)
                    continue
                report.count(handle)
                yield handle


def _print(report: Report, as_json: bool) -> None:
    """Print it, and exit with a code that says so when something failed."""
    if as_json:
        print_json(report)
    else:
        _print_lines(report)
    if report.failed:
        raise typer.Exit(Exit.REFUSED)


def _print_lines(report: Report) -> None:
    for bad in report.errors:
        place = f"line {bad.line}" if bad.line is not None else f"item {bad.item}"
        session = f" ({printable(bad.session_id)})" if bad.session_id is not None else ""
        print(f"{place}{session}: {printable(bad.message)} [{bad.code}]", file=sys.stderr)
    for warning in report.warnings:
        print(f"Warning: {warning}", file=sys.stderr)
    wordless = f" {report.wordless} without words," if report.wordless else ""
    print(
        f"{report.accepted} sessions accepted ({report.new_turns} new turns), {report.unchanged} unchanged,{wordless}"
        f" {report.failed} failed."
    )
