"""What each process of a kill point does on one database: one requests and works, one serves the index, one reads the end.

A process records its events, and gets its signal at a chosen one.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch
from uuid import UUID, uuid4, uuid5

import sqlalchemy as sa
from pydantic import TypeAdapter

from memforest_core.cli.toolkit.logs import configure_logs
from memforest_core.client.api import MemForest
from memforest_core.client.services.service import Services, open_services
from memforest_core.domain.ids import TenantId
from memforest_core.domain.operation_rules import OperationKind
from memforest_core.errors import CallerError, NotFound, QuotaExceeded, RetryableError
from memforest_core.index.index_opening import open_maintenance
from memforest_core.index.vector_index import Point, PointKey, PointKind, VectorIndex
from memforest_core.ingest.extract.service import Extracted
from memforest_core.ingest.reduce.service import Reduced
from memforest_core.lifecycle.verify.service import open_verification
from memforest_core.settings import DatabaseSettings, Settings
from memforest_core.store.engine import tenant_transaction
from memforest_core.work.records import TaskId
from memforest_core.work.rows import operation_rows
from memforest_workers.runtime import Runtime
from tests.harness.end_state import State, end_state
from tests.harness.grown_forests import BOB, NEW_SESSION, ZOO
from tests.harness.hashed_words import HashedWords
from tests.harness.kill_operations import BEGUN, OPERATIONS, QUIET_S, REQUESTING, Writer
from tests.harness.qdrant_http import QdrantHttp
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
ONE_STEP_S = 0.000_001
"""A task's budget: it is handed back after each step, so that points lie between all of them."""
HEARTBEAT_S = 0.25
DEAD_AFTER_S = 1.0
"""A process is dead when it was silent for so long; one that is busy must not be."""
IDLE_S = 0.01
IDLE = "idle"
"""An event of a step that found nothing to do."""
ROUNDS = 2_000
"""Of a worker, until everything must be at rest: over half a minute. Time in which it was stopped does not count."""
DEADLINE_S = 300
"""After which a process that hangs, or was stopped and forgotten, is ended by SIGALRM."""
OPEN_S = 1.5
"""A transaction whose process does nothing for so long is ended by Postgres."""
LONGEST_S = 10.0
"""A transaction that lasts longer is ended by Postgres: after a pipeline it does not count how long one is idle."""
INDEX = "index"
INDEX_TIMEOUT_S = 60.0
"""A busy machine is no fault of the index: a request that is sent again meets its first self there."""
ENDS = ("done", "dead", "cancelled", "refused")
_SPACE = UUID("6b696c6c-0000-4000-8000-000000000000")

# What is due later is due now; locked rows are left alone, so that this waits for nobody.
_HURRY = tuple(
    f"UPDATE memforest.{table} SET {column} = now() WHERE ctid IN (SELECT ctid FROM memforest.{table}"
    f" WHERE {column} > now(){ready} FOR NO KEY UPDATE SKIP LOCKED)"
    for table, column, ready in (
        ("tree", "due_at", ""),
        ("forest", "reduce_available_at", ""),
        ("maintenance", "available_at", " AND state = 'ready'"),
        ("index_row", "available_at", " AND state = 'ready'"),
        ("cell", "available_at", " AND state = 'ready'"),
    )
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
class Part:
    """What one process is to do."""

    role: str
    """"index": serve it; "prepare": what operations need; "serial": ask, work to rest, the next; "concurrent": ask, and
    work concurrently with others; "accept": enqueue a session and leave it; "after": work to rest, then as "concurrent"; "write": add
    turns to a session during an operation; "end": say what it has come to."""
    url: str
    """Of the copy's database, as the service's role."""
    broker: str
    directory: str
    """The copy's files."""
    index: str = ""
    """The index server's address."""
    operations: list[str] = field(default_factory=list)
    askers: list[str] = field(default_factory=list)
    """The name that requests each operation."""
    answer: str = ""
    """Where the answer is written."""
    at: int | None = None
    """The event of this process, from 1, at which it is killed, or stopped."""
    stopped: bool = False
    """It is stopped there, and goes on when it is reported to."""
    stage: str = ""
    """Only events of this stage of the pipeline count; of all when empty."""
    session: tuple[str, str] = ("", "")
    """The session that a writer extends, and its owner."""
    seed: str = ""
    """Of the pauses of a writer."""


@dataclass(frozen=True, slots=True)
class Reported:
    """What a process has to tell."""

    events: dict[str, list[str]] = field(default_factory=dict)
    """By asker, or by stage."""
    refused: dict[str, str] = field(default_factory=dict)
    """By asker: the code of the refusal."""
    heard: dict[str, int] = field(default_factory=dict)
    """Faults that passed: how often each message reached this process."""
    state: State = field(default_factory=dict)
    requested: list[str] = field(default_factory=list)
    """Who requested, in order."""
    at_once: bool = False
    """Whether both requested one and the same task."""
    unclean: list[str] = field(default_factory=list)
    accepted: list[list[str]] = field(default_factory=list)
    """Ids of the turns that were accepted, in the order of their commits: of each thread, or of one transaction."""


PART = TypeAdapter(Part)
REPORTED = TypeAdapter(Reported)


def part_settings(part: Part) -> Settings:
    """Settings of a process that shares its index with others."""
    return settings_for(
        DatabaseSettings.model_validate({"url": part.url, "pool_size": 6}),
        part.broker,
        Path(part.directory) / "unused",
        index={"kind": "qdrant", "url": part.index, "timeout_s": INDEX_TIMEOUT_S},
        worker={"heartbeat_s": HEARTBEAT_S, "dead_after_s": DEAD_AFTER_S, "reconcile_s": 0.5, "poll_s": 0.25},
        refresh={"quiet_s": 0.0},
        accept={"quiet_s": QUIET_S},
    )


class Process:
    """The services of one process, its heartbeat, and a tape of what its main thread sends."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.tape = tape = Tape(part.at, signal.SIGSTOP if part.stopped else signal.SIGKILL)
        self.by_stage: dict[str, list[str]] = defaultdict(list)
        self._recorded = False
        self.heard: Counter[str] = Counter()
        settings = part_settings(part)
        self.directory = Path(part.directory)
        self.tenant = TenantId(settings.tenant)
        services = open_services(settings, embedder=HashedWords())
        services.index.prepare()
        services.index = recorded_index(services.index, tape)
        record_engine(services.engine, tape)
        sa.event.listen(services.engine, "before_cursor_execute", _end_open_transactions, retval=True)
        # A vacuum changes no row, and waits for the transaction that a stopped process has open: it stays waiting.
        handlers = services.lifecycle.handlers()
        for name in part.operations:
            if name in OPERATIONS:
                handlers |= OPERATIONS[name].handlers(services)
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
        self.runtime = Runtime(services, QUEUES, name=f"{part.role}-{uuid4().hex[:6]}")
        self.runtime.start()

    def ask(self, name: str, asker: str) -> str:
        """Ask for an operation as a careful caller: again while it has to wait. The code of a refusal, or nothing."""
        operation, refusal = OPERATIONS[name], ""
        REQUESTING.set(asker)
        for _ in range(ROUNDS):
            try:
                with _own_task_id(self.services, self.tenant, asker):
                    operation.act(self.services, self.directory)
            except (QuotaExceeded, RetryableError) as error:
                refusal = f"waited in vain: {error.code}"
                self.heard[error.message] += 1
                self._rested()
                time.sleep(IDLE_S)
            except CallerError as error:
                return error.code
            else:
                return ""
        return refusal

    def rest(self) -> None:
        """Work until nothing is left to do for anybody."""
        for _ in range(ROUNDS):
            if self._rested():
                return
            time.sleep(IDLE_S)
        raise AssertionError(f"it does not come to rest: {self.left()} rows are left, heard: {dict(self.heard)}")

    def _rested(self) -> bool:
        with self.tape.recording(False):
            self._hurry()
        moved = sum(self._attempt(stage, step) for stage, step in self.steps())
        return not moved and not self.left()

    def steps(self) -> tuple[tuple[str, Callable[[], int]], ...]:
        """One round of a worker, by stage."""
        services, tenant, worker = self.services, self.tenant, self.runtime.worker
        return (
            ("index", lambda: services.indexer.run_one(tenant, worker, (PointKind.CELL,))),
            ("extract", lambda: services.extraction.run_one(tenant, worker).ended is not Extracted.NOTHING),
            ("reduce", lambda: services.reduction.run_one(tenant).ended is Reduced.DONE),
            ("refresh", lambda: services.refresh.run_one(tenant, worker)),
            ("maintain", lambda: services.maintenance.tasks.run_one(tenant, worker)),
            ("index", lambda: services.indexer.run_one(tenant, worker, tuple(PointKind))),
        )

    def _attempt(self, stage: str, step: Callable[[], int]) -> int:
        """A step; a fault that passes is what a task that failed leaves to the next one."""
        begun, moved = len(self.tape.events), 0
        try:
            with self.tape.recording(self._recorded and self.part.stage in ("", stage)):
                moved = step()
        except RetryableError as error:
            self.heard[error.message] += 1
        events = self.tape.events[begun:]
        self.by_stage[stage] += events if moved else [IDLE] * len(events)
        return moved

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Events inside count, unless the part names another stage."""
        self._recorded = True
        with self.tape.recording(not self.part.stage):
            yield
        self._recorded = False

    def left(self) -> int:
        """How many rows are work to be done."""
        with self.tape.recording(False), tenant_transaction(self.services.engine, self.tenant) as connection:
            return int(connection.scalar(UNDONE) or 0)

    def _hurry(self) -> None:
        for statement in _HURRY:
            with tenant_transaction(self.services.engine, self.tenant) as connection:
                connection.exec_driver_sql(statement)

    def close(self) -> None:
        """End the heartbeat, and all connections."""
        self.runtime.stop()
        self.services.close()


def _end_open_transactions(_c: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> tuple[str, Any]:
    """Each transaction sets how long it may do nothing, and how long it may last: minutes are too long to wait for a
    process that is stopped."""
    for name, usual, here in (
        ("idle_in_transaction_session_timeout", 60_000, OPEN_S),
        ("transaction_timeout", 300_000, LONGEST_S),
    ):
        statement = statement.replace(f"'{name}', '{usual}'", f"'{name}', '{int(here * 1_000)}'")
    return statement, parameters


@contextmanager
def _own_task_id(services: Services, tenant: TenantId, asker: str) -> Iterator[None]:
    """The first task that is requested here has the same id in every run: a rebuilt forest's ids derive from it, and
    ids decide who comes first."""
    own = uuid5(_SPACE, asker)

    def made() -> UUID:
        with tenant_transaction(services.engine, tenant) as connection:
            taken = connection.scalar(sa.text("SELECT 1 FROM memforest.maintenance WHERE task_id = :id"), {"id": own})
        return uuid4() if taken else own

    with patch.object(operation_rows, "uuid4", made):
        yield


def _serve(part: Part) -> None:
    """Serve the index until SIGTERM, which leaves its files whole."""
    server = QdrantHttp(Path(part.directory) / INDEX)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    place = Path(part.answer)
    place.with_suffix(".part").write_text(server.url)
    place.with_suffix(".part").rename(place)
    server.serve_forever()
    server.server_close()


def _prepare(process: Process) -> Reported:
    """What operations find when they begin."""
    for name in dict.fromkeys(process.part.operations):
        prepare = OPERATIONS[name].prepare
        if prepare is not None:
            prepare(process.services, process.directory)
            process.rest()
    return Reported()


def _serial(process: Process) -> Reported:
    """One operation after the other, each worked to rest before the next one is requested."""
    refused, events = {}, {}
    for name, asker in zip(process.part.operations, process.part.askers, strict=True):
        begun = len(process.tape.events)
        with process.recording():
            if code := process.ask(name, asker):
                refused[asker] = code
            process.rest()
        events[asker] = process.tape.events[begun:]
    return replace(_read_end(process), refused=refused, events=events)


def _accept(process: Process) -> Reported:
    """A session that nobody has worked on yet."""
    MemForest(process.services).client.enqueue(BOB, NEW_SESSION, ZOO)
    return Reported()


def _write(process: Process) -> Reported:
    """Add turns while another process works on an operation."""
    part, services = process.part, process.services
    [kind], [asker] = part.operations, part.askers
    writer = Writer(services, part.session, asker, part.seed, Path(part.answer).with_suffix(BEGUN))
    return Reported(accepted=writer.write(kind), heard=dict(writer.heard))


def _after(process: Process) -> Reported:
    """Work to rest, then ask, and work to rest again."""
    process.rest()
    return _work(process)


def _work(process: Process) -> Reported:
    """Ask and work while others do."""
    refused = {}
    with process.recording():
        for name, asker in zip(process.part.operations, process.part.askers, strict=True):
            if code := process.ask(name, asker):
                refused[asker] = code
        process.rest()
    return Reported(dict(process.by_stage), refused, dict(process.heard))


def _read_end(process: Process) -> Reported:
    """What it has come to: rows, points, files, whether ``verify`` and receipts are clean, who requested in which order."""
    services, tenant = process.services, process.tenant
    state = end_state(services.engine, services.index, tenant)
    # Who requested what is compared by itself: an operation may be refused in one run and find nothing in another.
    del state["audit"], state["task"]
    for name in dict.fromkeys(process.part.operations):
        state[f"seen by {name}"] = sorted(OPERATIONS[name].seen(services, process.directory))
    entries = [entry for entry in reversed(services.operations.audit(tenant)) if entry.actor in process.part.askers]
    requested = [entry for entry in entries if entry.outcome == "requested"]
    report = open_verification(services.engine, services.index, services.settings).run()
    unclean = [
        f"verify: {result.check.value}: {result.violations} of {result.checked}, such as {result.examples[:2]}"
        for result in report.checks
        if result.violations or result.not_checked
    ] + [f"dead: {count} {what}" for what, count in report.dead.items() if count]
    unclean += services.audit_log.verify(tenant).findings
    for task, kind in dict.fromkeys((entry.task_id, entry.action) for entry in requested):
        ends = [entry.outcome for entry in entries if entry.task_id == task and entry.outcome in ENDS]
        if kind in (OperationKind.EXPORT, OperationKind.IMPORT) and ends in (["cancelled"], ["refused"]):
            # Its process was killed and its forest is gone, or the process heard why not: as if nobody had requested.
            requested = [entry for entry in requested if entry.task_id != task]
        elif ends != ["done"]:
            last = services.operations.get(tenant, task) if task is not None else None
            why = "" if last is None or last.error_code is None else f" [{last.error_code}] {last.error_text}"
            unclean.append(f"audit: {kind} ended {ends or 'never'}{why}")
        if kind == OperationKind.ERASE and task is not None:
            unclean += _receipt(services, tenant, task)
    askers = list(dict.fromkeys(entry.actor for entry in requested))
    at_once = len(askers) > len({entry.task_id for entry in requested})
    return Reported(state=state, requested=askers, at_once=at_once, unclean=unclean)


def _receipt(services: Services, tenant: TenantId, task: TaskId) -> list[str]:
    try:
        receipt = services.lifecycle.erasure.receipt(tenant, task)
    except NotFound as error:
        return [f"receipt: {error.message}"]
    return [] if receipt.clean else [f"receipt: {dict(receipt.left)}, finished {receipt.finished_at}"]


_ROLES: dict[str, Callable[[Process], Reported]] = {
    "prepare": _prepare,
    "accept": _accept,
    "serial": _serial,
    "concurrent": _work,
    "after": _after,
    "write": _write,
    "end": _read_end,
}


def perform(line: str) -> None:
    """Do what a part, as JSON, requests, and write what there is to tell."""
    signal.alarm(DEADLINE_S)
    part = PART.validate_json(line)
    configure_logs(logging.ERROR)
    if part.role == "index":
        _serve(part)
        return
    process = Process(part)
    done = _ROLES[part.role](process)
    Path(part.answer).write_bytes(REPORTED.dump_json(done))
    process.close()
