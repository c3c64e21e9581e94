"""``memforest correct``, ``pin``, ``unpin`` and ``pins``: what a fact says, and what no policy may forget."""

from __future__ import annotations

from typing import Annotated

import typer

from memforest_core.cli.toolkit.memory_opening import opened_memory
from memforest_core.cli.toolkit.operating import Run, sharing
from memforest_core.cli.toolkit.options import DataOption, JsonOption, OwnerOption, argument, option
from memforest_core.cli.toolkit.output import answered, console, plain_table, printable

FactArgument = Annotated[str, typer.Argument(metavar="FACT", help="A fact's id, as memforest recall --json gives it.")]


@sharing("dry_run", "no_wait", "timeout", "actor")
def correct(
    run: Run,
    fact: FactArgument,
    owner: OwnerOption,
    text: Annotated[str | None, option("The new text.", "--text")] = None,
    value: Annotated[str | None, option("The value of its state.", "--value")] = None,
    start: Annotated[str | None, option("When it began or happened.", "--start")] = None,
    end: Annotated[str | None, option("When it ended.", "--end")] = None,
    erase: Annotated[bool, typer.Option("--erase", help="Delete the old fact instead of superseding it.")] = False,
) -> None:
    """Give a fact another text or time. The old one is superseded: recall as of an earlier day still finds it."""
    with run.memory() as memory:
        operation = memory.lifecycle.correct(
            owner,
            fact,
            text=text,
            value=value,
            start=start,
            end=end,
            erase=erase,
            actor=run.requester,
            dry_run=run.dry_run,
        )
        run.follow(operation, "correcting")


PinnedFact = Annotated[str | None, argument("A fact's id.", metavar="FACT")]
PinnedSession = Annotated[str | None, option("A session's id, instead of a fact.", "--session", "-s")]
PinnedTurn = Annotated[str | None, option("The id of one turn of the session.", "--turn")]


@sharing("actor")
def pin(
    run: Run, owner: OwnerOption, fact: PinnedFact = None, session: PinnedSession = None, turn: PinnedTurn = None
) -> None:
    """Pin a fact, a session or a turn: policies never delete it."""
    with run.memory() as memory:
        operation = memory.lifecycle.pin(owner, fact, session=session, turn=turn, actor=run.requester)
        run.follow(operation, "pinning")


@sharing("actor")
def unpin(
    run: Run, owner: OwnerOption, fact: PinnedFact = None, session: PinnedSession = None, turn: PinnedTurn = None
) -> None:
    """Unpin a fact, a session or a turn: policies may delete it again."""
    with run.memory() as memory:
        operation = memory.lifecycle.unpin(owner, fact, session=session, turn=turn, actor=run.requester)
        run.follow(operation, "unpinning")


def pins(
    owner: OwnerOption,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Maximum number of each kind.")] = 1_000,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List pinned sessions, turns and facts."""
    with opened_memory(data) as memory:
        found = memory.lifecycle.pins(owner, limit=limit)
    if answered(found.to_dict(), as_json=as_json):
        return
    table = plain_table("pinned", "id", "session")
    for session in found.sessions:
        table.add_row("session", printable(session), "")
    for turn in found.turns:
        table.add_row("turn", printable(turn.turn_id), printable(turn.session_id))
    for fact in found.facts:
        table.add_row("fact", str(fact), "")
    console().print(table if table.row_count else "Nothing is pinned.")
