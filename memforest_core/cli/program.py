"""All commands in one program, in the order in which help lists them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Annotated

import typer

from memforest_core import __version__
from memforest_core.assistant.calendar import cli as calendar
from memforest_core.assistant.context import cli as context
from memforest_core.assistant.conversation_window import cli as window
from memforest_core.assistant.profile import cli as profile
from memforest_core.assistant.topics import cli as topics
from memforest_core.cli.commands import Commands
from memforest_core.cli.config import config
from memforest_core.cli.demo import demo
from memforest_core.cli.doctor import doctor
from memforest_core.cli.flower import flower
from memforest_core.cli.opener import ProgramOpener
from memforest_core.cli.toolkit.opening import use_opener
from memforest_core.cli.up import up
from memforest_core.cli.worker import worker, worker_health
from memforest_core.domain.operations import FOLDERS
from memforest_core.index import cli as index
from memforest_core.ingest.accept import cli as ingest
from memforest_core.lifecycle.backup import cli as backup
from memforest_core.lifecycle.erase.cli import vacuum
from memforest_core.lifecycle.verify import cli as verify
from memforest_core.observe.cli.cost import calls, cost
from memforest_core.observe.cli.status import metrics, status, top
from memforest_core.observe.cli.tree import tree
from memforest_core.observe.reading import cli as reading
from memforest_core.observe.webhooks import cli as webhooks
from memforest_core.recall.calibration.cli import calibrate
from memforest_core.recall.cli.recall import answer, recall
from memforest_core.recall.timeline.cli import timeline
from memforest_core.service.http import cli as http
from memforest_core.service.keys import cli as keys
from memforest_core.service.mcp import cli as mcp
from memforest_core.store.cli import db, tenants
from memforest_core.work import cli as work

app = typer.Typer(
    name="memforest",
    cls=Commands,
    help="Long-term memory for LLM agents: conversations become facts in time-ordered trees.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    add_completion=False,
)

use_opener(ProgramOpener())


def _add(*commands: Callable[..., None]) -> None:
    for command in commands:
        app.command()(command)


_add(demo, up)
ingest.register(app)
_add(recall, answer, timeline, tree)
reading.register(app)
_add(status, top, metrics, cost, calls)
window.register(app)
calendar.register(app)
topics.register(app)
profile.register(app)
context.register(app)
for folder in dict.fromkeys(FOLDERS.values()):
    import_module(f"memforest_core.lifecycle.{folder}.cli").register(app)
work.register(app)
_add(doctor)
for module in (http, mcp, keys, webhooks):
    module.register(app)
work.register_dead(app)
for module in (verify, backup, tenants, index):
    module.register(app)
_add(calibrate, config, worker, worker_health, flower)
db.app.command()(vacuum)
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
