"""``celery -A memforest_workers worker``: a worker under Celery's own command, as ``memforest worker`` is under ours.

Celery searches for an app in a module of this name. Only its command line imports it.
"""

from __future__ import annotations

import os
from typing import Any

import structlog
from celery import Celery
from celery.bootsteps import StartStopStep
from click import Context, Option, Parameter

from memforest_core.errors import InvalidSettings, MemForestError
from memforest_core.settings import load_settings
from memforest_workers.app import create_app
from memforest_workers.flower import refuse_open
from memforest_workers.runtime import Runtime
from memforest_workers.worker import AppThreads, WorkerParts, open_worker

log = structlog.get_logger(__name__)

CONCURRENCY = 8
"""Threads, unless ``--concurrency`` says otherwise: as many as ``memforest worker`` has."""


class _Opened:
    """What the worker of this process has open, from its start to its end."""

    parts: WorkerParts
    runtime: Runtime

    def current(self) -> Runtime:
        """The runtime that tasks work with."""
        return self.runtime


_opened = _Opened()


class Upkeep(StartStopStep):  # type: ignore[misc]
    """Opens the services and registers the worker before it consumes; frees its leases after its last task."""

    requires = {"celery.worker.components:Pool"}  # noqa: RUF012 - Celery reads this name off the class

    def start(self, worker: Any) -> None:
        """Ends the worker with exit code 1 where ``memforest worker`` would refuse to start."""
        try:
            if not isinstance(worker.pool, AppThreads):
                raise InvalidSettings("Leave --pool out: tasks share connections and models, so they run on threads.")
            queues = list(worker.app.amqp.queues.consume_from)
            _opened.parts = parts = open_worker(load_settings(), queues)
            _opened.runtime = Runtime(
                parts.services, queues, worker.hostname, exit_when_stuck=True, reduce_at_once=True
            )
            parts.register(_opened.runtime)
        except MemForestError as error:
            log.error("worker_not_started", code=error.code, reason=error.message)
            raise SystemExit(1) from None

    def close(self, worker: Any) -> None:
        """Take nothing new; units under way go on."""
        _opened.runtime.wind_down()

    def stop(self, worker: Any) -> None:
        """Wait for the units under way, then delete the worker's row."""
        worker.pool.stop()
        _opened.runtime.stop()
        _opened.parts.close()


def _checked(context: Context, _option: Parameter, insecure: bool) -> bool:
    if context.command.name == "flower" and not insecure:
        try:
            refuse_open(os.environ)
        except InvalidSettings as error:
            context.fail(error.message)
    return insecure


def _app() -> Celery:
    made = create_app(_opened.current)
    made.conf.worker_pool = AppThreads
    made.conf.worker_concurrency = CONCURRENCY
    made.steps["worker"].add(Upkeep)
    made.user_options["preload"].add(
        Option(
            ["--insecure"], is_flag=True, callback=_checked, help="Flower only: let everybody in, without a password."
        )
    )
    return made


app = _app()
