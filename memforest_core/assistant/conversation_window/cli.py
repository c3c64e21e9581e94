"""``memforest window`` and ``memforest session``: the running conversation as a model should see it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from memforest_core.cli.toolkit.memory_opening import opened_memory, opened_store
from memforest_core.cli.toolkit.options import DataOption, JsonOption, OwnerOption
from memforest_core.cli.toolkit.output import answered, console, plain_table, print_degraded, print_json, printable
from memforest_core.domain.turns import LATEST_SESSION
from memforest_core.errors import InvalidInput

if TYPE_CHECKING:
    from memforest_core.assistant.conversation_window.records import ItemInput, SessionWindow
    from memforest_core.ingest.accept.records import RunningSession

NO_SESSION = "No session runs."

SessionArgument = Annotated[
    str, typer.Argument(help="The session's id; LATEST: the one that runs or got a turn last.", show_default=True)
]
OptionalSession = Annotated[str | None, typer.Argument(help="The session's id.", show_default=False)]


def register(program: typer.Typer) -> None:
    """Add the commands to the program."""
    program.command("window")(window)
    program.command("window-put")(window_put)
    sessions = typer.Typer(help="Start, switch and close the session of an app without session ids.")
    sessions.command()(start)
    sessions.command()(switch)
    sessions.command()(close)
    sessions.command()(current)
    program.add_typer(sessions, name="session", no_args_is_help=True)


def window(
    owner: OwnerOption,
    session: SessionArgument = LATEST_SESSION,
    max_tokens: Annotated[
        int | None, typer.Option(help="Of the window; the setting window.max_tokens unless given.", show_default=False)
    ] = None,
    last_turns: Annotated[
        int | None, typer.Option(help="Last turns word for word; the setting window.last_turns.", show_default=False)
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print a session as a model should see it: the last turns, older ones as summaries, and what recall found."""
    with opened_memory(data) as memory:
        shown = memory.window(owner, session, max_tokens=max_tokens, last_turns=last_turns)
    if not answered(shown, owner, as_json=as_json):
        _print(shown)


def _print(shown: SessionWindow) -> None:
    out = console()
    if not shown.enabled:
        out.print("Windows are switched off: MEMFOREST_WINDOW__ENABLED.")
        return
    table = plain_table("part", "turns", "tokens", "text", right=("tokens",), whole=("part",))
    for part in shown.parts:
        place = f"{part.first + 1}" if part.first == part.last else f"{part.first + 1}-{part.last + 1}"
        kind = f"{part.kind.value} ({part.source})" if part.source else part.kind.value
        table.add_row(kind, place, str(part.tokens), printable(part.text))
    out.print(table)
    print_degraded(shown.degraded)
    left_out = Counter(f"{each.kind.value} ({each.reason.value})" for each in shown.left_out)
    missing = "; left out: " + ", ".join(f"{count} {what}" for what, count in left_out.items()) if left_out else ""
    used = f"{shown.tokens} of {shown.max_tokens} tokens, {shown.turns} turns{missing}."
    out.print(f"Session {printable(shown.session_id)}: {used}", style="dim")


def window_put(
    owner: OwnerOption,
    session: SessionArgument = LATEST_SESSION,
    fact: Annotated[list[str] | None, typer.Option(help="A fact's id; again for more.", show_default=False)] = None,
    turn: Annotated[
        list[str] | None,
        typer.Option(help="SESSION TURN: the ids of a session and a turn, with a space; again for more."),
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put facts and turns that recall found into a session's window, by reference."""
    items: list[ItemInput] = [*(fact or ()), *(_turn(each) for each in turn or ())]
    with opened_memory(data) as memory:
        held = memory.window_put(owner, session, items)
    if answered(held, as_json=as_json):
        return
    if not held.enabled:
        console().print("Windows are switched off: MEMFOREST_WINDOW__ENABLED.")
    else:
        console().print(
            f"Session {printable(held.session_id)} has {held.held} items: {held.added} new, {held.unknown} unknown,"
            f" {held.fallen} fell out."
        )


def _turn(text: str) -> tuple[str, str]:
    session, space, turn = text.rpartition(" ")
    if not space:
        raise InvalidInput("Give --turn as the ids of a session and a turn, with a space.", code="invalid_items")
    return session, turn


def start(
    owner: OwnerOption, session: OptionalSession = None, data: DataOption = None, as_json: JsonOption = False
) -> None:
    """Begin a session; its id is made unless given."""
    with opened_store(data, create=True) as store:
        _say(store.client.session_start(owner, session), as_json=as_json)


def switch(
    session: Annotated[str, typer.Argument(help="The session's id.")],
    owner: OwnerOption,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Go on with a session of before."""
    with opened_store(data) as store:
        _say(store.client.session_switch(owner, session), as_json=as_json)


def close(
    owner: OwnerOption,
    session: OptionalSession = None,
    summarize: Annotated[bool, typer.Option(help="Extract its last cell and refresh its summaries at once.")] = True,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Close the session that runs, or the named one."""
    with opened_store(data) as store:
        _say(store.client.session_close(owner, session, summarize=summarize), as_json=as_json)


def current(owner: OwnerOption, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Print which session runs."""
    with opened_store(data) as store:
        _say(store.client.session_current(owner), as_json=as_json)


def _say(found: RunningSession | None, *, as_json: bool) -> None:
    if as_json:
        print_json(found)
    elif found is None:
        console().print(NO_SESSION)
    else:
        last = "" if found.last_at is None else f", the last one of {found.last_at:%Y-%m-%d %H:%M}"
        console().print(f"{printable(found.session_id)}: {found.turns} turns{last}.")
