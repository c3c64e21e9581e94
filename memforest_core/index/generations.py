"""The generation that the index and the database both keep: when they differ, one was restored or lost, and tasks
compare the two."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from enum import StrEnum
from uuid import UUID, uuid4, uuid5

import structlog

from memforest_core.domain.forks import renewed_in_child
from memforest_core.domain.ids import TenantId
from memforest_core.domain.operation_rules import OperationKind
from memforest_core.errors import IndexUnavailable
from memforest_core.index.collection_rows import CollectionStore, Confirm
from memforest_core.index.records import StoredGeneration
from memforest_core.index.rows import OpenIndexRows
from memforest_core.index.vector_index import VectorIndex
from memforest_core.work.messages import Queue, WakeUps
from memforest_core.work.records import TaskId
from memforest_core.work.rows.operation_rows import OpenTasks

log = structlog.get_logger(__name__)

CHECK_S = 4.0
"""A process compares at most this often; a round of the reconciler is longer by default."""
FOUND = "found"
"""Argument of a parity task: which finding it follows."""
WHOLE = "whole"
"""Argument of the one task that also compares points of tenants that the database does not know."""

_SPACE = UUID("2b1f6c7e-8d0a-5c55-9a8e-6d61726b7321")


class GenerationState(StrEnum):
    """What a check found."""

    SKIPPED = "skipped"
    """It was checked a moment ago, another process checks it, or there is no collection yet."""
    UNAVAILABLE = "unavailable"
    """The index is unavailable; nothing is indexed either until it answers."""
    SAME = "same"
    RENEWED = "renewed"
    UNMARKED = "unmarked"
    """The database knows of no generation: the first start of this version."""
    INDEX_CHANGED = "index_changed"
    """The index has no generation or another one: it was lost, or one of the two was restored to an earlier point. It
    may hold less than the rows."""
    STORE_RESTARTED = "store_restarted"
    """Postgres is another start, or another database, than when the generation was confirmed, which the index has.
    Restoring always does that."""


@dataclass(frozen=True, slots=True)
class Generation:
    """The generation in the index, the one before it, and when it began (seconds since 1970, by the database)."""

    generation: UUID
    previous: UUID | None
    at: float

    def text(self) -> str:
        """The form in which the index stores it."""
        return f"{self.generation} {self.previous or '-'} {self.at:.3f}"


def parse_generation(text: str | None) -> Generation | None:
    """The generation of ``Generation.text``; None for any other text."""
    try:
        generation, previous, at = (text or "").split()
        return Generation(UUID(generation), None if previous == "-" else UUID(previous), float(at))
    except ValueError:
        return None


def judge(stored: StoredGeneration, seen: Generation | None, mark_s: float) -> GenerationState:
    """What the generations say about the two stores; after ``mark_s`` seconds a new generation begins.

    A generation is written to the index first, together with the one before it. So an index that is one ahead of a
    database that did not restart was left by a process that died between the two writes.
    """
    if stored.generation is None:
        return GenerationState.UNMARKED
    if seen is None or stored.generation not in (seen.generation, seen.previous):
        # Also when Postgres restarted, as with a node: recall must not trust an index without some points.
        return GenerationState.INDEX_CHANGED
    if stored.confirmed_store != stored.store:
        return GenerationState.STORE_RESTARTED
    return GenerationState.RENEWED if stored.now - seen.at >= mark_s else GenerationState.SAME


@renewed_in_child
@dataclass(slots=True, weakref_slot=True)
class Generations:
    """Compares the generations of both stores and begins new ones. Thread-safe."""

    collections: CollectionStore
    open_rows: OpenIndexRows
    tasks: OpenTasks
    index: VectorIndex
    mark_s: float
    """Seconds after which a new generation begins."""
    wakeups: WakeUps
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _next: float = float("-inf")

    def check(self, *, now: bool = False) -> GenerationState:
        """Compare the generations, unless that was done a moment ago and ``now`` is False. Cheap when they are equal.

        When they differ, or Postgres restarted, each tenant with something to compare gets one parity task, and only
        then a new generation begins: if the process dies in between, the next check requests the same tasks.

        Raises StoreUnavailable, InvalidSettings for a collection of another dimension.
        """
        with self._lock:
            if not now and time.monotonic() < self._next:
                return GenerationState.SKIPPED
            self._next = time.monotonic() + CHECK_S
        requested: list[tuple[TenantId, TaskId]] = []
        with self.collections.comparing() as confirm:
            stored = self.collections.live() if confirm is not None else None
            if confirm is None or stored is None:
                return GenerationState.SKIPPED
            try:
                found = self._compare(confirm, stored, requested)
            except IndexUnavailable as error:
                log.warning("marks_not_compared", code=error.code)
                found = GenerationState.UNAVAILABLE
        for tenant, task in requested[:1]:
            # One wake-up is enough: a worker goes on while any tenant has a task, and wakes others.
            self.wakeups.send(Queue.MAINTAIN, tenant, str(task))
        return found

    def _compare(
        self, confirm: Confirm, stored: StoredGeneration, requested: list[tuple[TenantId, TaskId]]
    ) -> GenerationState:
        """What the generations say; the requested tasks are added to ``requested``."""
        self.index.prepare()
        seen = parse_generation(self.index.read_mark())
        found = judge(stored, seen, self.mark_s)
        match found:
            case GenerationState.SAME if seen is not None:
                if seen.generation != stored.generation:
                    confirm(seen.generation, stored.store)
            case GenerationState.RENEWED:
                self._begin(confirm, stored, uuid4())
            case _:
                # Derived from the finding, so that a check that died half way is finished instead of repeated.
                generation = uuid5(_SPACE, f"{stored.generation} {stored.confirmed_store} {stored.store}")
                if seen is not None and seen.generation == generation:
                    confirm(generation, stored.store)
                elif not self._diverged(found, generation, requested):
                    return GenerationState.SKIPPED
                else:
                    self._begin(confirm, stored, generation)
        return found

    def _begin(self, confirm: Confirm, stored: StoredGeneration, generation: UUID) -> None:
        self.index.write_mark(Generation(generation, stored.generation, stored.now).text())
        confirm(generation, stored.store)

    def _diverged(self, found: GenerationState, generation: UUID, requested: list[tuple[TenantId, TaskId]]) -> bool:
        """Request tasks that compare the stores; False when there are points but no tenant to own a task."""
        points = bool(self.index.scan(None, 1).points)
        tenants = self.collections.tenants()
        for tenant in tenants:
            with self.open_rows(tenant) as rows:
                needed = points or rows.any_indexed()
            if needed:
                with self.tasks(tenant) as tasks:
                    arguments = {FOUND: found.value} | ({WHOLE: 1} if not requested else {})
                    requested.append((tenant, tasks.enqueue(OperationKind.PARITY, str(generation), arguments)))
        if requested:
            # A comparison follows every restart of Postgres: that is normal.
            tell = log.info if found is GenerationState.STORE_RESTARTED else log.warning
            tell("index_compared", code=found.value, tenants=len(requested))
        return bool(tenants) or not points
