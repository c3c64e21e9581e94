"""``memforest rematerialize``: facts, trees and summaries built anew from what was said, beside the live ones."""

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
    confirm,
    follow,
)
from memforest_core.cli.options import DataOption, JsonOption, OwnerOption
from memforest_core.cli.output import console, plain, print_json, printable
from memforest_core.errors import InvalidInput


def rematerialize(
    owner: OwnerOption,
    rules: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="RULE=N", help="session_k=4, scene_assign=0.65 and so on; repeatable."),
    ] = None,
    extract: Annotated[
        bool, typer.Option("--extract", help="Extract all facts anew, with today's prompt and model.")
    ] = False,
    summaries: Annotated[
        bool, typer.Option("--summaries", help="Write all summaries anew, with today's prompt and model.")
    ] = False,
    dry_run: DryRunOption = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask after the plan.")] = False,
    no_wait: NoWaitOption = False,
    timeout: TimeoutOption = TIMEOUT_S,
    actor: ActorOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print what it will cost, then build an owner's forest anew beside the live one, and switch at the end.

    No session is replayed: without --extract the facts are placed again from what was extracted before.
    """
    wanted = parsed_rules(rules or [])
    with opened_memory(data) as memory:
        plan = memory.lifecycle.rematerialize_plan(owner, rules=wanted, extract=extract, summaries=summaries)
        if dry_run:
            if as_json:
                print_json({"plan": plan})
            else:
                _print_plan(plain(plan))
            return
        if not as_json:
            _print_plan(plain(plan))
        confirm(f"Build the forest of {printable(owner)} anew?", yes=yes, as_json=as_json)
        operation = memory.lifecycle.rematerialize(
            owner, rules=wanted, extract=extract, summaries=summaries, actor=actor_named(actor)
        )
        follow(operation, wait=not no_wait, timeout_s=timeout, as_json=as_json, title="building anew")


def parsed_rules(given: list[str]) -> dict[str, float]:
    """Rules as they are typed. Raises InvalidInput."""
    rules: dict[str, float] = {}
    for one in given:
        name, _, value = one.partition("=")
        try:
            rules[name.strip()] = float(value)
        except ValueError:
            raise InvalidInput(
                f"Give --set a rule and a number, such as session_k=4, not {one!r:.60}.", code="invalid_rule"
            ) from None
    return rules


def _print_plan(plan: dict[str, object]) -> None:
    out = console()
    for name, value in plan.items():
        shown = "unknown" if value is None else printable(str(value))
        out.print(f"{name.replace('_', ' ')}: {shown}")


def register(program: typer.Typer) -> None:
    """Add the command."""
    program.command("rematerialize")(rematerialize)
