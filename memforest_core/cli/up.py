"""``memforest up``: an embedded node in the foreground."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memforest_core.cli.opening import opened_memory
from memforest_core.cli.options import JsonOption
from memforest_core.cli.output import console, print_json

if TYPE_CHECKING:
    from memforest_core.settings import Settings


def up(
    data: Annotated[
        Path, typer.Option("--data", metavar="DIR", help="Where everything is kept; made when missing.")
    ] = Path("memforest-data"),
    concurrency: Annotated[int, typer.Option(min=1, max=256, help="Tasks at once.")] = 8,
    as_json: JsonOption = False,
) -> None:
    """Run Postgres, broker, vector engine and a worker in one directory until Ctrl-C or SIGTERM.

    Other processes of this machine can hand over sessions and look inside by the printed addresses.
    """
    from memforest_workers.signals import stop_requested

    with opened_memory(data, create=True, concurrency=concurrency) as memory:
        with stop_requested() as stop:
            _announce(memory.settings, data.resolve(), concurrency, as_json)
            stop.wait()
        if not as_json:
            console(stderr=True).print("Stopping; what is under way gets a few seconds.")


def _announce(settings: Settings, data: Path, concurrency: int, as_json: bool) -> None:
    addresses = {
        "MEMFOREST_DATABASE__URL": settings.database.url.get_secret_value(),
        "MEMFOREST_BROKER__URL": settings.broker.url.get_secret_value(),
    }
    if as_json:
        print_json({"pid": os.getpid(), "data": data, "concurrency": concurrency, "environment": addresses})
    else:
        out = console()
        out.print(f"MemForest is up in {data} (process {os.getpid()}, {concurrency} tasks at once).", soft_wrap=True)
        out.print("For memforest ingest, status, tree and app servers on this machine:\n", soft_wrap=True)
        for name, value in addresses.items():
            out.print(f"  export {name}='{value}'", soft_wrap=True)
        out.print("\nStop with Ctrl-C.")
    sys.stdout.flush()  # whoever started this may wait for these lines


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("up")(up)
