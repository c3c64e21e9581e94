"""Running workers: in the foreground for a service, in a background thread for an embedded node."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from celery import Celery
from celery.worker import WorkController

from memforest_core.bootstrap.service import Services
from memforest_core.errors import InvalidSettings
from memforest_core.messages import Queue
from memforest_workers.app import create_app
from memforest_workers.runtime import Runtime

START_TIMEOUT_S = 20.0


def checked_queues(names: Sequence[str]) -> tuple[str, ...]:
    """Known queue names. Raises InvalidSettings."""
    known = {queue.value for queue in Queue}
    for name in names:
        if name not in known:
            raise InvalidSettings(f"Name queues among {', '.join(sorted(known))}; {name!r:.40} is none.")
    return tuple(dict.fromkeys(names))


def controller(
    app: Celery,
    queues: Sequence[str],
    concurrency: int,
    name: str,
    on_ready: Callable[[object], None] | None = None,
) -> WorkController:
    """A worker on the threads pool: calls to models wait, and threads wait cheaply."""
    return app.WorkController(
        app=app,
        hostname=name,
        pool_cls="threads",
        concurrency=concurrency,
        queues=list(queues),
        without_gossip=True,
        without_mingle=True,
        ready_callback=on_ready,
    )


class BackgroundWorker:
    """A Celery worker in a thread of this process; signals and logging stay the caller's."""

    def __init__(self, services: Services, broker_url: str, concurrency: int) -> None:
        self._runtime = Runtime(services, [queue.value for queue in Queue], name="embedded")
        self._app = create_app(lambda: self._runtime, broker_url=broker_url)
        self._controller: WorkController | None = None
        self._concurrency = concurrency
        self._ready = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def app(self) -> Celery:
        """The Celery app."""
        return self._app

    def start(self) -> None:
        """Start, and wait until the worker consumes."""
        self._runtime.start()
        worker = controller(
            self._app,
            [queue.value for queue in Queue],
            self._concurrency,
            "embedded@localhost",
            lambda _consumer: self._ready.set(),
        )
        self._controller = worker
        self._thread = threading.Thread(target=worker.start, name="memforest-worker", daemon=True)
        self._thread.start()
        if not self._ready.wait(START_TIMEOUT_S):
            self.stop(0.0)
            raise InvalidSettings("The embedded worker did not start: look into the logs directory.")

    def stop(self, deadline_s: float) -> None:
        """Stop consuming and wait for running calls, at most ``deadline_s`` seconds."""
        if self._controller is not None:
            stopper = threading.Thread(target=self._controller.stop, daemon=True)
            stopper.start()
            stopper.join(deadline_s)
        self._runtime.stop()
        self._app.close()
