"""Operations, the audit and dead letters as values: ids and numbers, never conversation text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NewType
from uuid import UUID

from memforest_core.domain.ids import ForestId
from memforest_core.domain.operation_rules import Answer, Role
from memforest_core.work.jobs import WorkState

TaskId = NewType("TaskId", UUID)

DRY_RUN = "dry_run"
PHASE = "phase"
CANCELLED = "cancelled"
"""The phase and the error code of a task that was cancelled, and the outcome in the audit."""

Numbers = Mapping[str, str | int]
"""Ids, counts and phases under their names: a task's arguments or its progress, as JSON has them."""


def with_counts(progress: Numbers, counts: Mapping[str, int]) -> dict[str, str | int]:
    """The progress with these counts added to those that it has."""
    return dict(progress) | {name: int(progress.get(name, 0)) + count for name, count in counts.items()}


@dataclass(frozen=True, slots=True)
class OperationTask:
    """One task: what it is about (``subject`` and ``arguments``) and how far it has come (``progress``)."""

    id: TaskId
    kind: str
    subject: str
    arguments: Numbers
    progress: Numbers
    state: WorkState
    attempts: int
    lost_leases: int
    created_at: datetime
    finished_at: datetime | None
    error_code: str | None
    error_text: str | None
    forest_id: ForestId | None = None
    actor: str = ""
    """Who requested it; empty for what the service does by itself."""
    cancelled_by: str | None = None
    """Who cancelled it: workers undo it instead of carrying it on."""
    waits_for: TaskId | None = None
    """The task that has to end before this one goes on."""

    @property
    def dry_run(self) -> bool:
        """Whether it only says what it would do."""
        return bool(self.arguments.get(DRY_RUN))

    @property
    def finished(self) -> bool:
        """Whether nothing will happen to it anymore."""
        return self.state in (WorkState.DONE, WorkState.DEAD)

    @property
    def cancelled(self) -> bool:
        """Whether it was cancelled in time: it ended undone."""
        return self.state == WorkState.DONE and self.progress.get(PHASE) == CANCELLED

    @property
    def fulfilled(self) -> bool:
        """Whether it was done: not cancelled, and not given up and discarded."""
        return self.state == WorkState.DONE and self.error_code is None


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A task that was requested earlier, is not done, and touches a forest of another one; ``answer`` is for that."""

    id: TaskId
    kind: str
    state: WorkState
    role: Role
    answer: Answer


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One row of the audit: who requested what, on which rows, and how it ended. Ids and counts only."""

    actor: str
    action: str
    outcome: str
    """"requested", "done", "dead", or what a single step did."""
    forest_id: ForestId | None = None
    owner: str | None = None
    """Stored as a hash; never read back."""
    task_id: TaskId | None = None
    detail: Numbers = field(default_factory=dict)
    at: datetime | None = None
    """When it was written, on the database's clock; set when it is read."""


class DeadKind(StrEnum):
    """What kinds of work can be given up."""

    CELL = "cell"
    NODE = "node"
    TASK = "task"
    """A maintenance task."""


@dataclass(frozen=True, slots=True)
class DeadRef:
    """One unit of dead work."""

    kind: DeadKind
    id: UUID


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A unit of work that was given up, and why; never conversation text."""

    kind: DeadKind
    id: UUID
    step: str
    """extract, reduce or refresh; of a maintenance task its kind."""
    owner: str | None
    session: str | None
    """The caller's session id, for cells and for nodes of a session's tree."""
    code: str
    text: str
    attempts: int
    lost_leases: int
    since: datetime | None
    """When it was last ready to be worked on, as far as its row says."""


@dataclass(frozen=True, slots=True)
class DeadDetail:
    """Everything about one: where it is (``about``: ids and numbers), and its texts if they were requested.

    The texts of a cell are what was said in it, those of a node are its children's, as their summary would read them.
    """

    letter: DeadLetter
    about: Mapping[str, str | int]
    texts: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Acted:
    """What a decision changed, and how much work of each queue came of it."""

    changed: tuple[DeadRef, ...] = ()
    windows: int = 0
    """To extract."""
    forests: int = 0
    """With cells to reduce."""
    trees: int = 0
    """To refresh."""
    tasks: int = 0
    """Of maintenance."""
