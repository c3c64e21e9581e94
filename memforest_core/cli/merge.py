"""``memforest merge``: several owners' forests become one."""

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
    YesOption,
    actor_named,
    confirm,
    follow,
)
from memforest_core.cli.options import DataOption, JsonOption
from memforest_core.cli.output import console, plain, print_json, printable


def merge(
    sources: Annotated[list[str], typer.Argument(metavar="OWNER...", help="Whose forests to merge.")],
    into: Annotated[str, typer.Option("--into", help="A new owner, or one whose forest takes them in.")],
    keep_sources: Annotated[bool, typer.Option("--keep-sources", help="Leave the merged forests where they are.")] = (
        False
    ),
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    no_wait: NoWaitOption = False,
    timeout: TimeoutOption = TIMEOUT_S,
    actor: ActorOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Merge forests: the same facts become one, matching trees are joined, all others are copied with their summaries.

    Calls no model but for the nodes on joined paths. The sources take no sessions meanwhile and are gone afterwards,
    unless --keep-sources. A dry run prints what contradicts.
    """
    if not dry_run and not keep_sources:
        confirm(f"Merge {len(sources)} forests into {printable(into)}, and remove them?", yes=yes, as_json=as_json)
    with opened_memory(data) as memory:
        if dry_run:
            report = memory.lifecycle.merge_conflicts(sources, into)
            if as_json:
                print_json({"report": report})
            else:
                _print_report(plain(report))
            return
        operation = memory.lifecycle.merge(sources, into, keep_sources=keep_sources, actor=actor_named(actor))
        follow(operation, wait=not no_wait, timeout_s=timeout, as_json=as_json, title="merging")


def _print_report(report: dict[str, object]) -> None:
    out = console()
    for name, value in report.items():
        title = printable(name.replace("_", " "))
        if not isinstance(value, list):
            out.print(f"{title}: {printable(str(value))}")
            continue
        out.print(f"{title}: {len(value)}")
        for item in value:
            shown = ", ".join(f"{k} {v}" for k, v in item.items()) if isinstance(item, dict) else str(item)
            out.print(f"  {printable(shown)}")


def register(program: typer.Typer) -> None:
    """Add the command."""
    program.command("merge")(merge)
