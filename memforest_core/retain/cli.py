"""``memforest policy``: how old and how large a memory may get, and what is forgotten when it is more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

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
from memforest_core.cli.options import DataOption, JsonOption
from memforest_core.cli.output import console, plain_table, print_json, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memforest_core.retain.records import Policy

app = typer.Typer(help="Bound how much is remembered, and see what that would forget.", no_args_is_help=True)

OwnerFilter = Annotated[
    str | None,
    typer.Option("--owner", "-o", help="One owner's; without it what holds for all others.", show_default=False),
]


@app.command("set")
def set_(
    owner: OwnerFilter = None,
    max_age_days: Annotated[float | None, typer.Option(help="Forget what is older.", show_default=False)] = None,
    max_facts: Annotated[int | None, typer.Option(help="Facts a forest may hold.", show_default=False)] = None,
    max_bytes: Annotated[int | None, typer.Option(help="Bytes of text a forest may hold.", show_default=False)] = None,
    fraction: Annotated[float, typer.Option(help="Share of the facts that one run forgets at most.")] = 0.1,
    actor: ActorOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Set a policy; workers apply it from then on. See before with memforest policy apply --dry-run."""
    with opened_memory(data) as memory:
        memory.lifecycle.set_policy(
            owner,
            max_age_days=max_age_days,
            max_facts=max_facts,
            max_bytes=max_bytes,
            fraction=fraction,
            actor=actor_named(actor),
        )
        found = memory.lifecycle.policies()
    _print(found, as_json=as_json)


@app.command()
def show(data: DataOption = None, as_json: JsonOption = False) -> None:
    """Print all policies."""
    with opened_memory(data) as memory:
        found = memory.lifecycle.policies()
    _print(found, as_json=as_json)


@app.command()
def clear(
    owner: OwnerFilter = None, actor: ActorOption = None, data: DataOption = None, as_json: JsonOption = False
) -> None:
    """Remove a policy."""
    with opened_memory(data) as memory:
        memory.lifecycle.clear_policy(owner, actor=actor_named(actor))
        found = memory.lifecycle.policies()
    _print(found, as_json=as_json)


@app.command()
def apply(
    owner: OwnerFilter = None,
    dry_run: DryRunOption = False,
    no_wait: NoWaitOption = False,
    timeout: TimeoutOption = TIMEOUT_S,
    actor: ActorOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Apply policies now: to one owner, or to all that are under one."""
    with opened_memory(data) as memory:
        asked = memory.lifecycle.apply_policy(owner, actor=actor_named(actor), dry_run=dry_run)
        for operation in asked:
            follow(operation, wait=not no_wait, timeout_s=timeout, as_json=as_json, title="forgetting")
    if not asked and not as_json:
        console().print("No forest is under a policy: see memforest policy set.")


def _print(found: Sequence[Policy], *, as_json: bool) -> None:
    if as_json:
        print_json({"policies": found})
        return
    if not found:
        console().print("There is no policy: everything is kept.")
        return
    table = plain_table("owner", "max age", "max facts", "max bytes", "at most a run")
    for policy in found:
        table.add_row(
            printable(policy.owner) if policy.owner is not None else "(all others)",
            f"{policy.max_age_days:g} days" if policy.max_age_days is not None else "",
            str(policy.max_facts or ""),
            str(policy.max_bytes or ""),
            f"{policy.fraction:.0%}",
        )
    console().print(table)


def register(program: typer.Typer) -> None:
    """Add the group of commands."""
    program.add_typer(app, name="policy")
