"""Task rows of exports and imports: the process that has the file works on them, workers never claim them."""

from __future__ import annotations

import sqlalchemy as sa

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.domain.operations import OperationKind, Role
from memforest_core.store import tables as m
from memforest_core.store.owners import ForestRows, visible
from memforest_core.work.records import CANCELLED, PHASE, Numbers, OperationTask, TaskId
from memforest_core.work.rows.operations import OperationRows

RUN = "run"
"""In a record's progress: which run may change it; a process that takes over raises it by 1."""

REFUSED = "refused"
"""The outcome in the audit of a record that ended with an error: its process heard it, and nothing is left to do."""

_TAKE = sa.text("""
    UPDATE memforest.maintenance
       SET progress = progress || jsonb_build_object('run', coalesce((progress ->> 'run')::int, 0) + 1)
     WHERE tenant_id = :t AND task_id = :id AND state = 'held'
    """)


class BundleTasks(ForestRows):
    """Records of exports and imports, in one transaction of a tenant.

    The process that has the file works on them, so they are held: workers never claim them. A process that takes one
    over gets a higher run; the process before can no longer change it.
    """

    def __init__(self, connection: sa.Connection, tenant: TenantId) -> None:
        super().__init__(connection, tenant)
        self.tasks = OperationRows(connection, tenant)

    def hold(
        self, kind: OperationKind, subject: str, arguments: Numbers, forest: ForestId | None, actor: str
    ) -> TaskId:
        """A record for this kind and subject: the unfinished one, or a new one. Raises ForestChanged."""
        touches = {forest: Role(kind.value)} if forest is not None else {}
        return self.tasks.enqueue(kind, subject, arguments, forest=forest, actor=actor, touches=touches, held=True)

    def finished_import(self, subject: str) -> OperationTask | None:
        """The import of this subject that was finished, if its forest is still its owner's."""
        found = self._db.scalar(
            sa.select(m.OperationRow.task_id)
            .join(
                m.Forest,
                sa.and_(m.Forest.tenant_id == self._tenant, m.Forest.forest_id == m.OperationRow.forest_id, visible()),
            )
            .where(
                m.OperationRow.tenant_id == self._tenant,
                m.OperationRow.kind == "import",
                m.OperationRow.subject == subject,
                m.OperationRow.state == "done",
            )
            .order_by(m.OperationRow.finished_at.desc())
            .limit(1)
        )
        return self.tasks.get(TaskId(found)) if found is not None else None

    def has_begun_import(self, subject: str) -> bool:
        """Whether an import of this subject is unfinished."""
        o = m.OperationRow
        begun = (o.tenant_id == self._tenant, o.kind == "import", o.subject == subject, o.state == "held")
        return self._db.scalar(sa.select(sa.exists().where(*begun))) is True

    def take(self, task: TaskId) -> OperationTask | None:
        """Begin a new run; None when it has ended."""
        taken = self._run(_TAKE, id=task)
        return self.tasks.get(task) if taken.rowcount else None

    def keep(self, task: TaskId, progress: Numbers) -> bool:
        """Store progress, if its run is the newest; False when another process has taken over."""
        changed = self._db.execute(
            sa.update(m.OperationRow)
            .where(
                m.OperationRow.tenant_id == self._tenant,
                m.OperationRow.task_id == task,
                m.OperationRow.state == "held",
                m.OperationRow.progress[RUN].as_integer() == progress[RUN],
            )
            .values(progress=dict(progress))
        )
        return changed.rowcount == 1

    def end(self, task: TaskId, progress: Numbers, error: tuple[str, str] | None = None) -> bool:
        """The record is done, or undone with a code and a sentence; False as in ``keep``."""
        if not self.keep(task, progress if error is None else {**progress, PHASE: CANCELLED}):
            return False
        code, text = error or (None, None)
        record = sa.update(m.OperationRow).where(
            m.OperationRow.tenant_id == self._tenant, m.OperationRow.task_id == task
        )
        # A held row reaches its end by the states between: triggers allow no other way.
        for state in ("ready", "running"):
            self._db.execute(record.values(state=state))
        ended = record.values(state="done", finished_at=sa.func.clock_timestamp(), error_code=code, error_text=text)
        self._db.execute(ended)
        return True
