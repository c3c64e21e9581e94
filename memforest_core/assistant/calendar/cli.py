"""``memforest today``, ``day``, ``week``, ``days``, ``period`` and ``summarize``: what happened when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from memforest_core.cli.toolkit.memory_opening import opened_memory
from memforest_core.cli.toolkit.options import DataOption, JsonOption, OwnerOption
from memforest_core.cli.toolkit.output import (
    answered,
    console,
    no_memory,
    plain_table,
    print_degraded,
    print_json,
    printable,
)

if TYPE_CHECKING:
    from memforest_core.assistant.calendar.records import DayDigest, PeriodDigest
    from memforest_core.ingest.accept.records import SessionProgress

DayArgument = Annotated[str, typer.Argument(metavar="DATE", help="A day, like 2026-11-22, in the owner's time zone.")]


def register(program: typer.Typer) -> None:
    """Add the commands to the program."""
    for command in (today, day, week, days, period, summarize):
        program.command()(command)


def today(owner: OwnerOption, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Print what happened today, speaker by speaker."""
    with opened_memory(data) as memory:
        found = memory.today(owner)
    _say_day(owner, found, as_json=as_json)


def day(date: DayArgument, owner: OwnerOption, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Print what happened on a day, speaker by speaker."""
    with opened_memory(data) as memory:
        found = memory.day(owner, date)
    _say_day(owner, found, as_json=as_json)


def week(owner: OwnerOption, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Print one text of the six days before today."""
    with opened_memory(data) as memory:
        found = memory.week(owner)
    _say_period(owner, found, as_json=as_json)


def period(
    period: Annotated[str, typer.Argument(help="A month (2026-11), a year (2026), or life.")],
    owner: OwnerOption,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print one text of a month, a year, or the whole life."""
    with opened_memory(data) as memory:
        found = memory.period(owner, period)
    _say_period(owner, found, as_json=as_json)


def days(
    owner: OwnerOption,
    limit: Annotated[int, typer.Option(help="Days of one page, 1 to 1,000.")] = 30,
    cursor: Annotated[
        str | None, typer.Option(help="Go on after the page that ended with this.", show_default=False)
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List an owner's days on which something was said, the newest first, with their digests."""
    with opened_memory(data) as memory:
        page = memory.days(owner, limit=limit, cursor=cursor)
    if as_json:
        items = [each.to_dict() for each in page.items]
        print_json({"items": items, "cursor": page.cursor, "owner_known": page.owner_known})
        return
    if not page.owner_known:
        console().print(no_memory(owner))
        return
    table = plain_table("day", "turns", "made", "speaker", "text", right=("turns",), whole=("day", "made"))
    for item in page.items:
        lines = [(each.name, each.text) for each in item.speakers] or [("", "(not made yet)")]
        for at, (name, text) in enumerate(lines):
            first = (str(item.day), str(item.turns), item.source) if at == 0 else ("", "", "")
            table.add_row(*first, printable(name), printable(text))
    console().print(table)
    if page.cursor is not None:
        console().print(f"More: --cursor {page.cursor}", style="dim")


def summarize(
    owner: OwnerOption,
    day: Annotated[str | None, typer.Option(help="Make the digest of this day.", show_default=False)] = None,
    session: Annotated[
        str | None, typer.Option(help="Extract the last cell of this session and refresh it.", show_default=False)
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Summarize a day or a session now, whether it is due or not."""
    with opened_memory(data) as memory:
        made: DayDigest | SessionProgress = memory.summarize(owner, day=day, session=session)
    from memforest_core.assistant.calendar.records import DayDigest

    if isinstance(made, DayDigest):
        _say_day(owner, made, as_json=as_json)
    elif not answered(made, as_json=as_json):
        console().print(f"Session {printable(session or '')} is at stage {made.stage.value}; its summaries are due.")


def _say_day(owner: str, found: DayDigest, *, as_json: bool) -> None:
    if answered(found, owner, as_json=as_json):
        return
    out = console()
    if not found.made:
        out.print(f"{found.day}: nothing was said." if not found.turns else f"{found.day}: no digest.")
    for each in found.speakers:
        out.print(f"{printable(each.name)}: {printable(each.text)}")
    print_degraded(found.degraded)
    if found.made_at is not None:
        newer = f", {found.new_turns} have come since" if found.new_turns else ""
        model = f" by {printable(found.model)}" if not found.extractive else ""
        made = f"{found.source}{model}, {found.made_at:%Y-%m-%d %H:%M} UTC"
        out.print(f"{found.day} ({found.time_zone}): {found.turns} turns{newer}; {made}.", style="dim")


def _say_period(owner: str, found: PeriodDigest, *, as_json: bool) -> None:
    if answered(found, owner, as_json=as_json):
        return
    out = console()
    out.print(printable(found.text) if found.text else "Nothing was said.")
    print_degraded(found.degraded)
    if found.missing:
        out.print(f"{len(found.missing)} days have no digest yet: ask again.", style="yellow")
    if found.first is not None:
        place = f"{found.first} to {found.last} ({found.time_zone})"
        out.print(f"{place}: {found.turns} turns; {found.source or 'nothing made'}.", style="dim")
