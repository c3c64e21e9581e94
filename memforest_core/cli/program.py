"""All commands in one program, in the order in which help lists them."""

from __future__ import annotations

from typing import Annotated

import typer

from memforest_core import __version__
from memforest_core.accept import cli as ingest
from memforest_core.cli import config, demo, doctor, up, worker
from memforest_core.cli.commands import Commands
from memforest_core.correct import cli as correct
from memforest_core.erase import cli as forget
from memforest_core.index import cli as index
from memforest_core.observe.cli import cost, status, top, tree
from memforest_core.recall.answering import cli as answer
from memforest_core.recall.calibration import cli as calibrate
from memforest_core.recall.cli import recall
from memforest_core.recall.timeline import cli as timeline
from memforest_core.retain import cli as policy
from memforest_core.store.cli import db, tenants
from memforest_core.transfer.bundles import cli as bundle
from memforest_core.transfer.merge import cli as merge
from memforest_core.transfer.rebuild import cli as rematerialize
from memforest_core.verify import cli as verify
from memforest_core.work.cli import audit, dead

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
