"""``memforest worker`` and ``worker-health``: one worker process of a deployment."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from memforest_core.cli.options import JsonOption
from memforest_core.cli.output import Exit, print_json
from memforest_core.errors import InvalidSettings

ALL_QUEUES = "extract,reduce,refresh,maintain"


def worker(
    queues: Annotated[str, typer.Option(help="Queues to work for, separated by commas.")] = ALL_QUEUES,
    concurrency: Annotated[
        int, typer.Option(min=1, max=1024, help="Tasks at once; they mostly wait for models and stores.")
    ] = 8,
    name: Annotated[
        str | None, typer.Option(help="Shown by status and Flower; unique per process.", show_default=False)
    ] = None,
) -> None:
    """Work in the foreground on the services that the settings name. JSON log lines with ids only go to stderr.

    SIGTERM or Ctrl-C: take nothing new, finish what is under way, leave. What was not finished goes to other workers.
    """
    import logging

    from memforest_core.bootstrap.service import open_services
    from memforest_core.cli.logs import configure_logs
    from memforest_core.settings import load_settings
    from memforest_workers.worker import checked_queues, run_worker

    configure_logs(logging.INFO)
    wanted = checked_queues([queue.strip() for queue in queues.split(",") if queue.strip()])
    if not wanted:
        raise InvalidSettings(f"Name at least one queue: {ALL_QUEUES}.")
    services = open_services(load_settings())
    finished = run_worker(services, wanted, concurrency, name)
    if not finished:
        # A call that hangs would hold the interpreter's exit; its lease is already free.
        sys.stderr.flush()
        os._exit(Exit.DONE)
    services.close()


def worker_health(as_json: JsonOption = False) -> None:
    """Exit 0 if the worker of this machine touched its health file lately, else 1. For container health checks."""
    import time

    from memforest_core.settings import load_settings

    settings = load_settings().worker
    if settings.health_file is None:
        raise InvalidSettings("Set MEMFOREST_WORKER__HEALTH_FILE to a file that the worker touches.")
    try:
        silent_s = time.time() - settings.health_file.stat().st_mtime
    except FileNotFoundError:
        silent_s = None
    alive = silent_s is not None and silent_s <= settings.dead_after_s
    if as_json:
        print_json({"alive": alive, "silent_s": silent_s})
    elif silent_s is None:
        print("No heartbeat yet.")
    else:
        print(f"The last heartbeat was {silent_s:.1f} s ago.")
    if not alive:
        raise typer.Exit(Exit.FAILED)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("worker")(worker)
    app.command("worker-health")(worker_health)
