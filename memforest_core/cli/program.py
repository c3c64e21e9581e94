"""All commands in one program, in the panels in which help lists them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from memforest_core import __version__
from memforest_core.assistant.calendar import cli as calendar
from memforest_core.assistant.context import cli as chat_context
from memforest_core.assistant.conversation_window import cli as window
from memforest_core.assistant.profile import cli as profile
from memforest_core.assistant.topics import cli as topics
from memforest_core.cli.commands import Commands
from memforest_core.cli.config import config
from memforest_core.cli.demo import demo
from memforest_core.cli.doctor import doctor
from memforest_core.cli.opener import ProgramOpener
from memforest_core.cli.profile_run import profile_run
from memforest_core.cli.toolkit.memory_opening import DATA, use_opener
from memforest_core.cli.up import up
from memforest_core.cli.worker_commands import flower, worker, worker_health
from memforest_core.index import cli as index
from memforest_core.ingest.accept.cli import ingest
from memforest_core.ingest.reduce.cli import calibrate
from memforest_core.lifecycle.backup import cli as backup
from memforest_core.lifecycle.bundle import cli as bundle
from memforest_core.lifecycle.correct import cli as correct
from memforest_core.lifecycle.erase.cli import forget, vacuum
from memforest_core.lifecycle.merge.cli import merge
from memforest_core.lifecycle.move.cli import move
from memforest_core.lifecycle.rebuild.cli import rematerialize
from memforest_core.lifecycle.retain import cli as policy
from memforest_core.lifecycle.verify.cli import verify
from memforest_core.observe.cli.cost import calls, cost
from memforest_core.observe.cli.status import metrics, status, top
from memforest_core.observe.cli.tree import tree
from memforest_core.observe.reading import cli as reading
from memforest_core.observe.webhooks import cli as webhooks
from memforest_core.recall.cli import answer, recall, timeline
from memforest_core.service.hook import cli as hook
from memforest_core.service.http.cli import serve
from memforest_core.service.keys import cli as keys
from memforest_core.service.mcp.cli import mcp
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

db.app.command()(vacuum)
tenants.app.command()(move)
COMMANDS: tuple[Any, ...] = (
    *(demo, up, config, doctor, worker, worker_health, flower, profile_run),
    *(*calendar.COMMANDS, *chat_context.COMMANDS, *window.COMMANDS, *profile.COMMANDS, *topics.COMMANDS),
    *(ingest, calibrate, recall, answer, timeline, status, top, metrics, cost, calls, tree),
    *(*reading.COMMANDS, work.operations_app, work.audit_app, work.dead_app),
    *(webhooks.app, serve, mcp, hook.app, keys.app, index.app, tenants.app, db.app),
    *(forget, correct.correct, correct.pin, correct.unpin, correct.pins, policy.app, merge, rematerialize),
    *(bundle.export, bundle.import_, verify, backup.backup, backup.restore, backup.erasures),
)
PANELS = {
    "Start": "demo up ingest doctor config",
    "Write": "remember session import",
    "Ask": "recall answer context profile timeline topics today day week days period window window-put summarize"
    " intent",
    "Look inside": "sessions turns facts trees tree node pins operations audit",
    "Change": "forget forget-words correct pin unpin policy merge export rematerialize",
    "Serve": "serve mcp hook keys webhooks tenants",
    "Operate": "status top metrics cost calls dead verify backup restore erasures index db worker worker-health flower"
    " calibrate profile-run",
}
"""The commands in the order in which a user meets them; a panel of ``memforest --help`` each."""


def _register() -> None:
    known = {
        str(each.info.name) if isinstance(each, typer.Typer) else each.__name__.rstrip("_").replace("_", "-"): each
        for each in COMMANDS
    }
    for panel, names in PANELS.items():
        for name in names.split():
            command = known[name]
            if isinstance(command, typer.Typer):
                app.add_typer(command, rich_help_panel=panel)
            else:
                app.command(name, rich_help_panel=panel)(command)


_register()

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
