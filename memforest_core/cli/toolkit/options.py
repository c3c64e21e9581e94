"""Options that several commands share, so that they read the same everywhere."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from memforest_core.errors import InvalidInput


class Given(NamedTuple):
    """A parameter of a command, under the name that its function has for it."""

    name: str
    kind: Any
    default: Any = inspect.Parameter.empty


def with_parameters(
    command: Callable[..., None], given: Sequence[Given], name: str, help_: str | None
) -> Callable[..., None]:
    """``command``, which takes all by name, with these parameters as typer reads them."""
    command.__annotations__ = {each.name: each.kind for each in given}
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # what typer reads
        [
            inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=each.kind)
            for each in given
        ]
    )
    command.__name__, command.__doc__ = name, help_
    return command


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
