"""``memforest merge``: several owners' forests become one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from memforest_core.cli.toolkit.operating import Run, print_numbers, sharing
from memforest_core.cli.toolkit.output import console, plain, printable

if TYPE_CHECKING:
    from memforest_core.lifecycle.merge.records import ConflictReport


@sharing("dry_run", "yes", "no_wait", "timeout", "actor")
def merge(
    run: Run,
    sources: Annotated[list[str], typer.Argument(metavar="OWNER...", help="Whose forests to merge.")],
    into: Annotated[str, typer.Option("--into", help="The owner who gets everything; may be new.")],
    keep_sources: Annotated[bool, typer.Option("--keep-sources", help="Do not delete the source forests.")] = False,
) -> None:
    """Merge forests: the same facts become one, matching trees are joined, all others are copied with their summaries.

    Calls a model only for nodes on joined paths. The sources accept no sessions meanwhile and are deleted at the end,
    unless you give --keep-sources. --dry-run prints what contradicts.
    """
    if not run.dry_run and not keep_sources:
        run.confirm(f"Merge {len(sources)} forests into {printable(into)}, and remove them?")
    with run.memory() as memory:
        if run.dry_run:
            report = memory.lifecycle.merge_conflicts(sources, into)
            if not run.answered({"report": report}):
                _print_report(report)
            return
        operation = memory.lifecycle.merge(sources, into, keep_sources=keep_sources, actor=run.requester)
        run.follow(operation, "merging")


def _print_report(report: ConflictReport) -> None:
    out = console()
    print_numbers(report.counts)
    for title, lines in (
        (
            "sessions of one id",
            [f"{one.session_id} of {one.owner} stays as {one.stored_as}" for one in report.sessions],
        ),
        ("values that contradict", [_described(one) for one in plain(report.values)]),
        ("the same on both sides", list(report.exact)),
        ("nearly the same", [f"{one.source} = {one.target}" for one in report.near]),
    ):
        if lines:
            out.print(f"{title}:", style="dim")
        for line in lines:
            out.print(f"  {printable(line)}")


def _described(conflict: dict[str, object]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in conflict.items())
