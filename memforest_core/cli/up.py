"""``memforest up``: an embedded node in the foreground."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memforest_core.cli.page import ServedPage, served_page
from memforest_core.cli.toolkit.logs import QUIET_LIBRARIES
from memforest_core.cli.toolkit.memory_opening import DATA, opened_memory
from memforest_core.cli.toolkit.options import JsonOption, option
from memforest_core.cli.toolkit.output import answered, console, report_progress

if TYPE_CHECKING:
    from memforest_core.client.api import MemForest
    from memforest_core.client.embedded.flower_server import EmbeddedFlower
    from memforest_core.settings import Settings

FLOWER_PORT = 5555
WATCH_S = 1.0


def up(
    data: Annotated[
        Path, typer.Option("--data", metavar="DIR", help="Directory for all data; created if it does not exist.")
    ] = DATA,
    concurrency: Annotated[int, typer.Option(min=1, max=256, help="Number of tasks that run at the same time.")] = 8,
    flower: Annotated[
        bool, typer.Option("--flower", help="Also start Flower, a page that shows queues and tasks.")
    ] = False,
    flower_port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Flower's port on 127.0.0.1; 0 takes a free one.")
    ] = FLOWER_PORT,
    serve: Annotated[
        bool, typer.Option("--serve/--no-serve", help="Also answer over HTTP on 127.0.0.1, with pages.")
    ] = True,
    port: Annotated[
        int | None,
        option(
            "Port for HTTP. If it is taken, a free one is used and printed. Default: the setting server.port.",
            min=0,
            max=65_535,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run Postgres, broker, vector engine and a worker in one directory until Ctrl-C or SIGTERM.

    While it runs, commands with the same --data and programs that use the printed addresses work on it.
    """
    from memforest_core.client.services.checkup import in_use
    from memforest_workers.supervisor import stop_requested

    with opened_memory(data, create=True, concurrency=concurrency, alone=True) as memory:
        directory = data.expanduser().resolve()
        broker_url = memory.settings.broker.url.get_secret_value()
        with (
            _flower(directory, broker_url, flower_port if flower else None) as page,
            stop_requested() as stop,
            served_page(memory, directory, port, wanted=serve) as explorer,
        ):
            # With which models and services the node works.
            used = in_use(memory.settings)
            report_progress("Working with " + ", ".join(f"{name} {value}" for name, value in used.items()) + ".")
            _quiet_when(stop)
            _announce(memory.settings, directory, concurrency, page.address if page else None, explorer, as_json)
            _wait(stop, memory, page)
        if not as_json:
            console(stderr=True).print("Stopping; what is under way gets a few seconds.")


@contextmanager
def _flower(directory: Path, broker_url: str, port: int | None) -> Iterator[EmbeddedFlower | None]:
    """A running Flower, None without a port."""
    if port is None:
        yield None
        return
    from memforest_core.client.embedded.flower_server import EmbeddedFlower

    page = EmbeddedFlower(directory / "flower", directory / "logs" / "flower.log")
    page.start(broker_url, port)
    try:
        yield page
    finally:
        page.stop()


def _quiet_when(stop: threading.Event) -> None:
    """Drop what the queue's libraries log of connections that end, once the node is stopping."""
    for handler in logging.getLogger().handlers:
        handler.addFilter(lambda record: not (stop.is_set() and record.name.startswith(QUIET_LIBRARIES)))


def _wait(stop: threading.Event, memory: MemForest, page: EmbeddedFlower | None) -> None:
    """Until the stop. Servers that end are started again; a page that ends is no reason to stop, but is said once.

    Raises ServerFailed for a server that does not keep running.
    """
    node = memory.embedded_node
    watch = None if node is None else node.servers.watch(report_progress)
    while not stop.wait(WATCH_S):
        if watch is not None:
            watch.check()
        if page is not None and page.exit_code is not None:
            console(stderr=True).print(f"Flower ended (exit {page.exit_code}), see {page.log_path}. The node goes on.")
            page = None


def _announce(
    settings: Settings, data: Path, concurrency: int, page: str | None, explorer: ServedPage | None, as_json: bool
) -> None:
    from memforest_core.client.embedded.node import addresses

    environment = {
        f"MEMFOREST_{group}__{name}".upper(): value
        for group, values in addresses(settings).items()
        for name, value in values.items()
    }
    state = {"pid": os.getpid(), "data": data, "concurrency": concurrency, "environment": environment}
    served = {"page": explorer and explorer.address, "key_file": explorer and explorer.key_file}
    if not answered(state | {"flower": page} | served, as_json=as_json):
        out = console()
        out.print(f"MemForest is up in {data} (process {os.getpid()}, {concurrency} tasks at once).", soft_wrap=True)
        if page is not None:
            out.print(f"Flower shows its queues and tasks: {page}", soft_wrap=True)
        out.print(f"Commands reach it with --data {data}; app servers of this user with:\n", soft_wrap=True)
        for name, value in environment.items():
            out.print(f"  export {name}='{value}'", soft_wrap=True)
        for line in ["", *explorer.lines] if explorer is not None else []:
            out.print(line, soft_wrap=True)
        out.print("\nStop with Ctrl-C.")
    sys.stdout.flush()  # a parent process may wait for these lines
