"""Records of exports and imports: rows that the process with the file works on, and nobody claims."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from memforest_core.domain.beside import Role
from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.store import tables as m
from memforest_core.store.owners import forest_id
from memforest_core.work.records import AuditEntry, MaintenanceKind, MaintenanceTask, Neighbour, Numbers, TaskId
from memforest_core.work.rows.operations import OperationRows

RUN = "run"
"""In a record's progress: which process may change it; whoever takes over counts on."""

_FINISHED = sa.text(
    """
    SELECT k.task_id FROM memforest.maintenance k
      JOIN memforest.forest f ON f.tenant_id = :t AND f.forest_id = k.forest_id AND f.state IN ('live', 'frozen')
     WHERE k.tenant_id = :t AND k.kind = 'import' AND k.subject = :subject AND k.state = 'done'
     ORDER BY k.finished_at DESC LIMIT 1
    """
)

_TAKE = sa.text(
    """
    UPDATE memforest.maintenance
       SET progress = progress || jsonb_build_object('run', coalesce((progress ->> 'run')::int, 0) + 1)
     WHERE tenant_id = :t AND task_id = :id AND state = 'held'
    RETURNING task_id
    """
)

_KEEP = sa.text(
    """
    UPDATE memforest.maintenance SET progress = :progress
     WHERE tenant_id = :t AND task_id = :id AND state = 'held' AND (progress ->> 'run')::int = :run
    """
).bindparams(sa.bindparam("progress", type_=m.Maintenance.progress.type))

# The states of all work change by the edges of one table: a held row comes to its end by way of those between.
_END = [
    sa.text(statement)
    for statement in (
        "UPDATE memforest.maintenance SET state = 'ready' WHERE tenant_id = :t AND task_id = :id",
        "UPDATE memforest.maintenance SET state = 'running' WHERE tenant_id = :t AND task_id = :id",
        """UPDATE memforest.maintenance SET state = :state, error_code = :code, error_text = :text,
                  finished_at = clock_timestamp() WHERE tenant_id = :t AND task_id = :id""",
    )
]


class BundleTasks:
    """Records of exports and imports, in one transaction of a tenant.

    They are worked on by the process that has the file, so they are held: workers never claim them. Whoever takes one
    over gets a higher run, and the one before can change nothing any more.
    """

    def __init__(self, connection: sa.Connection, tenant: TenantId) -> None:
        self._db = connection
        self._tenant = tenant
        self._tasks = OperationRows(connection, tenant)

    def forest(self, owner: str) -> ForestId | None:
        """The owner's forest."""
        return forest_id(self._db, self._tenant, owner)

    def hold(
        self, kind: MaintenanceKind, subject: str, arguments: Numbers, forest: ForestId | None, actor: str
    ) -> TaskId:
        """A record for this kind and subject: the unfinished one, or a new one. Raises ForestChanged."""
        touches = {forest: Role(kind.value)} if forest is not None else {}
        return self._tasks.enqueue(kind, subject, arguments, forest=forest, actor=actor, touches=touches, held=True)

    def neighbours(self, task: TaskId) -> Sequence[Neighbour]:
        """The earlier operations that a record does not run beside."""
        return self._tasks.neighbours(task)

    def finished_import(self, subject: str) -> MaintenanceTask | None:
        """The import of this subject that was finished, if its forest is still its owner's."""
        found = self._db.scalar(_FINISHED, {"t": self._tenant, "subject": subject})
        return self.get(TaskId(found)) if found is not None else None

    def take(self, task: TaskId) -> MaintenanceTask | None:
        """Begin a new run; None when it has ended."""
        taken = self._db.scalar(_TAKE, {"t": self._tenant, "id": task})
        return self.get(TaskId(taken)) if taken is not None else None

    def keep(self, task: TaskId, progress: Numbers) -> bool:
        """Store progress, if its run is the newest; False when another process has taken over."""
        values = {"t": self._tenant, "id": task, "progress": dict(progress), "run": progress[RUN]}
        return self._db.execute(_KEEP, values).rowcount == 1

    def end(self, task: TaskId, progress: Numbers, error: tuple[str, str] | None = None) -> bool:
        """The record is done, or given up with a code and a sentence; False as in ``keep``."""
        if not self.keep(task, progress):
            return False
        code, text = error or (None, None)
        values = {"t": self._tenant, "id": task, "state": "dead" if error else "done", "code": code, "text": text}
        for statement in _END:
            self._db.execute(statement, {name: values[name] for name in statement.compile().params})
        return True

    def get(self, task: TaskId) -> MaintenanceTask | None:
        """One record."""
        return self._tasks.get(task)

    def note(self, entry: AuditEntry) -> None:
        """Add a row to the audit."""
        self._tasks.note(entry)
