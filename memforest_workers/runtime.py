"""One worker process: its services, its heartbeat, and the loops its tasks run."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from uuid import uuid4

import structlog

from memforest_core.client.services.checkup import in_use
from memforest_core.client.services.service import Services
from memforest_core.domain.ids import TenantId, WorkerId
from memforest_core.errors import (
    IndexUnavailable,
    MemForestError,
    RetryableError,
    StoreContended,
    StoreUnavailable,
    place_of,
)
from memforest_core.index.records import PointLease
from memforest_core.index.vector_index import PointKind
from memforest_core.ingest.extract.service import Extracted, Extraction
from memforest_core.ingest.reduce.service import Reduced, Reduction
from memforest_core.models.calls import Step
from memforest_core.store.connections import connection_plan
from memforest_core.store.deadlines import patiently
from memforest_core.store.repeating import repeated
from memforest_core.work.jobs import WorkKind
from memforest_core.work.messages import Queue


class RawCells:
    """Indexes raw cells in a thread of its own: that fills the processors with the embedding model, while tasks ask the
    chat model. Thread-safe."""

    def __init__(self, index: Callable[[TenantId], int], batch: int) -> None:
        """``index`` indexes at most ``batch`` of a tenant's cells and says how many there were."""
        self._index, self._batch = index, batch
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="memforest-raw")
        self._lock = threading.Lock()
        self._due: set[TenantId] = set()
        self._last: Future[None] | None = None

    def index(self, tenant: TenantId) -> None:
        """See that what is committed by now is indexed, without waiting for it."""
        with self._lock:
            if tenant in self._due:
                return
            batch = self._last = self._thread.submit(self._one, tenant)
            self._due.add(tenant)
        batch.add_done_callback(_report_crash)

    def _one(self, tenant: TenantId) -> None:
        with self._lock:
            self._due.remove(tenant)
        if self._index(tenant) >= self._batch:
            self.index(tenant)

    def join(self, timeout_s: float | None = None) -> None:
        """Wait until nothing is left to index."""
        seen = None
        while (last := self._last) is not seen and last is not None:
            seen = last
            wait([last], timeout_s)

    def close(self, timeout_s: float) -> None:
        """Wait so long at most, and begin nothing more."""
        self.join(timeout_s)
        self._thread.shutdown(wait=False, cancel_futures=True)


def _report_crash(batch: Future[None]) -> None:
    crash = None if batch.cancelled() else batch.exception()
    if crash is not None:
        log.error("task_crashed", queue=Queue.EXTRACT.value, **place_of(crash))


log = structlog.get_logger(__name__)

STUCK_EXIT = 70
"""Exit code of a worker that ended itself because a call hung (sysexits' EX_SOFTWARE)."""

TENANTS_TRIED = 4
"""Tenants with waiting work that one task tries before it leaves the rest to others."""
MAINTAINED = 64
"""The same for maintenance: many tenants may have nothing but raw cells, which it leaves to their thread."""

RETAIN_S = 60.0
"""How often a worker checks whether policies are to be applied; a row says when they were last."""
RETAIN_EVERY_S = 3_600.0
"""How often policies are applied to the forests under one."""
COOL_EVERY_S = 600.0
"""Seconds between two rounds in which workers cool and warm topics."""
TOPICS_BUDGET_S = 2.0
"""What a worker spends on cooling and warming topics before it checks for stuck units."""

DROP_S = 600.0
"""How often a worker deletes webhook deliveries past their retention."""

Claimed = Callable[[], None]
"""Called by a unit of work when it has claimed its rows."""


class Runtime:
    """The services of a worker process, with the two threads that look after them: heartbeat and watch."""

    def __init__(
        self,
        services: Services,
        queues: Sequence[str],
        name: str | None = None,
        *,
        exit_when_stuck: bool = False,
        reduce_at_once: bool = False,
    ) -> None:
        self.services = services
        self._reduce_at_once = reduce_at_once and Queue.REDUCE in queues
        self._exit_when_stuck = exit_when_stuck
        self._units: dict[int, tuple[str, float, WorkerId]] = {}
        self._former: list[WorkerId] = []
        self._store_failed = threading.Event()
        self._brokerless: list[threading.Thread] = []
        self._raw = RawCells(self._raw_batch, services.settings.index.batch)
        self.worker = WorkerId(uuid4())
        self.queues = tuple(queues)
        self.name = name or f"{socket.gethostname()}:{os.getpid()}"
        self.deaf = threading.Event()
        """Set while this process consumes no messages: its consumer failed, and the next has not started."""
        self._winding_down = threading.Event()
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Prepare the index, register the worker, and start its threads. Raises StoreUnavailable, InvalidSettings."""
        try:
            self.services.index.prepare()
        except IndexUnavailable as error:
            log.warning("index_unavailable_at_start", reason=error.message)
        self.services.maintenance.generations.check(now=True)
        self._register()
        for target, role in ((self._beat, "heartbeat"), (self._watch, "watch")):
            thread = threading.Thread(target=target, name=f"memforest-{role}", daemon=True)
            thread.start()
            self._threads.append(thread)
        log.info("worker_ready", worker=str(self.worker), queues=list(self.queues), **in_use(self.services.settings))

    def _register(self) -> None:
        per_process = connection_plan(self.services.settings).per_process
        self.services.jobs.register(self.worker, self.name, self.queues, per_process)

    def wind_down(self) -> None:
        """Take nothing new: loops end after the unit they are at, which has its lease until ``stop``."""
        self._winding_down.set()

    def stop(self) -> None:
        """Stop the threads and delete the worker's row, so that its leases end at once."""
        self.wind_down()
        self._stopping.set()
        self._raw.close(5)
        for thread in self._threads:
            thread.join(timeout=5)
        try:
            for worker in (self.worker, *self._former):
                self.services.jobs.leave(worker)
        except RetryableError as error:
            log.warning("worker_not_deleted", reason=error.message)

    def _every(self, period_s: float, step: Callable[[], None]) -> None:
        """Run a step each period until the stop; an unavailable store is waited for."""
        while not self._stopping.wait(period_s):
            try:
                step()
            except MemForestError as error:
                log.warning("upkeep_delayed", code=error.code)

    @property
    def upkept(self) -> bool:
        """Whether heartbeat and watch are running: without them the leases of this process end under its hands."""
        return all(thread.is_alive() for thread in self._threads)

    def _beat(self) -> None:
        settings = self.services.settings.worker

        def step() -> None:
            if not self.services.jobs.beat(self.worker):
                self._register()
            if self._store_failed.is_set():
                self._store_failed.clear()
                self._former.append(self.worker)
                self.worker = WorkerId(uuid4())
                self._register()
            self._leave_former()
            if settings.health_file is not None:
                Path(settings.health_file).touch()

        self._every(settings.heartbeat_s, step)

    def _leave_former(self) -> None:
        """End the leases of units that a failure of Postgres has interrupted.

        After such a failure the process continues under a new id. The former id is deleted as soon as no unit that was
        started under it is running; this also frees a claim that was committed though its answer was lost.
        """
        at_work = {worker for _, _, worker in list(self._units.values())}
        for former in list(self._former):
            if former in at_work:
                self.services.jobs.beat(former)
            else:
                self.services.jobs.leave(former)
                self._former.remove(former)

    def _end_if_stuck(self) -> None:
        """A unit past every deadline blocks its thread for ever: threads can't be stopped, but their process can."""
        limit = self.services.stuck_s
        for step, started, _ in list(self._units.values()):
            seconds = time.monotonic() - started
            if seconds > limit:
                log.error("unit_stuck", step=step, seconds=round(seconds), ends_process=self._exit_when_stuck)
                if self._exit_when_stuck:
                    os._exit(STUCK_EXIT)

    def _watch(self) -> None:
        """Each second search for due trees and stuck units; every few seconds reconcile; now and then apply policies,
        and cool and warm topics."""
        settings = self.services.settings.worker
        retained = cooled = dropped = time.monotonic()
        last = retained - settings.reconcile_s  # what waits at the start may have no wake-up

        def step() -> None:
            nonlocal last, retained, cooled, dropped
            self._end_if_stuck()
            _, broker_unavailable = self.services.reconciler.wake(WorkKind.REFRESH)
            if time.monotonic() - last >= settings.reconcile_s:
                last = time.monotonic()
                self.services.maintenance.generations.check()
                done = self.services.reconciler.run()
                if done.freed or done.released or done.redone or done.reopened:
                    counts = {"freed": done.freed, "released": done.released}
                    log.info("reconciled", **counts, redone=done.redone, reopened=done.reopened)
                broker_unavailable |= done.broker_unavailable
            if time.monotonic() - retained >= RETAIN_S:
                retained = time.monotonic()
                self.services.lifecycle.retention.request_sweeps(RETAIN_EVERY_S)
            if time.monotonic() - dropped >= DROP_S:
                dropped = time.monotonic()
                for tenant in self.services.jobs.waiting(WorkKind.PAST):
                    self.services.webhooks.drop_past(tenant)
            cooling = self.services.topic_cooling
            if time.monotonic() - cooled >= COOL_EVERY_S or cooling.unfinished:
                cooled = time.monotonic()
                cooling.run(TOPICS_BUDGET_S)
            if broker_unavailable or self.deaf.is_set():
                self._work_without_broker()

        self._every(settings.poll_s, step)

    def _work_without_broker(self) -> None:
        """Do the waiting work here while no wake-up can be sent: one thread for each of our queues."""
        self._brokerless = [thread for thread in self._brokerless if thread.is_alive()]
        if self._brokerless:
            return
        log.warning("broker_unavailable", works_on=list(self.queues))
        for queue in self.queues:
            thread = threading.Thread(
                target=self._until_done, args=(Queue(queue),), name=f"memforest-brokerless-{queue}", daemon=True
            )
            thread.start()
            self._brokerless.append(thread)

    def _until_done(self, queue: Queue) -> None:
        try:
            TASKS[queue][0](self, None)
        except MemForestError as error:
            log.warning("brokerless_work_delayed", code=error.code)

    def work(self, kind: WorkKind, queue: Queue, unit: Callable[[Claimed, TenantId], int]) -> int:
        """Run units of one kind until none is left or the task's budget is spent; how many rows they did.

        The rows decide whose turn it is, not the message. A unit says when it has claimed its rows: then, or at the
        latest after a first success, work that is left wakes one more task, so that idle slots fill up while a model
        is waited for. A spent budget hands over to a new message.
        """
        deadline = time.monotonic() + self.services.settings.worker.task_budget_s
        done, woken = 0, False

        def claimed() -> None:
            nonlocal woken
            if not woken and (waiting := self.services.jobs.next_waiting(kind, 1, turn=False)):
                woken = True
                self.wake(queue, waiting[0])

        while not self._winding_down.is_set():
            most = MAINTAINED if queue is Queue.MAINTAIN else TENANTS_TRIED
            tenants = self.services.jobs.next_waiting(kind, most)
            if not tenants:
                return done
            if time.monotonic() >= deadline:
                self.wake(queue, tenants[0])
                return done
            rows = next(filter(None, (self._timed(queue, each, partial(unit, claimed)) for each in tenants)), 0)
            if not rows:
                return done
            done += rows
            if queue is not Queue.REDUCE:
                claimed()
        return done

    def _timed(self, queue: Queue, tenant: TenantId, unit: Callable[[TenantId], int]) -> int:
        """Run one unit, watched and measured; how many rows it did."""
        thread, started = threading.get_ident(), time.monotonic()
        self._units[thread] = (queue.value, started, self.worker)
        outcome = "failed"
        try:
            with patiently():
                done = repeated(unit)(tenant)
            outcome = "done" if done else "nothing"
            return done
        except StoreContended:
            raise  # nobody lost a connection, and what was claimed is given back
        except StoreUnavailable:
            self._store_failed.set()
            raise
        finally:
            del self._units[thread]
            self.services.telemetry.worked(queue.value, tenant, time.monotonic() - started, outcome)

    def wake(self, queue: Queue, tenant: TenantId, ref: object = "") -> None:
        """Send one wake-up."""
        self.services.producer.wakeups.send(queue, tenant, str(ref))

    def dropped(self, queue: str) -> None:
        """Count a message that could not be read."""
        self.services.telemetry.dropped(queue)

    def index(self, tenant: TenantId, kinds: Sequence[PointKind], lease: PointLease | None = None) -> int:
        """Bring index rows of these kinds up to date, first those under a ``lease``; how many."""
        total = 0
        while lease is not None or not self._winding_down.is_set():
            done = self.services.indexer.run_one(tenant, self.worker, kinds, lease)
            lease, total = None, total + done
            if done < self.services.settings.index.batch:
                return total
        return total

    @contextmanager
    def _indexed(self, tenant: TenantId, kind: PointKind) -> Iterator[PointLease]:
        """A lease for the index rows that are made inside; at the end they are indexed, also after an error."""
        lease = PointLease(self.worker)
        try:
            yield lease
        finally:
            if lease.points:
                self.index(tenant, (kind,), lease)

    def extract(self, woken: TenantId | None = None) -> int:
        """Extract windows, while raw cells are indexed; forests that they change are reduced, here or after a wake-up.
        ``woken``: the tenant whose raw cells are indexed even when others took its windows."""
        seen = set() if woken is None else {woken}

        def unit(claimed: Claimed, tenant: TenantId) -> int:
            seen.add(tenant)
            indexed = self._index_raw(tenant)
            if self.services.paused(Step.EXTRACT) > 0:
                return bool(indexed)  # claimed, the windows would only fail: they wait until the model is back
            end = self.services.extraction.run_one(tenant, self.worker, claimed)
            stored = end.ended is Extracted.DONE
            if stored and not (end.live and self._reduce_at_once and self._reduced(tenant, end)):
                self.wake(Queue.REDUCE, tenant, end.forest_id)
            return end.ended is not Extracted.NOTHING

        done = self.work(WorkKind.EXTRACT, Queue.EXTRACT, unit)
        for tenant in seen:
            while self._timed(Queue.EXTRACT, tenant, self._index_raw):
                pass
        return done

    def _index_raw(self, tenant: TenantId) -> int:
        """Have raw cells indexed by their thread; a runtime that was not started indexes a batch here, and says how
        many there were."""
        if not self._threads:
            return self._index_cells(tenant)
        if not self._winding_down.is_set():
            self._raw.index(tenant)
        return 0

    def _index_cells(self, tenant: TenantId) -> int:
        return self.services.indexer.run_one(tenant, self.worker, (PointKind.CELL,))

    def _raw_batch(self, tenant: TenantId) -> int:
        try:
            done = 0 if self._winding_down.is_set() else self._timed(Queue.EXTRACT, tenant, self._index_cells)
        except MemForestError as error:
            log.warning("raw_cells_delayed", code=error.code)
            return 0
        return 0 if self._winding_down.is_set() else done

    def reduce(self, _woken: TenantId | None = None) -> int:
        """Drain forests; after each commit its facts are indexed."""

        def unit(_: Claimed, tenant: TenantId) -> int:
            end = self._reduce(tenant)
            return max(1, end.cells) if end.ended is Reduced.DONE else 0

        return self.work(WorkKind.REDUCE, Queue.REDUCE, unit)

    def _reduced(self, tenant: TenantId, extracted: Extraction) -> bool:
        """Reduce a live window here, so that it does not queue behind an import; whether its forest needs no wake-up.

        It needs none when nothing waits any more, and when another worker writes the forest: that one re-checks
        after its commit, as this one does.
        """
        end = self._reduce(tenant)
        while end.ended is Reduced.DONE and end.forest_id == extracted.forest_id:
            end = self._reduce(tenant)
        return end.ended is Reduced.NOTHING or end.forest_id == extracted.forest_id

    def _reduce(self, tenant: TenantId) -> Reduction:
        with self._indexed(tenant, PointKind.FACT) as lease:
            end = self.services.reduction.run_one(tenant, lease)
        if end.ended is Reduced.DONE and not lease.points:
            self.index(tenant, (PointKind.FACT,))
        return end

    def refresh(self, _woken: TenantId | None = None) -> int:
        """Refresh due trees, and index what was saved."""

        def unit(claimed: Claimed, tenant: TenantId) -> int:
            with self._indexed(tenant, PointKind.NODE) as lease:
                nodes = self.services.refresh.run_one(tenant, self.worker, lease, claimed)
            if nodes and not lease.points:
                self.index(tenant, (PointKind.NODE,))
            return nodes

        return self.work(WorkKind.REFRESH, Queue.REFRESH, unit)

    def maintain(self, _woken: TenantId | None = None) -> int:
        """Resumable tasks, indexing what the other queues could not, and deliveries of webhooks."""

        def unit(_: Claimed, tenant: TenantId) -> int:
            return (
                self.services.maintenance.tasks.run_one(tenant, self.worker)
                or self._index_raw(tenant)
                or self.index(tenant, (PointKind.FACT, PointKind.NODE))
                or self.services.webhooks.run_one(tenant, self.worker)
            )

        return self.work(WorkKind.MAINTAIN, Queue.MAINTAIN, unit)


TASKS: dict[Queue, tuple[Callable[[Runtime, TenantId | None], int], str]] = {
    Queue.EXTRACT: (Runtime.extract, "windows"),
    Queue.REDUCE: (Runtime.reduce, "cells"),
    Queue.REFRESH: (Runtime.refresh, "nodes"),
    Queue.MAINTAIN: (Runtime.maintain, "rows"),
}
"""What the task of each queue runs, given whose wake-up it is, and what its result counts, as Flower shows it."""
