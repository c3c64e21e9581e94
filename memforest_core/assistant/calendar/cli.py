"""Commands of days, weeks and periods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memforest_core.cli.toolkit.method_commands import CURSOR, OWNER, Command, given_argument, given_option
from memforest_core.cli.toolkit.output import (
    console,
    minute,
    plain_table,
    print_degraded,
    print_lines,
    print_page,
    printable,
)
from memforest_core.domain.pages import Page

if TYPE_CHECKING:
    from memforest_core.assistant.calendar.records import DayDigest, PeriodDigest
    from memforest_core.ingest.accept.records import SessionProgress


def _show_day(found: DayDigest) -> None:
    out = console()
    if not found.made:
        out.print(f"{found.day}: nothing was said." if not found.turns else f"{found.day}: no digest.")
    if found.made and not found.speakers:
        out.print(f"{found.day}: nothing of or about this speaker.")
    print_lines(found.text)
    print_degraded(found.degraded)
    if found.made_at is not None:
        newer = f", {found.new_turns} have come since" if found.new_turns else ""
        model = f" by {printable(found.model)}" if not found.extractive else ""
        made = f"{found.source}{model}, {minute(found.made_at)} UTC"
        out.print(f"{found.day} ({found.time_zone}): {found.turns} turns{newer}; {made}.", style="dim")


def _show_period(found: PeriodDigest) -> None:
    out = console()
    nothing = "Nothing of or about this speaker." if found.about else "Nothing was said."
    print_lines(found.text or nothing)
    print_degraded(found.degraded)
    if found.missing:
        out.print(f"{len(found.missing)} days have no digest yet: ask again.", style="yellow")
    if found.first is not None:
        place = f"{found.first} to {found.last} ({found.time_zone})"
        out.print(f"{place}: {found.turns} turns; {found.source or 'nothing made'}.", style="dim")


def _show_days(page: Page[DayDigest]) -> None:
    table = plain_table("day", "turns", "made", "speaker", "text", right=("turns",), whole=("day", "made"))
    for item in page.items:
        lines = [(each.name, each.text or each.others) for each in item.speakers] or [("", "(not made yet)")]
        for at, (name, text) in enumerate(lines):
            first = (str(item.day), str(item.turns), item.source) if at == 0 else ("", "", "")
            table.add_row(*first, printable(name), printable(text))
    print_page(page, table)


def _show_summarized(made: DayDigest | SessionProgress) -> None:
    from memforest_core.assistant.calendar.records import DayDigest

    if isinstance(made, DayDigest):
        _show_day(made)
    else:
        console().print(f"The session is at stage {made.stage.value}; its summaries are due.")


SPEAKER = given_option("speaker", "Only this speaker's days, with what others said of them: an id or a name.")
DATE = given_argument("date", "A day, like 2026-11-22, in the owner's time zone.", "DATE")
PERIOD = given_argument("period", "A month (2026-11), a year (2026), or life.", "PERIOD")
DAYS = given_option("limit", "Days of one page, 1 to 1,000.", int, 30)
DAY = given_option("day", "Make the digest of this day.")
CELL = given_option("session", "Extract the last cell of this session and refresh it.")
COMMANDS = (
    *(
        each.made()
        for each in (
            Command("today", "Print what happened today, speaker by speaker.", _show_day, (OWNER, SPEAKER)),
            Command("day", "Print what happened on a day, speaker by speaker.", _show_day, (DATE, OWNER, SPEAKER)),
            Command("week", "Print one text about the six days before today.", _show_period, (OWNER, SPEAKER)),
            Command(
                "period",
                "Print one text about a month, a year, or the whole life.",
                _show_period,
                (PERIOD, OWNER, SPEAKER),
            ),
            Command(
                "days",
                "List the days with turns, the newest first, with their digests.",
                _show_days,
                (OWNER, SPEAKER, DAYS, CURSOR),
            ),
            Command("summarize", "Summarize a day or a session now.", _show_summarized, (OWNER, DAY, CELL)),
        )
    ),
)
