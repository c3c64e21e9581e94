"""``memforest policy``: how old and how large a memory may get, and what is forgotten when it is more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from memforest_core.cli.toolkit.memory_opening import opened_memory
from memforest_core.cli.toolkit.operating import Run, sharing
from memforest_core.cli.toolkit.options import DataOption, JsonOption, option
from memforest_core.cli.toolkit.output import answered, console, plain_table, printable
from memforest_core.lifecycle.retain.records import Order, Policy

app = typer.Typer(name="policy", help="Limit how much is stored and for how long.", no_args_is_help=True)

OwnerFilter = Annotated[
    str | None, option("One owner. Default: all owners without a policy of their own.", "--owner", "-o")
]


@app.command("set")
@sharing("actor")
def set_(
    run: Run,
    owner: OwnerFilter = None,
    max_age_days: Annotated[float | None, option("Delete older turns, and facts that only they say.")] = None,
    max_facts: Annotated[int | None, option("Maximum number of facts of one owner.")] = None,
    max_bytes: Annotated[int | None, option("Maximum bytes of text of one owner.")] = None,
    fraction: Annotated[float, typer.Option(help="Maximum fraction of the facts that one run deletes.")] = 0.1,
    facts_max_age_days: Annotated[
        float | None, option("Delete facts that nobody said again in this time. Turns stay.")
    ] = None,
    digests_max_age_days: Annotated[float | None, option("Delete digests of days and weeks that are older.")] = None,
    window_max_age_days: Annotated[float | None, option("Delete what is in windows for longer.")] = None,
    faded_max_age_days: Annotated[float | None, option("Delete topics that are cold for longer, with turns.")] = None,
    order: Annotated[
        Order,
        typer.Option(
            help="What is deleted first: the least important facts (age), those not visited for the longest time, those"
            " that recent questions found least, or those that are connected least."
        ),
    ] = Order.AGE,
) -> None:
    """Set a policy. Workers apply it from then on. memforest policy apply --dry-run shows what it would delete."""
    with run.memory() as memory:
        memory.lifecycle.set_policy(
            owner,
            max_age_days=max_age_days,
            max_facts=max_facts,
            max_bytes=max_bytes,
            fraction=fraction,
            facts_max_age_days=facts_max_age_days,
            digests_max_age_days=digests_max_age_days,
            window_max_age_days=window_max_age_days,
            faded_max_age_days=faded_max_age_days,
            order=order,
            actor=run.requester,
        )
        found = memory.lifecycle.policies()
    _print(found, as_json=run.as_json)


@app.command()
def show(data: DataOption = None, as_json: JsonOption = False) -> None:
    """Print all policies."""
    with opened_memory(data) as memory:
        found = memory.lifecycle.policies()
    _print(found, as_json=as_json)


@app.command()
@sharing("actor")
def clear(run: Run, owner: OwnerFilter = None) -> None:
    """Remove a policy."""
    with run.memory() as memory:
        memory.lifecycle.clear_policy(owner, actor=run.requester)
        found = memory.lifecycle.policies()
    _print(found, as_json=run.as_json)


@app.command()
@sharing("dry_run", "no_wait", "timeout", "actor")
def apply(run: Run, owner: OwnerFilter = None) -> None:
    """Apply policies now, to one owner or to all."""
    with run.memory() as memory:
        requested = memory.lifecycle.apply_policy(owner, actor=run.requester, dry_run=run.dry_run)
        for operation in requested:
            run.follow(operation, "forgetting")
    if not requested and not run.as_json:
        console().print("No forest is under a policy: see memforest policy set.")


def _print(found: Sequence[Policy], *, as_json: bool) -> None:
    if answered({"policies": found}, as_json=as_json):
        return
    if not found:
        console().print("There is no policy: nothing is forgotten.")
        return
    table = plain_table(
        "owner", "turns", "facts", "digests", "windows", "topics", "max facts", "max bytes", "a run", "order"
    )
    for policy in found:
        table.add_row(
            printable(policy.owner) if policy.owner is not None else "(all others)",
            _days(policy.max_age_days),
            _days(policy.facts_max_age_days),
            _days(policy.digests_max_age_days),
            _days(policy.window_max_age_days),
            _days(policy.faded_max_age_days),
            str(policy.max_facts or ""),
            str(policy.max_bytes or ""),
            f"{policy.fraction:.0%}",
            policy.order.value,
        )
    console().print(table)


def _days(age: float | None) -> str:
    return "" if age is None else f"{age:g} days"
