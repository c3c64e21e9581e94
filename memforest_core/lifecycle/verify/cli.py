"""``memforest verify``: checks every promise about stored memory, and repairs what is derived."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from memforest_core.cli.toolkit.memory_opening import opened_memory
from memforest_core.cli.toolkit.options import DataOption, JsonOption, option
from memforest_core.cli.toolkit.output import Exit, answered, console, plain
from memforest_core.errors import InvalidInput

if TYPE_CHECKING:
    from memforest_core.lifecycle.verify.records import CheckResult, Report


def verify(
    owner: Annotated[str | None, option("Only this owner's memory.", "--owner", "-o")] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Repair summaries, counters, index and leases.")] = False,
    all_tenants: Annotated[bool, typer.Option("--all-tenants", help="Check every tenant of the database.")] = False,
    deep: Annotated[
        bool, typer.Option("--deep", help="Compare the contents of all points instead of a sample.")
    ] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check every guarantee on the stored data, and print what was checked and found.

    Safe while workers run: each forest is checked in one snapshot. Exit code 1: a guarantee is broken. Exit code 75:
    none is broken, but the vector index was unavailable and was not compared.
    """
    from memforest_core.lifecycle.verify.service import open_verification

    if all_tenants and owner is not None:
        raise InvalidInput("Give --owner or --all-tenants, not both.", code="owner_of_all_tenants")
    with opened_memory(data) as memory:
        services = memory.services
        verification = open_verification(services.engine, services.index, services.settings, deep=deep)
        report = verification.run_all(repair) if all_tenants else verification.run(None, owner, repair)
    if not answered(document(report), as_json=as_json):
        _print(report, repair=repair)
    if exit_code(report) is not Exit.DONE:
        raise typer.Exit(exit_code(report))


def exit_code(report: Report) -> Exit:
    """How the command ends: violations that are left weigh more than what could not be checked."""
    if report.violations:
        return Exit.FAILED
    return Exit.DONE if report.complete else Exit.LATER


def document(report: Report) -> dict[str, object]:
    """The report as one JSON object."""
    return {
        "violations": report.violations,
        "repaired": report.repaired,
        "complete": report.complete,
        "forests": report.forests,
        "dead": dict(report.dead),
        "checks": [
            plain(result) | {"violations": result.violations, "promise": result.promise} for result in report.checks
        ],
    }


def _print(report: Report, *, repair: bool) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in ("check", "checked", "broken", *(("repaired",) if repair else ())):
        table.add_column(name, justify="left" if name == "check" else "right")
    table.add_column("what should hold", style="dim")
    for result in report.checks:
        repaired = (str(result.repaired or ""),) if repair else ()
        table.add_row(
            result.check.value,
            str(result.checked) if result.not_checked is None else "not",
            str(result.violations or ""),
            *repaired,
            result.promise if result.not_checked is None else f"not checked: {result.not_checked}",
            style="red" if result.violations else ("yellow" if result.not_checked else ""),
        )
    out = console()
    out.print(table)
    for result in report.checks:
        _print_examples(result)
    dead = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in report.dead.items() if count)
    if dead:
        out.print(f"dead, to be looked at by somebody: {dead}", style="yellow")
    out.print(_verdict(report, repair=repair), style="red" if report.violations else "")


def _print_examples(result: CheckResult) -> None:
    if not result.violations:
        return
    kinds = ", ".join(f"{count} {what}" for what, count in sorted(result.kinds.items()))
    console().print(f"  {result.check.value}: {kinds}", style="red")
    for found in result.examples:
        console().print(f"    {found.what} {found.id}", style="red")


def _verdict(report: Report, *, repair: bool) -> str:
    repaired = f" {report.repaired} rows and points were repaired." if report.repaired else ""
    if report.violations:
        advice = " What is left is persistent state." if repair else " Derived artifacts can be repaired: --repair."
        return f"{report.violations} violations in {report.forests} forests.{repaired}{advice}"
    rest = "" if report.complete else " Not everything could be compared."
    return f"No violation in {report.forests} forests.{repaired}{rest}"
