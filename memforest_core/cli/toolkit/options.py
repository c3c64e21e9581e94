"""Options that several commands share, so that they read the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from memforest_core.errors import InvalidInput


def option(help_: str, *names: str, **more: Any) -> Any:
    """An option with this help, whose default is not shown."""
    return typer.Option(*names, help=help_, show_default=False, **more)


def argument(help_: str, **more: Any) -> Any:
    """An argument with this help, whose default is not shown."""
    return typer.Argument(help=help_, show_default=False, **more)


def delegated(context: typer.Context) -> bool:
    """Whether a command below does the work. Raises InvalidInput for options before it, which it would not see."""
    if (command := context.invoked_subcommand) is None:
        return False
    if any(str(context.get_parameter_source(name)).endswith("COMMANDLINE") for name in context.params):
        raise InvalidInput(f"Put options behind {command}.", code="misplaced_option")
    return True


JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
DataOption = Annotated[
    Path | None,
    option("Use the embedded node in this directory instead of the services in the settings.", "--data", metavar="DIR"),
]
MinScoreOption = Annotated[float | None, option("Leave out evidence with a lower score.", "--min-score")]
ExcludeSessionOption = Annotated[
    list[str] | None, option("Leave out this session. Can be repeated.", "--exclude-session")
]
OwnerOption = Annotated[str, typer.Option("--owner", "-o", help="Whose memory.")]
LimitOption = Annotated[int, typer.Option(help="Items of one page, 1 to 1,000.")]
CursorOption = Annotated[str | None, option("Cursor that the previous page printed.")]
