"""Running workers: in the foreground for a service, in a background thread for an embedded node."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog
from celery import Celery
from celery.bootsteps import RUN
from celery.concurrency.thread import TaskPool
from celery.exceptions import WorkerShutdown
from celery.worker import WorkController
from celery.worker.consumer import Consumer as CeleryConsumer
from kombu.asynchronous import set_event_loop

from memforest_core.client.services.service import Services, open_services
from memforest_core.errors import BrokerUnavailable, InvalidSettings, MemForestError
from memforest_core.models.calls import Step
from memforest_core.observe.watching import Watching, open_watching
from memforest_core.settings import Settings
from memforest_core.store.connections import check_connections
from memforest_core.work.messages import Queue
from memforest_workers.app import create_app
from memforest_workers.runtime import Runtime
from memforest_workers.supervisor import stop_requested

log = structlog.get_logger(__name__)

START_TIMEOUT_S = 20.0
STOP_DEADLINE_S = 25.0
"""Calls under way get this long to finish; below the 30 s after which orchestrators usually kill."""
WAKE_S = 1.0
"""Between two wake-ups of a worker that is to stop and has not."""
WATCH_S = 0.2
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
"""Between the end of a consumer that failed and the start of the next."""


def checked_queues(names: Sequence[str]) -> tuple[str, ...]:
    """Known queue names. Raises InvalidSettings."""
    known = {queue.value for queue in Queue}
    for name in names:
        if name not in known:
            raise InvalidSettings(f"Name queues among {', '.join(sorted(known))}; {name!r:.40} is none.")
    return tuple(dict.fromkeys(names))


class AppThreads(TaskPool):  # type: ignore[misc]
    """Threads that know their worker's app: Celery looks tasks up in the thread's current app, and a process may
    hold several nodes."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.executor = ThreadPoolExecutor(
            self.limit, thread_name_prefix="memforest-task", initializer=self.app.set_current
        )


class PatientConsumer(CeleryConsumer):  # type: ignore[misc]
    """Waits for an unavailable broker as long as it takes, or until the worker is to stop."""

    def __init__(self, *args: Any, stopping: threading.Event, **kwargs: Any) -> None:
        self._stopping = stopping
        super().__init__(*args, **kwargs)

    def ensure_connected(self, conn: Any) -> Any:
        """Connect. Raises WorkerShutdown once the worker is to stop."""

        def unavailable(error: Exception, retry_in_s: float) -> None:
            log.warning("broker_unavailable", broker=conn.as_uri(), error=type(error).__name__, retry_in_s=retry_in_s)

        def leave() -> None:
            if self._stopping.is_set():
                raise WorkerShutdown(0)

        connected = conn.ensure_connection(unavailable, callback=leave)
        self.first_connection_attempt = False
        return connected


_MAKING = threading.Lock()
"""Of the workers of this process."""

NAME = "embedded"
"""Of the worker inside an embedded node."""


class Consumer:
    """Consumes in a thread until it is stopped. A Celery worker that fails is replaced; meanwhile the runtime does the
    waiting work without the broker."""

    def __init__(self, app: Celery, runtime: Runtime, queues: Sequence[str], concurrency: int, name: str) -> None:
        self._app = app
        self._runtime = runtime
        self._queues = queues
        self._concurrency = concurrency
        self._name = name
        self._stopping = threading.Event()
        self._worker: WorkController | None = None
        self._thread = threading.Thread(target=self._run, name="memforest-consumer", daemon=True)
        self.ready = threading.Event()
        """Set once it has consumed."""

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def is_alive(self) -> bool:
        """False once it was stopped, by ``stop`` or through Celery's remote control."""
        return self._thread.is_alive()

    def stop(self, deadline_s: float) -> bool:
        """Stop consuming and wait for running calls; whether they ended within ``deadline_s`` seconds.

        The worker stops in its own thread: channels that another thread closes while the loop reads them break
        it.
        """
        self._stopping.set()
        end = time.monotonic() + deadline_s
        while self._thread.is_alive():
            self._wake()
            if (left := end - time.monotonic()) <= 0:
                return False
            self._thread.join(min(left, WAKE_S))
        return True

    def _wake(self) -> None:
        """Let the loop of a worker that consumes see that it is to stop. A call for a loop that then lost its
        broker may be forgotten, so this is repeated."""
        worker = self._worker
        if worker is None or (hub := worker.hub) is None:
            return

        def leave() -> None:
            # A hub that closes calls what waits in it once more.
            if worker.blueprint.state == RUN:
                raise WorkerShutdown(0)

        hub.call_soon(leave)

    def _run(self) -> None:
        pause_s = FIRST_PAUSE_S
        while not self._stopping.is_set():
            worker = self._worker = self._new_worker()
            worker.start()
            if self._stopping.is_set() or not worker.exitcode:
                return
            self._runtime.deaf.set()
            log.error("consumer_failed", retry_in_s=pause_s)
            self._stopping.wait(pause_s)
            pause_s = min(LONGEST_PAUSE_S, 2 * pause_s)

    def _new_worker(self) -> WorkController:
        with _MAKING:
            # Celery would give all workers of a process the same loop: one would end another's.
            set_event_loop(None)
            # On threads: calls to models wait, and threads wait cheaply.
            return self._app.WorkController(
                app=self._app,
                hostname=self._name,
                pool_cls=AppThreads,
                consumer_cls=partial(PatientConsumer, stopping=self._stopping),
                concurrency=self._concurrency,
                queues=list(self._queues),
                without_gossip=True,
                without_mingle=True,
                ready_callback=self._consuming,
            )

    def _consuming(self, _consumer: object) -> None:
        self._runtime.deaf.clear()
        self.ready.set()


class BackgroundWorker:
    """A Celery worker in a thread of this process; signals and logging stay the caller's."""

    def __init__(self, services: Services, broker_url: str, concurrency: int) -> None:
        self._runtime = Runtime(services, [queue.value for queue in Queue], name=NAME, reduce_at_once=True)
        self._app = create_app(lambda: self._runtime, broker_url=broker_url)
        self._consumer = Consumer(
            self._app, self._runtime, [queue.value for queue in Queue], concurrency, f"{NAME}@localhost"
        )

    @property
    def upkept(self) -> bool:
        """Whether the worker's own upkeep is running."""
        return self._runtime.upkept

    def start(self) -> None:
        """Start, and wait until the worker consumes. Raises BrokerUnavailable when it does not.

        The caller owns the data directory alone: an earlier worker of it is dead, and its leases end now.
        """
        with ExitStack() as undo:
            undo.callback(self.stop, STOP_DEADLINE_S)
            self._runtime.services.jobs.delete_name(NAME)
            self._runtime.start()
            self._consumer.start()
            if not self._consumer.ready.wait(START_TIMEOUT_S):
                raise BrokerUnavailable("The embedded worker did not start: look into the logs directory.")
            undo.pop_all()

    def stop(self, deadline_s: float) -> None:
        """Stop consuming and wait for running calls, at most ``deadline_s`` seconds."""
        self._consumer.stop(deadline_s)
        self._runtime.stop()
        self._app.close()


@dataclass(frozen=True, slots=True)
class WorkerParts:
    """The services of a worker process, checked, and how it is watched."""

    services: Services
    watching: Watching

    def register(self, runtime: Runtime, place: int = 0) -> None:
        """Start the runtime and serve metrics at the port of this ``place``.

        Raises InvalidSettings, also when Postgres has no room for this worker in addition to those that run.
        """
        runtime.start()
        try:
            check_connections(self.services.engine, self.services.settings, runtime.worker)
            self.watching.serve(self.services.engine, lambda: runtime.upkept, place)
        except MemForestError:
            runtime.stop()
            raise

    def close(self) -> None:
        """Release everything."""
        self.watching.close()
        self.services.close()


def open_worker(settings: Settings, queues: Sequence[str]) -> WorkerParts:
    """Open what a worker of these queues needs. Raises InvalidSettings, StoreUnavailable, and ModelRejected or
    ModelAuthFailed for a model that can't be called as it is set."""
    watching = open_watching(settings)
    services = open_services(settings, telemetry=watching.telemetry)
    calls = {Queue.EXTRACT: Step.EXTRACT, Queue.REFRESH: Step.SUMMARIZE}
    services.check_models(step for queue, step in calls.items() if queue in queues)
    return WorkerParts(services, watching)


def run_worker(
    parts: WorkerParts,
    queues: Sequence[str],
    concurrency: int,
    name: str | None = None,
    *,
    parent: int | None = None,
    place: int = 0,
) -> bool:
    """Consume in the foreground until SIGTERM or SIGINT, then finish what is under way; call it from the main thread.

    ``name`` is what status and Flower show, unique per process. ``parent`` is the process that restarts this one under
    the same name, at a ``place`` among others: a predecessor's leases end at once, and when the parent is gone the
    worker stops.

    True when every running call ended within STOP_DEADLINE_S seconds; otherwise their threads are still there, and the
    process must be killed. Their work is free for others at once either way.

    Raises InvalidSettings, StoreUnavailable, and BrokerUnavailable when its own upkeep ended.
    """
    services = parts.services
    name = name or f"{'-'.join(queues)}-{os.getpid()}@{socket.gethostname()}"
    with stop_requested() as stop:
        runtime = Runtime(services, queues, name, exit_when_stuck=True, reduce_at_once=True)
        if parent is not None:
            services.jobs.delete_name(name)
        broker_url = services.settings.broker.url.get_secret_value()
        app = create_app(lambda: runtime, broker_url=broker_url)
        parts.register(runtime, place)
        consumer = Consumer(app, runtime, queues, concurrency, name)
        consumer.start()
        while consumer.is_alive() and not stop.wait(WATCH_S):
            if parent is not None and os.getppid() != parent:
                log.warning("supervisor_gone")
                stop.set()
            if not runtime.upkept:
                log.error("upkeep_ended")
                break
        # Flower can ask a worker to shut down: that is exit code 0 and no failure.
        failed = not stop.is_set() and not runtime.upkept
        log.info("worker_stopping", worker=str(runtime.worker), deadline_s=STOP_DEADLINE_S)
        runtime.wind_down()
        finished = consumer.stop(STOP_DEADLINE_S)
        runtime.stop()
        if finished:
            app.close()
    log.info("worker_stopped", worker=str(runtime.worker), finished=finished)
    if failed:
        raise BrokerUnavailable("The worker stopped by itself, see its log: start it again.")
    return finished
