"""Operations with their receipts, and the audit."""

from __future__ import annotations

from memforest_core.domain.operations import OperationKind
from memforest_core.domain.pages import checked_id
from memforest_core.errors import NotFound
from memforest_core.service.explorer.rows import ExplorerRows
from memforest_core.service.explorer.visits import Moved, Outcome, Shown, Visit, href
from memforest_core.work.records import OperationTask, TaskId

NEWEST = 100


def operations(visit: Visit) -> Outcome:
    """The newest operations."""
    visit.check("lifecycle.operations")
    return Shown("operations.html", {"operations": visit.memory.lifecycle.operations(NEWEST)})


def operation(visit: Visit) -> Outcome:
    """One operation: how far it is, and the receipt of a deletion that is done."""
    owner = visit.parameter("owner")
    task = _task(visit, visit.needed("id"), owner)
    lifecycle = visit.memory.lifecycle
    erased = task.kind == OperationKind.ERASE and task.finished
    return Shown(
        "operation.html",
        {
            "task": task,
            "owner": owner,
            "receipt": lifecycle.receipt(task.id) if erased else None,
            "may_cancel": not task.finished and visit.may("lifecycle.cancel"),
        },
    )


def cancel(visit: Visit) -> Outcome:
    """Take an operation back."""
    visit.check("lifecycle.cancel")
    task = TaskId(checked_id(visit.sent("id"), "id"))
    visit.memory.lifecycle.cancel(task, actor=visit.actor)
    return Moved(href("/operation", id=task))


def audit(visit: Visit) -> Outcome:
    """The audit: callers and what they started."""
    owner, action = visit.parameter("owner"), visit.parameter("action")
    visit.check("lifecycle.audit", owner=owner)
    entries = visit.memory.lifecycle.audit(owner, action=action, limit=NEWEST)
    actions = sorted(OperationKind)
    return Shown("audit.html", {"entries": entries, "owner": owner, "action": action, "actions": actions})


def _task(visit: Visit, id_: str, owner: str | None) -> OperationTask:
    """An operation that this key may see: of a key that is bound to owners, on the memory of one of them."""
    task = visit.memory.lifecycle.operation(TaskId(checked_id(id_, "id")))
    if visit.caller.owners is not None:
        visit.check("sessions", owner=owner)
        with ExplorerRows.opened(visit.memory.services.engine, visit.caller.tenant) as rows:
            forest = None if owner is None else rows.find_forest(owner)
        if forest is None or forest.id != task.forest_id:
            raise NotFound("This owner has no such operation.")
    return task
