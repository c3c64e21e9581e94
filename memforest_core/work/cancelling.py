"""What can still be cancelled, and how workers undo what is half built."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.domain.operations import OperationKind
from memforest_core.errors import InvalidInput
from memforest_core.work.records import CANCELLED, PHASE, Numbers, OperationTask
from memforest_core.work.runner import Handler
from memforest_core.work.states import WorkState

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
