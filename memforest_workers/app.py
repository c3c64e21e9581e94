"""The Celery app: four tasks with names of their own, settings from ``memforest_workers.celeryconfig``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog
from celery import Celery

from memforest_core.domain.ids import TenantId
from memforest_core.errors import MemForestError, place_of
from memforest_core.work.messages import TASK_NAMES, Queue
from memforest_workers.broker import messaging
from memforest_workers.runtime import TASKS, Runtime

log = structlog.get_logger(__name__)


class TaskFailed(Exception):
    """Why a task ended early, by code: a message could carry what it must not into Flower."""


@contextmanager
def _named_failures(queue: Queue) -> Iterator[None]:
    """Turn every error of a task into its name: Flower shows exceptions to everybody."""
    ended = False
    try:
        yield
        ended = True
    except MemForestError as error:
        ended = True
        log.error("task_failed", queue=queue.value, code=error.code, reason=error.message)
        raise TaskFailed(error.code) from None
    finally:
        crash = sys.exc_info()[1]
        if not ended and isinstance(crash, Exception):
            # Never the traceback: the logs of an embedding program may print the values of variables.
            log.error("task_crashed", queue=queue.value, **place_of(crash))
            raise TaskFailed(type(crash).__name__) from None


def create_app(runtime: Callable[[], Runtime], *, broker_url: str | None = None) -> Celery:
    """A Celery app whose tasks work through ``runtime()``.

    ``broker_url`` overrides the configured broker, for a node that brings its own.
    """
    app = Celery("memforest", set_as_current=False, amqp=messaging(lambda queue: runtime().dropped(queue)))
    app.config_from_object("memforest_workers.celeryconfig")
    if broker_url is not None:
        app.conf.broker_url = broker_url

    def register(queue: Queue) -> None:
        # Shared tasks would be registered with every app of the process, and with another node's runtime.
        @app.task(name=TASK_NAMES[queue], shared=False)  # type: ignore[untyped-decorator]
        def task(tenant: str, ref: str = "") -> str:
            run, counted = TASKS[queue]
            with _named_failures(queue):
                return f"{run(runtime(), TenantId(tenant))} {counted}"

    for each in Queue:
        register(each)
    return app
