"""How every command ends: errors become a sentence and an exit code, in one place."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import typer
from typer.core import TyperGroup

from memforest_core.cli.toolkit.output import Exit, Terminated, report, report_message
from memforest_core.errors import MemForestError

_JSON = "memforest.json"


class Commands(TyperGroup):
    """The root command. Typer does not export the type of its contexts."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Note whether a program reads the output: also errors of parsing must fit it."""
        ctx.meta[_JSON] = "--json" in args
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; expected errors never show a traceback."""
        as_json = bool(ctx.meta.get(_JSON))
        try:
            with _interruptible():
                result = super().invoke(ctx)
            sys.stdout.flush()
        except MemForestError as error:
            raise typer.Exit(report(error, as_json=as_json)) from None
        except typer.TyperException as error:
            if not as_json:
                raise
            report_message("usage", error.format_message(), as_json=True)
            raise typer.Exit(Exit.REFUSED) from None
        except BrokenPipeError:
            _drop_stdout()
            raise typer.Exit(Exit.READER_GONE) from None
        return result


def interrupt_behind(error: BaseException | None) -> KeyboardInterrupt | None:
    """The interrupt that an error came from: raised while an extension is imported, it comes out as an ImportError."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, KeyboardInterrupt):
            return error
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return None


def _drop_stdout() -> None:
    """Discard buffered output: it has no reader, and the interpreter would report an error when it exits."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


@contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM closes what is open, as Ctrl-C does; each becomes its exit code, whatever error it turned into."""

    def terminate(_number: int, _frame: FrameType | None) -> None:
        raise Terminated

    former = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    except BaseException as error:
        interrupt = interrupt_behind(error)
        if interrupt is None:
            raise
        raise typer.Exit(Exit.TERMINATED if isinstance(interrupt, Terminated) else Exit.INTERRUPTED) from None
    finally:
        signal.signal(signal.SIGTERM, former)
