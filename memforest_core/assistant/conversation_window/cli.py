"""Commands of the window of a conversation, and of the session that runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from memforest_core.cli.toolkit.memory_opening import opened_memory
from memforest_core.cli.toolkit.method_commands import (
    OWNER,
    Command,
    client_methods,
    given_argument,
    given_option,
    new_client_methods,
)
from memforest_core.cli.toolkit.options import DataOption, Given, JsonOption, OwnerOption, option
from memforest_core.cli.toolkit.output import answered, console, minute, plain_table, print_degraded, printable
from memforest_core.domain.turns import LATEST_SESSION
from memforest_core.errors import InvalidInput

if TYPE_CHECKING:
    from memforest_core.assistant.conversation_window.records import ItemInput, SessionWindow
    from memforest_core.ingest.accept.records import RunningSession

OFF = "Windows are switched off: MEMFOREST_WINDOW__ENABLED."
LATEST = "The session's id. LATEST is the running session, or the one with the newest turn."
LatestArgument = Annotated[str, typer.Argument(help=LATEST, metavar="[SESSION]")]


def left_out(reasons: Iterable[tuple[str, str]]) -> str:
    counts = Counter(f"{what} ({why})" for what, why in reasons)
    return "; left out: " + ", ".join(f"{count} {what}" for what, count in counts.items()) if counts else ""


def _show_window(shown: SessionWindow) -> None:
    out = console()
    if not shown.enabled:
        out.print(OFF)
        return
    table = plain_table("part", "turns", "tokens", "text", right=("tokens",), whole=("part",))
    for part in shown.parts:
        place = f"{part.first + 1}" if part.first == part.last else f"{part.first + 1}-{part.last + 1}"
        kind = f"{part.kind.value} ({part.source})" if part.source else part.kind.value
        table.add_row(kind, place, str(part.tokens), printable(part.text))
    out.print(table)
    print_degraded(shown.degraded)
    missing = left_out((each.kind.value, each.reason.value) for each in shown.left_out)
    used = f"{shown.tokens} of {shown.max_tokens} tokens, {shown.turns} turns{missing}."
    out.print(f"Session {printable(shown.session_id)}: {used}", style="dim")


def _show_running(found: RunningSession | None) -> None:
    if found is None:
        console().print("No session runs.")
    else:
        last = "" if found.last_at is None else f", the last one of {minute(found.last_at)}"
        console().print(f"{printable(found.session_id)}: {found.turns} turns{last}.")


SESSION = Given("session_id", LatestArgument, LATEST_SESSION)
WINDOW_TOKENS = given_option("max_tokens", "Of the window; the setting window.max_tokens unless given.", int | None)
LAST_TURNS = given_option("last_turns", "Last turns word for word; the setting window.last_turns.", int | None)
ITS_SESSION = given_argument("session_id", "The session's id.", "SESSION")
OPTIONAL_SESSION = given_argument("session_id", "The session's id.", "[SESSION]", str | None, None)
SUMMARIZE = given_option("summarize", "Extract its last cell and refresh its summaries at once.", bool, True)
SESSIONS = (
    Command("start", "Start a session. Without an id, one is generated.", _show_running, (OWNER, OPTIONAL_SESSION)),
    Command("switch", "Continue an earlier session.", _show_running, (ITS_SESSION, OWNER)),
    Command(
        "close", "Close the running session, or the one you name.", _show_running, (OWNER, OPTIONAL_SESSION, SUMMARIZE)
    ),
    Command("current", "Print the id of the running session.", _show_running, (OWNER,)),
)


def _sessions() -> typer.Typer:
    of_sessions = "Start, switch and close the session of an app without session ids."
    app = typer.Typer(name="session", help=of_sessions, no_args_is_help=True)
    for each in SESSIONS:
        app.command(each.name)(each.made(new_client_methods if each.name == "start" else client_methods, "session_"))
    return app


def window_put(
    owner: OwnerOption,
    session: LatestArgument = LATEST_SESSION,
    fact: Annotated[list[str] | None, option("A fact's id; again for more.")] = None,
    turn: Annotated[
        list[str] | None,
        typer.Option(help="SESSION TURN: the ids of a session and a turn, with a space; again for more."),
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add facts and turns that recall found to a session's window."""
    items: list[ItemInput] = [*(fact or ())]
    for each in turn or ():
        of_session, space, of_turn = each.rpartition(" ")
        if not space:
            raise InvalidInput("Give --turn as the ids of a session and a turn, with a space.", code="invalid_items")
        items.append((of_session, of_turn))
    with opened_memory(data) as memory:
        held = memory.window_put(owner, session, items)
    if not answered(held, as_json=as_json):
        new = f"{held.added} new, {held.unknown} unknown, {held.fallen} fell out"
        console().print(f"Session {printable(held.session_id)} has {held.held} items: {new}." if held.enabled else OFF)


COMMANDS = (
    _sessions(),
    window_put,
    Command(
        "window",
        "Print a session as messages for a model: the last turns, summaries of older ones, and recalled items.",
        _show_window,
        (OWNER, SESSION, WINDOW_TOKENS, LAST_TURNS),
    ).made(),
)
