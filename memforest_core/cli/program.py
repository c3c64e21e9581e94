"""All commands in one program, in the panels in which help lists them."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated

import typer
from typer.models import CommandInfo, TyperInfo

from memforest_core import __version__
from memforest_core.assistant import cli as assistant
from memforest_core.cli.commands import Commands
from memforest_core.cli.config import config
from memforest_core.cli.demo import demo
from memforest_core.cli.doctor import doctor
from memforest_core.cli.opener import ProgramOpener
from memforest_core.cli.toolkit.memory_opening import DATA, use_opener
from memforest_core.cli.up import up
from memforest_core.cli.worker_commands import flower, worker, worker_health
from memforest_core.domain.operation_rules import FOLDERS
from memforest_core.index import cli as index
from memforest_core.ingest.accept import cli as ingest
from memforest_core.ingest.reduce.cli import calibrate
from memforest_core.lifecycle.backup import cli as backup
from memforest_core.lifecycle.erase.cli import vacuum
from memforest_core.lifecycle.verify import cli as verify
from memforest_core.observe.cli.cost import calls, cost
from memforest_core.observe.cli.status import metrics, status, top
from memforest_core.observe.cli.tree import tree
from memforest_core.observe.reading import cli as reading
from memforest_core.observe.webhooks import cli as webhooks
from memforest_core.recall.cli import answer, recall, timeline
from memforest_core.service.http import cli as http
from memforest_core.service.keys import cli as keys
from memforest_core.service.mcp import cli as mcp
from memforest_core.store.cli import db, tenants
from memforest_core.work import cli as work

app = typer.Typer(
    name="memforest",
    cls=Commands,
    help="Long-term memory for LLM agents: conversations become facts in time-ordered trees.",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    add_completion=False,
)

use_opener(ProgramOpener())

for command in (
    *(demo, up, recall, answer, timeline, tree, status, top, metrics, cost, calls),
    *(doctor, calibrate, config, worker, worker_health, flower),
):
    app.command()(command)
for module in (
    *(ingest, reading, assistant, work),
    *(http, mcp, keys, webhooks, verify, backup, tenants, index),
    *(import_module(f"memforest_core.lifecycle.{folder}.cli") for folder in dict.fromkeys(FOLDERS.values())),
):
    module.register(app)
db.app.command()(vacuum)
app.add_typer(db.app, name="db")

PANELS = {
    "Start": "demo up ingest doctor config",
    "Write": "remember session import",
    "Ask": "recall answer context profile timeline topics today day week days period window window-put summarize"
    " intent",
    "Look inside": "sessions turns facts trees tree node pins operations audit",
    "Change": "forget forget-words correct pin unpin policy merge export rematerialize",
    "Serve": "serve mcp keys webhooks tenants",
    "Operate": "status top metrics cost calls dead verify backup restore erasures index db worker worker-health flower"
    " calibrate",
}
"""The commands in the order in which a user meets them; a panel of ``memforest --help`` each."""


def _in_panels() -> None:
    panels = {name: panel for panel, names in PANELS.items() for name in names.split()}
    order = list(panels)
    entries: list[CommandInfo | TyperInfo] = [*app.registered_commands, *app.registered_groups]
    for each in entries:
        each.name = each.name or getattr(each.callback, "__name__", "").replace("_", "-")
        each.rich_help_panel = panels[each.name]
    app.registered_commands.sort(key=lambda each: order.index(str(each.name)))
    app.registered_groups.sort(key=lambda each: order.index(str(each.name)))


_in_panels()

FIRST_STEPS = (
    ("memforest demo", "remember a conversation and answer questions about it; nothing stays"),
    ("memforest up", "a memory of your own in ./memforest-data, with pages to look inside"),
    (f"memforest ingest FILE --data {DATA}", "give it conversations, while it runs or not"),
)
NEXT_STEPS = (
    ("memforest up", "run the memory in ./memforest-data, with pages to look inside"),
    (f"memforest ingest FILE --data {DATA}", "give it conversations"),
    (f'memforest recall --data {DATA} --owner NAME "QUESTION"', "ask it"),
)
"""What to do without and with a memory in this directory."""


def _print_steps() -> None:
    steps = NEXT_STEPS if DATA.is_dir() else FIRST_STEPS
    width = max(len(command) for command, _ in steps)
    print("MemForest: long-term memory for LLM agents.\n")
    for command, what in steps:
        print(f"  {command:{width}}  {what}")
    print("\nAll commands: memforest --help")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Take options that stand before the command; without a command print the next steps."""
    if context.invoked_subcommand is None:
        _print_steps()
