"""One process of a kill point: it records its events, and gets its signal at a chosen one."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import sqlalchemy as sa
from pydantic import TypeAdapter

from memforest_core.client.services.service import open_services
from memforest_core.domain.ids import TenantId
from memforest_core.domain.operation_rules import OperationKind
from memforest_core.index.index_opening import open_maintenance
from memforest_core.index.vector_index import Point, PointKey, VectorIndex
from memforest_core.lifecycle.verify.service import open_verification
from memforest_core.settings import DatabaseSettings, Settings
from memforest_core.store.engine import tenant_transaction
from memforest_workers.runtime import ALL_KINDS, Runtime
from tests.harness.end_state import State, end_state, receipts
from tests.harness.hashed_words import HashedWords
from tests.harness.kill_operations import ACTOR, OPERATIONS, Operation
from tests.harness.stack import settings_for

COMMITTED = "committed"
"""The event after a commit; every other one happens before what it names."""
LABEL_CHARS = 160


class Tape:
    """The events so far: a statement or a commit about to be sent, a commit done, a write of the index before and
    after it."""

    def __init__(self, kill_at: int | None = None, with_signal: signal.Signals = signal.SIGKILL) -> None:
        """``kill_at``: the number of the event, from 1, at which this process gets the signal; None for never.

        Only what the thread does that makes the tape counts: the others keep the process alive.
        """
        self.events: list[str] = []
        self._kill_at = kill_at
        self._signal = with_signal
        self._running = False
        self._thread = threading.get_ident()

    def tick(self, what: str) -> None:
        """The next event, if this is recorded."""
        if not self._running or threading.get_ident() != self._thread:
            return
        self.events.append(what)
        if len(self.events) == self._kill_at:
            os.kill(os.getpid(), self._signal)

    @contextmanager
    def recording(self, on: bool = True) -> Iterator[None]:
        """Whether what happens inside counts; nothing does before the first block."""
        before, self._running = self._running, on
        try:
            yield
        finally:
            self._running = before


def record_engine(engine: sa.Engine, tape: Tape) -> None:
    """Put the statements and commits of an engine on tape."""

    def sent(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        tape.tick(" ".join(statement.split())[:LABEL_CHARS])

    sa.event.listen(engine, "before_cursor_execute", sent)
    commit: Callable[[Any], None] = engine.dialect.do_commit

    def recorded(connection: Any) -> None:
        tape.tick("COMMIT")
        commit(connection)
        tape.tick(COMMITTED)

    # No event is fired after a commit: the dialect's own method is the one place where it can be seen.
    engine.dialect.do_commit = recorded  # type: ignore[method-assign, assignment]


class _RecordedIndex:
    """An index whose writes are on tape; everything else is passed on."""

    def __init__(self, index: VectorIndex, tape: Tape) -> None:
        self._index = index
        self._tape = tape

    def upsert(self, points: Sequence[Point]) -> None:
        self._tape.tick(f"index: upsert {len(points)}")
        self._index.upsert(points)
        self._tape.tick(f"index: upserted {len(points)}")

    def delete(self, keys: Sequence[PointKey]) -> None:
        self._tape.tick(f"index: delete {len(keys)}")
        self._index.delete(keys)
        self._tape.tick(f"index: deleted {len(keys)}")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._index, name)


def recorded_index(index: VectorIndex, tape: Tape) -> VectorIndex:
    """The same index, its writes on tape."""
    return cast(VectorIndex, _RecordedIndex(index, tape))


QUEUES = ("extract", "reduce", "refresh", "maintain")
DEAD_AFTER_S = 0.05
ONE_STEP_S = 0.000_001
"""A task's budget: it is handed back after each step, so that points lie between all of them."""
ROUNDS = 400

# Nothing waits for a moment to come: what is due later is due now.
_HURRY = (
    "UPDATE memforest.tree SET due_at = now() WHERE due_at > now()",
    "UPDATE memforest.forest SET reduce_available_at = now() WHERE reduce_available_at > now()",
    "UPDATE memforest.maintenance SET available_at = now() WHERE state = 'ready' AND available_at > now()",
    "UPDATE memforest.index_row SET available_at = now() WHERE state = 'ready' AND available_at > now()",
)
UNDONE = sa.text(
    """
    SELECT (SELECT count(*) FROM memforest.cell WHERE NOT placed AND state <> 'dead')
         + (SELECT count(*) FROM memforest.tree WHERE due_at IS NOT NULL)
         + (SELECT count(*) FROM memforest.index_row WHERE state IN ('ready', 'running'))
         + (SELECT count(*) FROM memforest.maintenance WHERE state IN ('ready', 'running') AND kind <> 'vacuum')
    """
)


@dataclass(frozen=True, slots=True)
class Request:
    """What a process is to do."""

    operation: str
    phase: str
    """"prepare": what the operation needs, once; "work": ask and work; "resume": take over from a killed process."""
    url: str
    """Of the copy's database, as the service's role."""
    broker: str
    directory: str
    """The copy's files: the index, and what the operation stores there."""
    answer: str
    """Where the answer is written."""
    kill_at: int | None = None


@dataclass(frozen=True, slots=True)
class ChildEnd:
    """What a process that came to its end has found."""

    events: list[str]
    state: State
    receipts: list[str]
    unclean: list[str]
    """Checks of ``memforest verify`` that failed, and what is no end: dead work, an operation that nobody ended."""


REQUEST = TypeAdapter(Request)
ANSWER = TypeAdapter(ChildEnd)


def copy_settings(request: Request) -> Settings:
    """Settings of a copy, where a worker is dead as soon as it is silent."""
    return settings_for(
        DatabaseSettings.model_validate({"url": request.url, "pool_size": 4}),
        request.broker,
        Path(request.directory) / "index",
        worker={"heartbeat_s": DEAD_AFTER_S / 4, "dead_after_s": DEAD_AFTER_S},
        refresh={"quiet_s": 0.0},
    )


class Child:
    """The services of this process over one copy, with a tape of what they send."""

    def __init__(self, settings: Settings, directory: Path, operation: Operation, kill_at: int | None) -> None:
        self._operation = operation
        self._directory = directory
        self.tape = Tape(kill_at)
        self.tenant = TenantId(settings.tenant)
        services = open_services(settings, embedder=HashedWords())
        services.index.prepare()
        services.index = recorded_index(services.index, self.tape)
        record_engine(services.engine, self.tape)
        # A vacuum changes no row, and would take most of the points: it stays waiting.
        handlers = {**services.lifecycle.handlers(), **operation.handlers(services)}
        del handlers[OperationKind.VACUUM]
        in_steps = settings.worker.model_copy(update={"task_budget_s": ONE_STEP_S})
        services.maintenance = open_maintenance(
            services.engine,
            services.index,
            services.producer.wakeups,
            settings.model_copy(update={"worker": in_steps}),
            handlers=handlers,
        )
        self.services = services
        self.runtime = Runtime(services, QUEUES, name="kill-points")
        services.jobs.register(self.runtime.worker, self.runtime.name, self.runtime.queues)

    def prepare(self) -> None:
        """What the operation finds when it begins."""
        if self._operation.prepare is not None:
            self._operation.prepare(self.services, self._directory)
            self._rest()
        if self._operation.requested_before:
            self._operation.act(self.services, self._directory)

    def take_over(self) -> None:
        """What a reconciler does about a worker that was killed."""
        time.sleep(DEAD_AFTER_S)
        self.services.reconciler.run()

    def work(self) -> None:
        """Ask, unless that was done before, and drive everything to rest."""
        with self.tape.recording():
            self._operation.act(self.services, self._directory)
            self._rest()

    def answer(self) -> ChildEnd:
        """What everything has come to."""
        engine = self.services.engine
        state = end_state(engine, self.services.index, self.tenant)
        state["seen"] = sorted(self._operation.seen(self.services, self._directory))
        unclean = [*self._violated(), *self._unended(state)]
        state["audit"] = sorted(set(state["audit"]))
        return ChildEnd(self.tape.events, state, receipts(engine, self.tenant), unclean)

    def _rest(self) -> None:
        for _ in range(ROUNDS):
            with self.tape.recording(False):
                self._hurry()
            if not self._round() and not self._undone():
                return
        raise AssertionError("the operation does not come to rest")

    def _round(self) -> int:
        runtime, tasks = self.runtime, self.services.maintenance.tasks
        done = runtime.extract() + runtime.reduce() + runtime.refresh()
        return done + tasks.run_one(self.tenant, runtime.worker) + runtime.index(self.tenant, ALL_KINDS)

    def _hurry(self) -> None:
        with tenant_transaction(self.services.engine, self.tenant) as connection:
            for statement in _HURRY:
                connection.exec_driver_sql(statement)

    def _undone(self) -> bool:
        with self.tape.recording(False), tenant_transaction(self.services.engine, self.tenant) as connection:
            return bool(connection.scalar(UNDONE))

    def _violated(self) -> list[str]:
        report = open_verification(self.services.engine, self.services.index, self.services.settings).run()
        return [
            f"verify: {result.check.value}: {result.violations} of {result.checked}, such as {result.examples[:2]}"
            for result in report.checks
            if result.violations or result.not_checked
        ] + [f"dead: {count} {what}" for what, count in report.dead.items() if count]

    def _unended(self, state: State) -> list[str]:
        """An operation that somebody requested has a row in the audit for that, and one for its end.

        One that goes on in the process that requests is requested again by the process that takes over.
        """
        if self._operation.kind is None:
            return []
        requested, done = (f'["{self._operation.kind}", "{outcome}", "{ACTOR}"]' for outcome in ("requested", "done"))
        count = state["audit"].count(done)
        return ([] if requested in state["audit"] else ["audit: nobody requested"]) + (
            [] if count == 1 else [f"audit: done {count} times"]
        )


def perform(line: str) -> None:
    """Do what a request, as JSON, requests, and write the answer if there is one."""
    request = REQUEST.validate_json(line)
    directory = Path(request.directory)
    child = Child(copy_settings(request), directory, OPERATIONS[request.operation], request.kill_at)
    if request.phase == "prepare":
        child.prepare()
    else:
        if request.phase == "resume":
            child.take_over()
        child.work()
        Path(request.answer).write_bytes(ANSWER.dump_json(child.answer()))
    child.services.close()
