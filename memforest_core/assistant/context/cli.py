"""``memforest context``: what goes into the prompt of one chat turn."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from memforest_core.cli.toolkit.memory_opening import opened_memory
from memforest_core.cli.toolkit.options import DataOption, JsonOption, OwnerOption
from memforest_core.cli.toolkit.output import answered, console, print_degraded, printable
from memforest_core.domain.turns import LATEST_SESSION

if TYPE_CHECKING:
    from memforest_core.assistant.context.records import Context


def register(program: typer.Typer) -> None:
    """Add the command to the program."""
    program.command("context")(context)


def context(
    owner: OwnerOption,
    question: Annotated[
        str | None,
        typer.Argument(help="What is to be answered; the last turn of a user unless given.", show_default=False),
    ] = None,
    session: Annotated[
        str, typer.Option(help="The session's id; LATEST: the one that runs or got a turn last.")
    ] = LATEST_SESSION,
    speaker: Annotated[
        str | None, typer.Option(help="Whom the profile is about and whose words are looked for.", show_default=False)
    ] = None,
    channel: Annotated[str | None, typer.Option(help="Only sessions of this channel.", show_default=False)] = None,
    max_tokens: Annotated[
        int | None, typer.Option(help="Of the whole; the setting context.max_tokens unless given.", show_default=False)
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print what goes into the prompt of one chat turn: profile, days, evidence and the running session."""
    with opened_memory(data) as memory:
        made = memory.context(owner, session, question, speaker, channel, max_tokens)
    if not answered(made, made.owner, as_json=as_json):
        _print(made)


def _print(made: Context) -> None:
    out = console()
    for line in made.text.splitlines():
        out.print(f"{'  ' if line.startswith('  ') else ''}{printable(line)}")
    print_degraded(made.degraded)
    used = ", ".join(f"{section.value} {tokens}" for section, tokens in made.section_tokens.items()) or "nothing"
    left_out = Counter(f"{each.section.value} ({each.why.value})" for each in made.left_out)
    missing = "; left out: " + ", ".join(f"{count} {what}" for what, count in left_out.items()) if left_out else ""
    out.print(f"{made.tokens} of {made.max_tokens} tokens: {used}{missing}.", style="dim")
