"""All commands in one program, in the order in which help lists them."""

from __future__ import annotations

from typing import Annotated

import typer

from memforest_core import __version__
from memforest_core.cli import (
    answer,
    audit,
    bundle,
    calibrate,
    config,
    correct,
    cost,
    db,
    dead,
    demo,
    doctor,
    forget,
    index,
    ingest,
    merge,
    policy,
    recall,
    rematerialize,
    status,
    tenants,
    timeline,
    top,
    tree,
    up,
    verify,
    worker,
)
from memforest_core.cli.commands import Commands

app = typer.Typer(
    name="memforest",
    cls=Commands,
    help="Long-term memory for LLM agents: conversations become facts in time-ordered trees.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    add_completion=False,
)
for module in (
    *(demo, up, ingest, recall, answer, timeline, tree, status, top, cost),
    *(forget, correct, merge, bundle, rematerialize, policy, audit),
    *(doctor, dead, verify, tenants, index, calibrate, config, worker),
):
    module.register(app)
app.add_typer(db.app, name="db")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Take options that stand before the command."""


def main() -> None:
    """Run the command line; see ``memforest_core.cli.output`` for exit codes."""
    app()
