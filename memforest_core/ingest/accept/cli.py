"""``memforest ingest``: sessions from a file, our own lines or what others export; running it again costs nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from memforest_core.cli.toolkit.memory_opening import opened_store
from memforest_core.cli.toolkit.options import DataOption, JsonOption, option
from memforest_core.cli.toolkit.output import Exit, answered, console, counted, printable
from memforest_core.domain.turns import checked_zone
from memforest_core.errors import InvalidInput, SessionConflict
from memforest_core.ingest.formats.file_items import Converted, Item, Refused, Wordless

if TYPE_CHECKING:
    from rich.progress import Progress

    from memforest_core.client.handles import SessionHandle
    from memforest_core.client.producer import MemForestClient
    from memforest_core.domain.chat_messages import TurnInput
    from memforest_core.ingest.formats.formats import Checked, Chosen
    from memforest_core.ingest.formats.talks import Findings, Options

MAX_REPORTED = 1_000
"""Kinds of bad lines and items that are named; more are counted."""
MAX_SHOWN_CHARS = 300
"""Of a turn in a dry run."""

FORMAT_NAMES = (
    "anthropic, characterai, characterai-older, claude, claude-code, codex, csv, discord, gemini-api, gemini-takeout,"
    " gemini-takeout-page, hindsight, history, imessage, imessage-txt, instagram, jsonl, langchain, langfuse,"
    " langsmith, letta, librechat, locomo, longmemeval, mem0, messenger, open-webui, openai, openai-items,"
    " sharegpt, sillytavern, slack, sqlite, teams, telegram, vercel, whatsapp, zep, zep-facts"
)
"""The names of all formats, whose readers help does not load."""
MAX_OWNERS_READ = 20
"""Owners whose sessions are read for warnings."""
_NO_ZONE = "{} without a zone: taken as UTC, or as the zone of an owner who has one; give --time-zone."

Wait = Literal["none", "raw", "facts", "summaries"]


@dataclass(frozen=True, slots=True)
class BadItem:
    """What was refused, by its line or by its position in the file's list; nothing of it is stored."""

    line: int | None
    item: int | None
    session_id: str | None
    code: str
    message: str
    count: int = 1
    """Lines or items with the same error; the first is named."""


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
        self.accepted += handle.accepted.new_turns > 0
        self.unchanged += handle.accepted.new_turns == 0

    def refuse(self, position: int, session_id: str | None, error: InvalidInput | SessionConflict) -> None:
        """Note a bad line or item; those with the same error are counted together."""
        self.failed += 1
        for at, bad in enumerate(self.errors):
            if (bad.code, bad.message) == (error.code, error.message):
                self.errors[at] = replace(bad, count=bad.count + 1)
                return
        if len(self.errors) < MAX_REPORTED:
            line, item = (position, None) if self.format == "jsonl" else (None, position)
            self.errors.append(BadItem(line, item, session_id if item else None, error.code, error.message))


def ingest(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE_OR_ZIP_OR_FOLDER",
            help="An export of a messenger, an assistant or another memory (docs/input.md lists them), a chatbot's own"
            ' history, or one session a line: {"owner", "session_id", "turns": [...], "started_at"?,'
            ' "display_name"?, "channel"?, "time_zone"?}; - reads stdin.',
        ),
    ],
    format_: Annotated[
        str | None,
        option(
            f"One of {FORMAT_NAMES}. docs/input.md says whose they are; jsonl is as above. Default: recognized by the"
            " names in a zip or folder and the beginnings of files.",
            "--format",
        ),
    ] = None,
    owner: Annotated[
        str | None,
        option("Whose memory it is; of lines and memories that name an owner it is theirs.", "--owner", "-o"),
    ] = None,
    me: Annotated[
        str | None, option("The owner's name or id among the speakers of the file; '' when the owner is none of them.")
    ] = None,
    display_name: Annotated[str | None, option("What the owner of --owner is called.", "--display-name")] = None,
    time_zone: Annotated[
        str | None, option("Where the speakers are, such as Europe/Paris; lines may have their own.")
    ] = None,
    session: Annotated[str | None, option("The session's id for a file of one conversation.")] = None,
    columns: Annotated[
        list[str] | None,
        option(
            "Where a history, a table or a chat has what: speaker=author.name, content=body, session=room,"
            " messages=TABLE, role:captain=user and the like; can be given several times.",
            "--map",
            metavar="WHAT=NAME",
        ),
    ] = None,
    dates: Annotated[
        Literal["dmy", "mdy", "ymd"] | None,
        option("The order of day, month and year in dates such as 03/04/25, where the file does not show it."),
    ] = None,
    skip_unread: Annotated[
        bool, typer.Option("--skip-unread", help="Leave out messages without a sender or body that can be read.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the first turns, speakers and dates; store nothing.")
    ] = False,
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

    A file is read once before anything is stored: one whose senders or texts can't be read is refused, other doubts are
    counted. A bad line or item is reported with its number and the others go on; the exit code is 2 then. When the
    queue is full it waits for room; when there is none in time, the exit code is 75.
    """
    from memforest_core.ingest.formats.export_files import opened
    from memforest_core.ingest.formats.fields import Dates
    from memforest_core.ingest.formats.formats import OWN_LINES, chosen, sessions
    from memforest_core.ingest.formats.history import parse_map
    from memforest_core.ingest.formats.talks import ME_UNUSED, Findings, Options

    if display_name is not None and owner is None:
        raise InvalidInput("Give --owner with --display-name, which is the name of that owner.", code="missing_owner")
    zone = UTC if time_zone is None else checked_zone(time_zone)
    options = Options(owner, session, me, *parse_map(columns or []), Dates(dates), zone, skip_unread)
    with opened(file) as files:
        found = chosen(files, None if format_ == "auto" else format_)
        name = found.format.name
        if not as_json and name != OWN_LINES:
            print(f"Format: {name} ({found.format.what}).", file=sys.stderr)
        _check_options(found, options)
        report = Report(name, waited=wait or ("none" if data is None else "summaries"))
        if name != OWN_LINES or dry_run:
            options, seen = _checked(found, options, as_json)
            zoneless = seen.findings.zoneless if time_zone is None else 0
            warnings = [*seen.warnings, *([_NO_ZONE.format(counted(zoneless, "time"))] if zoneless else [])]
            if dry_run:
                _show(report, seen.findings, warnings, as_json)
                return
            report.warnings = tuple(warnings)
        elif me:
            report.warnings = (f"{ME_UNUSED}.",)
        with opened_store(data, create=True) as store, _followed(found, "handing over", as_json) as (read, progress):
            items = sessions(read, options, Findings())
            names = {} if display_name is None else {owner: display_name}
            handles = _handed_over(items, store.client, report, names, time_zone, backfill, timeout)
            owners: set[str] = set()
            accepted: list[tuple[str, str]] = []
            for handle in handles:
                if handle.accepted.new_turns and len(owners) < MAX_OWNERS_READ:
                    owners.add(handle.owner)
                if report.waited != "none":
                    accepted.append((handle.owner, handle.session_id))
            for one in progress.track(accepted, description=f"waiting for {report.waited}"):
                store.client.wait(*one, report.waited, timeout)
            read_of = [store.inspection.forest(store.tenant, each).warnings for each in sorted(owners)]
            report.warnings += tuple(dict.fromkeys(warning for found_of in read_of for warning in found_of))
    _print(report, as_json)


@contextmanager
def _followed(found: Chosen, doing: str, as_json: bool) -> Iterator[tuple[Chosen, Progress]]:
    """The files with a bar that shows how much of them is read."""
    from rich.progress import Progress

    with Progress(console=console(stderr=True), disable=as_json) as progress:
        bar = progress.add_task(doing, total=sum(each.size for each in found.files) or None)
        read = [replace(each, progress=lambda size: progress.advance(bar, size)) for each in found.files]
        yield replace(found, files=read), progress


def _check_options(found: Chosen, options: Options) -> None:
    """Refuse options that the format ignores."""
    if options.session is not None and found.format.name in ("jsonl", "mem0", "locomo", "longmemeval"):
        raise InvalidInput(f"Leave --session out: a file of {found.format.name} names its own.", code="invalid_session")
    if options.names and not found.format.maps:
        raise InvalidInput(f"Leave --map out: {found.format.name} has fields of its own.", code="invalid_map")


def _checked(found: Chosen, options: Options, as_json: bool) -> tuple[Options, Checked]:
    """What the file has, before anything is stored; on a terminal it prompts for the owner's name."""
    from memforest_core.ingest.formats.formats import checked

    try:
        with _followed(found, "reading", as_json) as (read, _):
            seen = checked(read, options)
    except InvalidInput as error:
        if error.code != "missing_me" or as_json or not sys.stdin.isatty():
            raise
        print(printable(error.message), file=sys.stderr)
        options = replace(options, me=typer.prompt("You are", default="", err=True))
        seen = checked(found, options)
    refused = seen.findings.refused
    if refused and not seen.findings.sessions + seen.findings.wordless and len(refused) > 1:
        first = refused[0]
        raise InvalidInput(
            f"None of {len(refused)} items can be read; the first: {first.error.message}", code=first.error.code
        )
    return options, seen


def _instant(turn: TurnInput, zone: tzinfo) -> dict[str, str]:
    """The turn's time as it would be stored, in UTC; nothing where it has none."""
    from memforest_core.ingest.formats.fields import Dates, when

    moment = when(turn.get("timestamp"), Dates("dmy"))
    if moment is None:
        return {}
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)
    return {"timestamp": aware.astimezone(UTC).isoformat(timespec="seconds")}


def _show(report: Report, found: Findings, warnings: Sequence[str], as_json: bool) -> None:
    """Print what would be stored, and exit with a code that says so when something would fail."""
    for bad in found.refused:
        report.refuse(bad.position, bad.session_id, bad.error)
    mine, others = dict(found.mine.most_common(100)), dict(found.speakers.most_common(100))
    ends = (found.first, found.last)
    first, last = (f"{moment.astimezone(UTC):%Y-%m-%d %H:%M}" if moment else None for moment in ends)
    shown: list[Mapping[str, object]] = [
        {"session_id": session, **turn, **_instant(turn, found.zone)} for session, turn in found.shown
    ]
    counts = {"sessions": found.sessions, "turns": found.turns, "failed": report.failed, "notices": found.notices}
    said = {"owner_speaks_as": mine, "speakers": others, "first": first, "last": last, "shown": shown}
    whole = {"format": report.format, **counts, **said, "errors": report.errors, "warnings": warnings}
    if not answered(whole, as_json=as_json):
        for turn in shown:
            who = turn.get("name") or turn.get("speaker_id") or turn["role"]
            text = str(turn["content"])[:MAX_SHOWN_CHARS]
            at = str(turn.get("timestamp", "undated")).replace("T", " ").replace("+00:00", " UTC")
            print(printable(f"{turn['session_id']} | {at} | {who}: {text}"))
        for what, names in (("The owner speaks as", mine), ("Others", others)):
            if names:
                print(printable(f"{what}: {', '.join(f'{name} ({count})' for name, count in names.items())}."))
        if first:
            print(f"From {first} to {last} UTC.")
        if found.notices:
            print(f"{found.notices} notices of the app (joined, called, deleted) and lines taken back are left out.")
        _print_doubts(report.errors, warnings)
        stored = f"{counted(found.sessions, 'session')} with {counted(found.turns, 'turn')}"
        print(f"{stored} would be stored, {report.failed} would fail.")
    if report.failed:
        raise typer.Exit(Exit.REFUSED)


def _handed_over(
    items: Iterator[Item],
    client: MemForestClient,
    report: Report,
    names: Mapping[str | None, str],
    time_zone: str | None,
    backfill: bool,
    room_timeout_s: float,
) -> Iterator[SessionHandle]:
    """Enqueue one by one; bad items are noted in the report, any other error ends the command."""
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
                    report.refuse(item.position, item.session_id, _explained(error, item, report.format))
                    continue
                report.count(handle)
                yield handle


def _explained(error: InvalidInput | SessionConflict, item: Converted, format_: str) -> InvalidInput | SessionConflict:
    """What to do about a converted session that differs from the stored one: its ids are the export's own."""
    from memforest_core.ingest.formats.formats import OWN_LINES

    if format_ == OWN_LINES or not isinstance(error, SessionConflict):
        return error
    return SessionConflict(
        f"{error.message.partition(':')[0]}: stored with another --me, --map or --time-zone? Forget the session first:"
        f" memforest forget --owner {quote(item.owner)} --session {quote(item.session_id)}."
    )


def _print(report: Report, as_json: bool) -> None:
    """Print it, and exit with a code that says so when something failed."""
    if not answered(report, as_json=as_json):
        _print_doubts(report.errors, report.warnings)
        wordless = f" {report.wordless} without words," if report.wordless else ""
        accepted = f"{counted(report.accepted, 'session')} accepted ({counted(report.new_turns, 'new turn')})"
        print(f"{accepted}, {report.unchanged} unchanged,{wordless} {report.failed} failed.")
    if report.failed:
        raise typer.Exit(Exit.REFUSED)


def _print_doubts(errors: Sequence[BadItem], warnings: Sequence[str]) -> None:
    for bad in errors:
        place = f"line {bad.line}" if bad.line is not None else f"item {bad.item}"
        more = f" and {bad.count - 1} more" if bad.count > 1 else ""
        session = f" ({printable(bad.session_id)})" if bad.session_id is not None else ""
        print(f"{place}{session}{more}: {printable(bad.message)} [{bad.code}]", file=sys.stderr)
    for warning in warnings:
        print(f"Warning: {printable(warning)}", file=sys.stderr)
