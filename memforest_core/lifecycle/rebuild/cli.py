"""``memforest rematerialize``: rebuilds facts, trees and summaries from the sessions, in a hidden forest."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from memforest_core.cli.toolkit.memory_opening import opened_memory, opened_reembedding
from memforest_core.cli.toolkit.operating import (
    TIMEOUT_S,
    ActorOption,
    DryRunOption,
    NoWaitOption,
    TimeoutOption,
    YesOption,
    actor_named,
    confirm,
    follow,
)
from memforest_core.cli.toolkit.options import DataOption, JsonOption, option
from memforest_core.cli.toolkit.output import answered, console, plain, print_json, printable
from memforest_core.errors import InvalidInput


def rematerialize(
    owner: Annotated[str | None, option("Whose memory.", "--owner", "-o")] = None,
    rules: Annotated[
        list[str] | None, option("session_k=4, scene_assign=0.65 and so on; repeatable.", "--set", metavar="RULE=N")
    ] = None,
    extract: Annotated[
        bool, typer.Option("--extract", help="Extract all facts again, with the current prompt and model.")
    ] = False,
    summaries: Annotated[
        bool, typer.Option("--summaries", help="Write all summaries again, with the current prompt and model.")
    ] = False,
    embedding: Annotated[
        bool, typer.Option("--embedding", help="Change the whole database to the embedding model of the settings.")
    ] = False,
    abandon: Annotated[
        bool, typer.Option("--abandon", help="Remove the remains of a failed rebuild of --owner.")
    ] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    no_wait: NoWaitOption = False,
    timeout: TimeoutOption = TIMEOUT_S,
    actor: ActorOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print what a rebuild will cost, build an owner's forest again in the background, and switch to it at the end.

    Without --extract, stored extractions are used and no chat model is called for facts. --embedding is for all owners,
    with the workers stopped: all texts are embedded again into a new collection.
    """
    if embedding and owner is None:
        _reembed(data, dry_run=dry_run, yes=yes, as_json=as_json)
        return
    if embedding or owner is None:
        raise InvalidInput("Give either --owner or --embedding.", code="nothing_named")
    wanted = parsed_rules(rules or [])
    with opened_memory(data) as memory:
        if abandon:
            _print_abandoned(memory.lifecycle.rematerialize_abandon(owner), as_json=as_json)
            return
        plan = memory.lifecycle.rematerialize_plan(owner, rules=wanted, extract=extract, summaries=summaries)
        if dry_run or not as_json:
            _print_plan(plain(plan), as_json=as_json)
        if dry_run:
            return
        confirm(f"Rebuild the forest of {printable(owner)}?", yes=yes, as_json=as_json)
        operation = memory.lifecycle.rematerialize(
            owner, rules=wanted, extract=extract, summaries=summaries, actor=actor_named(actor)
        )
        follow(operation, wait=not no_wait, timeout_s=timeout, as_json=as_json, title="rebuilding")


def _reembed(data: Path | None, *, dry_run: bool, yes: bool, as_json: bool) -> None:
    if data is not None:
        raise InvalidInput(
            "An embedded node can't change its embedding model: export its forests, and import them with --no-vectors.",
            code="embedded_model",
        )
    with opened_reembedding() as reembedding:
        plan = reembedding.plan()
        if dry_run or not as_json:
            _print_plan(plain(plan), as_json=as_json)
        if dry_run:
            return
        confirm(f"Embed everything with {printable(plan.model)}?", yes=yes, as_json=as_json)
        with console(stderr=True).status("embedding") as shown:
            reembedding.run(lambda what, done: shown.update(f"{what}: {done}"))
    if not answered({"embedding": plan}, as_json=as_json):
        console().print(f"The live collection is {printable(plan.collection)}: start the workers.")


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


def _print_plan(plan: Mapping[str, object], *, as_json: bool) -> None:
    if as_json:
        print_json({"plan": plan})
        return
    out = console()
    for name, value in plan.items():
        out.print(f"{name.replace('_', ' ')}: {'unknown' if value is None else printable(str(value))}")


def _print_abandoned(forests: int, *, as_json: bool) -> None:
    if not answered({"abandoned": forests}, as_json=as_json):
        console().print(f"{forests} hidden forest{'' if forests == 1 else 's'} removed.")
