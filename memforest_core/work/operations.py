"""Requests for operations, following them, cancelling them, and reading the audit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TypedDict, Unpack
from zoneinfo import ZoneInfo

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.domain.operation_rules import OPERATIONS, Answer, OperationKind, Role
from memforest_core.domain.pages import MOST_LISTED, checked_limit
from memforest_core.domain.turns import checked_actor, checked_name, parse_timestamp
from memforest_core.errors import ForestFrozen, InvalidInput, NotFound
from memforest_core.store.owners import known
from memforest_core.store.repeating import repeated
from memforest_core.work.jobs import Lane, WorkError, WorkState
from memforest_core.work.messages import Queue, WakeUps
from memforest_core.work.records import CANCELLED, DRY_RUN, PHASE, AuditEntry, Neighbour, Numbers, OperationTask, TaskId
from memforest_core.work.rows.operation_rows import OpenTasks, OperationRows
from memforest_core.work.runner import Handler
from memforest_core.work.waiting import DEFAULT_TIMEOUT_S, OperationFailed, Steps, WaitTimeout, polled, timely

Clear = Callable[[TenantId, ForestId], bool]
"""Delete a bounded batch of a forest that has no owner any more; True when nothing is left."""


def check_cancellable(task: OperationTask, states: Mapping[ForestId, str]) -> None:
    """Whether a task can be taken back; ``states`` are those of its forests. Raises InvalidInput with the reason."""
    why = _too_late(task, states)
    if why is not None:
        raise InvalidInput(f"Operation {task.id} ({task.kind}) can't be cancelled any more: {why}", code="too_late")


def _too_late(task: OperationTask, states: Mapping[ForestId, str]) -> str | None:
    begun = bool(task.progress) or task.state == WorkState.RUNNING
    if task.state == WorkState.DONE:
        return "it is done."
    if task.dry_run:
        return None
    match task.kind:
        case OperationKind.CORRECT:
            return "it was written when it was requested. Correct the fact again."
        case OperationKind.ERASE if begun or "gone" in states.values():
            return "what it deletes can't be brought back."
        case OperationKind.RETAIN if begun:
            return "what it forgets can't be brought back."
        case OperationKind.MERGE:
            return merge_moved(task, states)
        case OperationKind.REMATERIALIZE if task.progress.get(PHASE) in ("switched", "attributed", "overtaken"):
            return "the new forest is live."
        case _:
            return None


def merge_moved(task: OperationTask, states: Mapping[ForestId, str]) -> str | None:
    """Why a merge can't be cancelled any more, None if it can: something of it is in a visible memory."""
    if task.forest_id is not None and states.get(task.forest_id) == "hidden":
        return None
    moved = int(task.progress.get("next", 0))
    match task.progress.get(PHASE):
        case None:
            return None
        case "merge" if moved == 0:
            return None
        case "merge":
            return (
                f"{moved} of {task.progress.get('sources')} sources are in the target already. It has to be finished."
            )
        case _:
            return "the sources are in the target already."


def undone(progress: Numbers) -> Numbers | None:
    """The last two steps of a task that is undone."""
    return None if progress.get(PHASE) == CANCELLED else dict(progress) | {PHASE: CANCELLED}


def undo_nothing(_tenant: TenantId, _task: OperationTask, progress: Numbers) -> Numbers | None:
    """Undo a task that has not begun, or that leaves nothing to clear."""
    return undone(progress)


def undo_import(clear: Clear) -> Handler:
    """The steps that clear the hidden forest of an import that was cancelled."""

    def step(tenant: TenantId, task: OperationTask, progress: Numbers) -> Numbers | None:
        if progress.get(PHASE) == CANCELLED or task.forest_id is None or clear(tenant, task.forest_id):
            return undone(progress)
        return progress

    return step


def needs_its_file(_tenant: TenantId, task: OperationTask, _progress: Numbers) -> Numbers | None:
    """Refuse a step that only the process with the file can take. Raises InvalidInput."""
    raise InvalidInput(
        f"Run memforest {task.kind} again with the same file to go on, or cancel operation {task.id}.",
        code="needs_its_file",
    )


POLL_S = 0.1


class RequestOptions(TypedDict, total=False):
    """Options of ``request``."""

    owner: str | None
    dry_run: bool
    lane: Lane
    touches: Mapping[ForestId, Role] | None
    part_of: TaskId | None


class Operations:
    """Requests operations of a tenant and follows them. Thread-safe."""

    def __init__(self, open_tasks: OpenTasks, wakeups: WakeUps) -> None:
        self._open_tasks = open_tasks
        self._wakeups = wakeups

    @repeated
    def find_forest(self, tenant: TenantId, owner: str) -> ForestId:
        """The owner's forest. Raises InvalidInput, NotFound, StoreUnavailable."""
        owner = checked_name(owner, "owner")
        with self._open_tasks(tenant) as rows:
            return known(rows.find_forest(owner), owner)

    @repeated
    def ask(
        self,
        tenant: TenantId,
        kind: OperationKind,
        forest: ForestId | None,
        arguments: Numbers,
        *,
        actor: str,
        **options: Unpack[RequestOptions],
    ) -> TaskId:
        """Request an operation in a transaction of its own, and wake workers; see ``request``.

        Raises InvalidInput for an actor without a name, ForestFrozen, ForestChanged, StoreUnavailable.
        """
        with self._open_tasks(tenant) as rows:
            task = request(rows, kind, forest, arguments, actor=actor, **options)
        self.wake(tenant, task)
        return task

    def wake(self, tenant: TenantId, task: TaskId) -> None:
        """Wake workers for an operation that was requested."""
        self._wakeups.send(Queue.MAINTAIN, tenant, str(task))

    @repeated
    def get(self, tenant: TenantId, operation: TaskId) -> OperationTask:
        """An operation as it is."""
        with self._open_tasks(tenant) as rows:
            found = rows.get(operation)
        if found is None:
            raise NotFound(f"There is no operation {operation}.")
        return found

    def cancel(self, tenant: TenantId, task: TaskId, actor: str) -> OperationKind:
        """Have workers undo an operation: they clear what is half built and release its forests. Returns its kind.

        Cancelling again is the same. Raises InvalidInput for what is done or can't be taken back any more, NotFound,
        StoreUnavailable.
        """
        actor = checked_actor(actor)
        with self._open_tasks(tenant) as rows:
            found = rows.locked(task)
            if found is None or found.kind not in OPERATIONS:
                raise NotFound(f"There is no operation {task}.")
            if not (found.cancelled or found.cancelled_by):
                check_cancellable(found, rows.states(task))
                rows.cancel(task, actor)
                rows.note(AuditEntry(actor, found.kind, "cancel requested", found.forest_id, task_id=task))
        self.wake(tenant, task)
        return OperationKind(found.kind)

    @repeated
    def list(self, tenant: TenantId, limit: int = 100) -> Sequence[OperationTask]:
        """The newest operations, at most ``limit``."""
        with self._open_tasks(tenant) as rows:
            return rows.list(OPERATIONS, checked_limit(limit, MOST_LISTED))

    def wait_steps(
        self,
        tenant: TenantId,
        operation: TaskId,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        watch: Callable[[OperationTask], None] = lambda _: None,
    ) -> Steps[OperationTask]:
        """Wait, at most ``timeout_s`` seconds, until an operation is done; ``watch`` is given it at each look.

        Raises OperationFailed, WaitTimeout.
        """
        found = yield from self._ended(tenant, operation, timeout_s, watch)
        if found.state == WorkState.DEAD:
            raise OperationFailed(
                f"Operation {operation} ({found.kind}) was given up: {found.error_text} [{found.error_code}]."
                " See memforest dead show."
            )
        if not found.fulfilled:
            what = "cancelled" if found.cancelled else "given up and discarded"
            raise OperationFailed(f"Operation {operation} ({found.kind}) was {what}.")
        return found

    def ended_steps(
        self, tenant: TenantId, operation: TaskId, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> Steps[OperationTask]:
        """Wait, at most ``timeout_s`` seconds, until an operation is done, was given up or cancelled.

        Raises WaitTimeout.
        """
        return self._ended(tenant, operation, timeout_s, lambda _: None)

    def _ended(
        self, tenant: TenantId, task: TaskId, timeout_s: float, watch: Callable[[OperationTask], None]
    ) -> Steps[OperationTask]:
        found = timely(lambda: self.get(tenant, task), timeout_s)

        def poll() -> OperationTask | None:
            nonlocal found
            found = self.get(tenant, task)
            watch(found)
            return found if found.finished else None

        ended = yield from polled(poll, timeout_s, POLL_S, nudge=lambda: self.wake(tenant, task))
        if ended is not None:
            return ended
        error = None if found.error_code is None else WorkError(found.error_code, found.error_text or "")
        why = f", waiting for operation {found.waits_for}" if found.waits_for is not None else ""
        last = "" if error is None else f" Its last try failed [{error.code}]. {error.message}"
        raise WaitTimeout(
            f"Operation {task} ({found.kind}) is still {found.state}{why}: it goes on; see later.{last}",
            last_error=error,
        )

    @repeated
    def audit(
        self,
        tenant: TenantId,
        owner: str | None = None,
        *,
        action: str | None = None,
        operation: TaskId | None = None,
        since: object | None = None,
        limit: int = 1_000,
    ) -> Sequence[AuditEntry]:
        """Which caller started what, when, and how it ended, the newest first; of an ``owner`` also after its deletion.

        ``action`` is a kind of operation, ``operation`` one operation's id, ``since`` the earliest time; ``limit`` the
        most entries.
        """
        earliest = None if since is None else parse_timestamp(since, ZoneInfo("UTC"), "since")
        owner = None if owner is None else checked_name(owner, "owner")
        with self._open_tasks(tenant) as rows:
            return rows.audited(owner, action, operation, earliest, checked_limit(limit, MOST_LISTED))


def request(
    rows: OperationRows,
    kind: OperationKind,
    forest: ForestId | None,
    arguments: Numbers,
    *,
    actor: str,
    owner: str | None = None,
    dry_run: bool = False,
    lane: Lane = Lane.LIVE,
    touches: Mapping[ForestId, Role] | None = None,
    part_of: TaskId | None = None,
) -> TaskId:
    """Request an operation within a transaction, and note in the audit who requested it. The same request again, while
    it waits or runs, is the same task.

    ``arguments`` are ids, counts and moments in microseconds, never text. ``touches`` is what it does to which forests,
    by default to its one; a dry run touches none. Raises InvalidInput for an actor without a name, ForestChanged, and
    what ``refuse`` raises for a neighbour.
    """
    actor = checked_actor(actor)
    given = dict(arguments) | ({DRY_RUN: 1} if dry_run else {})
    if given.get(DRY_RUN):
        touches = {}
    elif touches is None:
        touches = {forest: Role(kind.value)} if forest is not None else {}
    task = rows.enqueue(
        kind, subject_of(forest, given), given, int(lane), forest=forest, actor=actor, touches=touches, part_of=part_of
    )
    refuse(rows.neighbours(task))
    rows.note(AuditEntry(actor, kind, "requested", forest, owner, task, given))
    return task


def refuse(neighbours: Sequence[Neighbour]) -> None:
    """Refuse an operation that can't run after its earlier neighbours, with a sentence about the first of those.

    Raises ForestFrozen for a source of a merge and for an export during a deletion; InvalidInput for a forest that is
    being rebuilt, and for one with an operation that was given up.
    """
    for each in neighbours:
        refused, dead, frozen = each.answer is Answer.REFUSED, each.state == WorkState.DEAD, ""
        if refused and each.role is Role.REMATERIALIZE:
            raise InvalidInput(
                f"This memory is being re-materialized by operation {each.id}: wait until it is done, or cancel it.",
                code="already_rematerializing",
            )
        if refused and not dead and each.role is Role.ERASE:
            frozen = f"Deletion {each.id} of this memory is under way: ask again when it is done."
        elif refused and not dead:
            frozen = f"This memory is part of merge {each.id}: ask again when that is done."
        elif refused and each.kind == OperationKind.MERGE:
            frozen = (
                f"Merge {each.id} of this memory was given up half-way: try it again (memforest dead) or cancel it."
            )
        if frozen:
            raise ForestFrozen(frozen)
        if dead:
            raise InvalidInput(
                f"Operation {each.id} ({each.kind}) on this memory was given up: try it again or discard it first, see"
                " memforest dead.",
                code="operation_given_up",
            )


def subject_of(forest: ForestId | None, arguments: Numbers) -> str:
    """What makes two requests the same: the forest and a digest of the arguments."""
    digest = hashlib.sha256(json.dumps(dict(arguments), sort_keys=True).encode()).hexdigest()[:32]
    return f"{forest or ''}:{digest}"
