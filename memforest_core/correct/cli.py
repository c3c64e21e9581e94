"""``memforest correct``, ``pin`` and ``unpin``: what a fact says, and whether a policy may forget it."""

from __future__ import annotations

from typing import Annotated

import typer

from memforest_core.cli.opening import opened_memory
from memforest_core.cli.operating import (
    TIMEOUT_S,
    ActorOption,
    DryRunOption,
    NoWaitOption,
    TimeoutOption,
    actor_named,
    follow,
)
from memforest_core.cli.options import DataOption, JsonOption, OwnerOption

FactArgument = Annotated[str, typer.Argument(metavar="FACT", help="A fact's id, as memforest recall --json gives it.")]


def correct(
    fact: FactArgument,
    owner: OwnerOption,
    text: Annotated[str | None, typer.Option("--text", help="What it should say.", show_default=False)] = None,
    value: Annotated[
        str | None, typer.Option("--value", help="The value of the state it tells of.", show_default=False)
    ] = None,
    start: Annotated[str | None, typer.Option("--start", help="When it began or happened.", show_default=False)] = None,
    end: Annotated[str | None, typer.Option("--end", help="When it ended.", show_default=False)] = None,
    erase: Annotated[bool, typer.Option("--erase", help="Delete the old fact instead of keeping its history.")] = False,
    dry_run: DryRunOption = False,
    no_wait: NoWaitOption = False,
    timeout: TimeoutOption = TIMEOUT_S,
    actor: ActorOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give a fact another text or time. The old one is superseded: recall as of an earlier day still finds it."""
    with opened_memory(data) as memory:
        operation = memory.lifecycle.correct(
            owner,
            fact,
            text=text,
            value=value,
            start=start,
            end=end,
            erase=erase,
            actor=actor_named(actor),
            dry_run=dry_run,
        )
        follow(operation, wait=not no_wait, timeout_s=timeout, as_json=as_json, title="correcting")


def pin(
    fact: FactArgument,
    owner: OwnerOption,
    actor: ActorOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Keep a fact whatever a policy says."""
    with opened_memory(data) as memory:
        operation = memory.lifecycle.pin(owner, fact, actor=actor_named(actor))
        follow(operation, wait=True, timeout_s=TIMEOUT_S, as_json=as_json, title="pinning")


def unpin(
    fact: FactArgument,
    owner: OwnerOption,
    actor: ActorOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let policies forget a fact again."""
    with opened_memory(data) as memory:
        operation = memory.lifecycle.unpin(owner, fact, actor=actor_named(actor))
        follow(operation, wait=True, timeout_s=TIMEOUT_S, as_json=as_json, title="unpinning")


def register(program: typer.Typer) -> None:
    """Add the commands."""
    program.command("correct")(correct)
    program.command("pin")(pin)
    program.command("unpin")(unpin)
