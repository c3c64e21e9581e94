"""``memforest worker``, ``worker-health`` and ``flower``: one worker process of a deployment, and its monitor."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from memforest_core.cli.toolkit.options import JsonOption, option
from memforest_core.cli.toolkit.output import Exit, print_json
from memforest_core.errors import InvalidSettings
from memforest_core.settings import OFFLINE, Settings


def flower(
    address: Annotated[
        str, typer.Option(envvar="FLOWER_ADDRESS", help="Where it listens; 0.0.0.0 is everywhere.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(envvar="FLOWER_PORT", min=0, max=65_535, help="Its port.")] = 5555,
    insecure: Annotated[bool, typer.Option("--insecure", help="Serve without a password.")] = False,
) -> None:
    """Serve Flower until Ctrl-C or SIGTERM: pages with queues, workers and tasks, without conversation text.

    FLOWER_BASIC_AUTH=user:password sets the login. /metrics and /healthcheck need none.
    """
    from memforest_workers.flower import refuse_open, serve

    if not insecure:
        refuse_open(os.environ)
    serve(address, port)


ALL_QUEUES = "extract,reduce,refresh,maintain"


def worker(
    queues: Annotated[str, typer.Option(help="Queues to work for, separated by commas.")] = ALL_QUEUES,
    concurrency: Annotated[
        int,
        typer.Option(
            min=1,
            max=1024,
            help="Number of tasks at the same time in each process. They mostly wait for models and stores.",
        ),
    ] = 8,
    processes: Annotated[
        int, typer.Option(min=1, max=256, help="Number of worker processes. One that dies is restarted.")
    ] = 1,
    name: Annotated[str | None, option("Name shown by status and Flower; unique for each process.")] = None,
) -> None:
    """Run a worker in the foreground. The log on stderr is JSON lines with ids and no text.

    After SIGTERM or Ctrl-C it takes no new work, finishes running calls, and ends. Other workers take the rest.
    """
    import logging

    from memforest_core.cli.toolkit.logs import configure_logs, in_child
    from memforest_core.settings import load_settings
    from memforest_workers.supervisor import Supervisor
    from memforest_workers.worker import STOP_DEADLINE_S, checked_queues

    configure_logs(logging.INFO)
    wanted = checked_queues([queue.strip() for queue in queues.split(",") if queue.strip()])
    if not wanted:
        raise InvalidSettings(f"Name at least one queue: {ALL_QUEUES}.")
    settings = load_settings()
    if processes == 1:
        _work(settings, wanted, concurrency, name)
        return
    _import_what_children_need(settings)
    base = name or f"{'-'.join(wanted)}-{os.getpid()}"

    def child(place: int, parent: int) -> int:
        own = f"{base}-{place}@{socket.gethostname()}"
        return in_child("worker_not_started", lambda: _work(settings, wanted, concurrency, own, parent, place))

    Supervisor(processes, child, STOP_DEADLINE_S + 5).run()


def _work(
    settings: Settings,
    wanted: Sequence[str],
    concurrency: int,
    name: str | None,
    parent: int | None = None,
    place: int = 0,
) -> None:
    """One worker process, until a signal stops it."""
    from memforest_workers.worker import open_worker, run_worker

    parts = open_worker(settings, wanted)
    finished = run_worker(parts, wanted, concurrency, name, parent=parent, place=place)
    if not finished:
        parts.watching.close()
        # A call that hangs would hold the interpreter's exit; its lease is already free.
        sys.stderr.flush()
        os._exit(Exit.DONE)
    parts.close()


def _import_what_children_need(settings: Settings) -> None:
    """Libraries only: nothing that a fork would share, such as a connection or a thread."""
    from importlib import import_module

    modules = ["memforest_workers.worker", "memforest_core.client.services.service", "celery.worker.worker"]
    modules += ["memforest_core.index.qdrant.server_index", "memforest_core.models.embedders.minilm"]
    for module in modules:
        import_module(module)
    if settings.llm.model != OFFLINE:
        from memforest_core.models.litellm_runtime import litellm_module

        litellm_module()


def worker_health(as_json: JsonOption = False) -> None:
    """Exit code 0 if the worker of this machine wrote its health file recently, else 1. For container health checks."""
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
