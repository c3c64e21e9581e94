"""Maintenance tasks in Postgres: each is stored once, claimed by one worker, and can be resumed by any other."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, NamedTuple
from uuid import uuid4

import sqlalchemy as sa

from memforest_core.domain.ids import ForestId, LeaseToken, TenantId, WorkerId
from memforest_core.domain.operation_rules import Role
from memforest_core.errors import ForestChanged, StoreUnavailable
from memforest_core.store import tables as m
from memforest_core.store.owners import forest_id, lock_forests
from memforest_core.store.rows import TenantRows, record_of, seconds_from_now
from memforest_core.store.trees import micros
from memforest_core.work.jobs import WorkState
from memforest_core.work.records import CANCELLED, PHASE, AuditEntry, Neighbour, Numbers, OperationTask, TaskId


class ChainedRow(NamedTuple):
    """A row of the audit: place and hash, None when nothing has sealed it, its time, and all that the hash covers."""

    place: int | None
    hash: bytes | None
    at: datetime
    columns: list[str | None]


ClaimedTask = tuple[LeaseToken, OperationTask]
"""A task under its lease."""

_TRIES = 3
"""How often to insert a task again when the equal task that blocked the insert has ended before it was read."""

# Within a tenant only one transaction at a time inserts or claims tasks, so each sees all tasks before it. Forests are
# locked before this lock, task rows after it.
_TAKE_TURN = sa.text("SELECT pg_advisory_xact_lock(hashtextextended('memforest.requests ' || :t, 0))")

_LOCK_FORESTS = sa.text("""
    SELECT forest_id FROM memforest.forest
     WHERE tenant_id = :t AND forest_id = ANY(CAST(:forests AS uuid[])) AND state <> 'gone'
     ORDER BY forest_id FOR KEY SHARE
    """)

_ENQUEUE = sa.text("""
    INSERT INTO memforest.maintenance (tenant_id, task_id, kind, subject, arguments, lane, forest_id, actor, state)
    VALUES (:t, :id, :kind, :subject, :arguments, :lane, :forest, :actor, :state)
    ON CONFLICT (tenant_id, kind, subject) WHERE state IN ('held', 'ready', 'running') DO NOTHING
    RETURNING task_id
    """).bindparams(sa.bindparam("arguments", type_=m.OperationRow.arguments.type))

_TOUCH = sa.text("""
    INSERT INTO memforest.maintenance_forest (tenant_id, task_id, forest_id, role)
    SELECT :t, :id, u.forest, u.role
      FROM unnest(CAST(:forests AS uuid[]), CAST(:roles AS text[])) AS u(forest, role)
    ON CONFLICT DO NOTHING
    """)

_PART_OF = sa.text("""
    UPDATE memforest.maintenance k SET sequence = parent.sequence FROM memforest.maintenance parent
     WHERE k.tenant_id = :t AND k.task_id = :id AND parent.tenant_id = :t AND parent.task_id = :parent
    """)

_NEIGHBOURS = sa.text("""
    SELECT other.task_id AS id, other.kind, other.state, theirs.role,
           memforest.operation_rule(theirs.role, mine.role) AS answer
      FROM memforest.maintenance k
      JOIN memforest.maintenance_forest mine ON mine.tenant_id = :t AND mine.task_id = k.task_id
      JOIN memforest.maintenance_forest theirs
        ON theirs.tenant_id = :t AND theirs.forest_id = mine.forest_id AND theirs.task_id <> k.task_id
      JOIN memforest.maintenance other
        ON other.tenant_id = :t AND other.task_id = theirs.task_id AND other.state <> 'done'
       AND other.sequence < k.sequence
     WHERE k.tenant_id = :t AND k.task_id = :id
       AND CASE memforest.operation_rule(theirs.role, mine.role)
           WHEN 'concurrent' THEN false
           WHEN 'outwaits' THEN true
           WHEN 'refused' THEN other.state <> 'dead' OR other.kind = 'erase'
                               OR (other.kind = 'merge' AND other.progress ->> 'phase' IN ('merge', 'end', 'fold'))
           ELSE other.state <> 'dead' END
     ORDER BY other.sequence
    """)

_JOIN = sa.text("""
    INSERT INTO memforest.maintenance_forest (tenant_id, task_id, forest_id, role)
    SELECT :t, :id, :forest, :role
     WHERE NOT EXISTS (
        SELECT 1 FROM memforest.maintenance_forest theirs
          JOIN memforest.maintenance k
            ON k.tenant_id = :t AND k.task_id = theirs.task_id AND k.state IN ('held', 'ready', 'running')
         WHERE theirs.tenant_id = :t AND theirs.forest_id = :forest AND theirs.task_id <> :id
           AND memforest.operation_rule(theirs.role, :role) <> 'concurrent')
    ON CONFLICT DO NOTHING
    """)

_STATES = sa.text("""
    SELECT f.forest_id, f.state FROM memforest.maintenance_forest mine
      JOIN memforest.forest f ON f.tenant_id = :t AND f.forest_id = mine.forest_id
     WHERE mine.tenant_id = :t AND mine.task_id = :id
    """)

# Merges that were given up after they froze their sources. Sources stay frozen once something of them was moved.
_GIVEN_UP = """k.tenant_id = :t AND k.state = 'dead' AND k.kind = 'merge' AND k.progress ->> 'phase' = 'merge'"""

_UNMOVED = sa.text(f"""
    SELECT k.task_id, mine.forest_id FROM memforest.maintenance k
      JOIN memforest.maintenance_forest mine
        ON mine.tenant_id = :t AND mine.task_id = k.task_id AND mine.role = 'merge_from'
     WHERE {_GIVEN_UP} AND (k.progress ->> 'next')::int = 0
    """)  # noqa: S608 - a constant of this module

_RELEASE = [
    sa.text(statement)
    for statement in (
        f"""UPDATE memforest.forest f SET state = 'live' FROM memforest.maintenance k, memforest.maintenance_forest mine
             WHERE {_GIVEN_UP} AND k.task_id = ANY(CAST(:ids AS uuid[]))
               AND mine.tenant_id = :t AND mine.task_id = k.task_id AND mine.role = 'merge_from'
               AND f.tenant_id = :t AND f.forest_id = mine.forest_id AND f.state = 'frozen'""",  # noqa: S608 - the same
        f"""UPDATE memforest.maintenance k SET progress = '{{}}'
             WHERE {_GIVEN_UP} AND k.task_id = ANY(CAST(:ids AS uuid[]))""",  # noqa: S608 - the same
    )
]

# The subject changes, so that an equal task can be requested at once.
_CANCEL = sa.text("""
    UPDATE memforest.maintenance
       SET cancelled_by = :actor, subject = subject || ':cancelled:' || task_id, available_at = clock_timestamp(),
           state = CASE WHEN state = 'running' THEN state ELSE 'ready' END, finished_at = NULL, attempts = 0,
           lost_leases = 0
     WHERE tenant_id = :t AND task_id = :id AND state <> 'done' AND cancelled_by IS NULL
    """)

_UNFINISHED = sa.text("""
    SELECT task_id FROM memforest.maintenance
     WHERE tenant_id = :t AND kind = :kind AND subject = :subject AND state IN ('held', 'ready', 'running')
    """)

_READY = """tenant_id = :t AND state = 'ready' AND available_at <= clock_timestamp()
           AND kind = ANY(CAST(:kinds AS text[])) AND memforest.waits_for(:t, task_id) IS NULL"""

_CLAIMABLE = sa.text(f"SELECT 1 FROM memforest.maintenance WHERE {_READY} LIMIT 1")  # noqa: S608 - a constant

_CLAIM = sa.text(f"""
    WITH waiting AS (
        SELECT task_id FROM memforest.maintenance
         WHERE {_READY}
         ORDER BY lane, available_at LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED)
    UPDATE memforest.maintenance k
       SET state = 'running', attempts = least(k.attempts + 1, 1000), lease_token = :token, worker_id = :worker,
           lease_until = clock_timestamp() + make_interval(secs => :lease)
      FROM waiting WHERE k.tenant_id = :t AND k.task_id = waiting.task_id
    RETURNING k.task_id
    """)  # noqa: S608 - a constant of this module

# What seal_audit() hashes; see work/audit.py.
_CHAINED = f"""
    SELECT place, hash, at, ARRAY[tenant_id, place::text, audit_id::text, {micros("at")}::text, actor, action, outcome,
           forest_id::text, encode(owner_hash, 'hex'), task_id::text, detail::text] AS columns
      FROM memforest.audit WHERE tenant_id = :t"""  # noqa: S608 - a constant
_CHAIN = sa.text(f"{_CHAINED} ORDER BY place")
_NEWEST = sa.text(f"{_CHAINED} AND place IS NOT NULL ORDER BY place DESC LIMIT 1")

_GIVEN_BACK: dict[str, Any] = {"state": WorkState.READY, "lease_token": None, "lease_until": None, "worker_id": None}
_UNCOUNTED: dict[str, Any] = {"attempts": sa.func.greatest(m.OperationRow.attempts - 1, 0)}
"""A try that does not count."""


def take_turn(connection: sa.Connection, tenant: TenantId) -> None:
    """Let no other transaction of the tenant insert or claim tasks until this one ends."""
    connection.execute(_TAKE_TURN, {"t": tenant})


class OperationRows(TenantRows):
    """Task rows of one transaction of a tenant."""

    def enqueue(
        self,
        kind: str,
        subject: str,
        arguments: Numbers,
        lane: int = 0,
        *,
        forest: ForestId | None = None,
        actor: str = "",
        touches: Mapping[ForestId, Role] | None = None,
        part_of: TaskId | None = None,
        held: bool = False,
    ) -> TaskId:
        """Insert a task, unless an equal one is unfinished; its id. Workers don't claim a ``held`` task: the caller
        works on it, and may create its forest later."""
        if touches:
            self._lock(touches, there=not held)
        wanted: dict[str, Any] = {"kind": kind, "subject": subject}
        state = WorkState.HELD if held else WorkState.READY
        new = {"arguments": dict(arguments), "lane": lane, "forest": forest, "actor": actor, "state": state}
        for _ in range(_TRIES):
            made = self._run(_ENQUEUE, id=uuid4(), **wanted, **new).scalar()
            if made is not None and touches:
                roles = [role.value for role in touches.values()]
                self._run(_TOUCH, id=made, forests=list(touches), roles=roles)
            if made is not None and part_of is not None:
                self._run(_PART_OF, id=made, parent=part_of)
            found = made or self._run(_UNFINISHED, **wanted).scalar()
            if found is not None:
                return TaskId(found)
        raise StoreUnavailable(f"Tasks of kind {kind} end faster than they can be requested.")

    def _lock(self, touches: Mapping[ForestId, Role], *, there: bool) -> None:
        """Keep the forests from being deleted until this transaction ends, and take its turn; see ``take_turn``."""
        locked = self._run(_LOCK_FORESTS, forests=list(touches)).all()
        if there and len(locked) < len(touches):
            raise ForestChanged("The memory of this owner was deleted or replaced at this time: ask again.")
        take_turn(self._db, self._tenant)

    def neighbours(self, task: TaskId) -> Sequence[Neighbour]:
        """The earlier tasks that a task does not run concurrently with, the earliest first."""
        return [record_of(Neighbour, row) for row in self._run(_NEIGHBOURS, id=task)]

    def join(self, task: TaskId, forest: ForestId, role: Role) -> bool:
        """Add a forest to a running task; False while another task that excludes this one works on the forest."""
        self._lock({forest: role}, there=False)
        self._run(_JOIN, id=task, forest=forest, role=role.value)
        joined = sa.select(m.OperationForestRow.task_id).where(*_touched(self._tenant, task, forest))
        return self._db.scalar(joined) is not None

    def part(self, task: TaskId, forest: ForestId) -> None:
        """Remove a forest from a task."""
        self._db.execute(sa.delete(m.OperationForestRow).where(*_touched(self._tenant, task, forest)))

    def locked(self, task: TaskId) -> OperationTask | None:
        """One task, locked until this transaction ends."""
        k = m.OperationRow
        mine = sa.select(k.task_id).where(k.tenant_id == self._tenant, k.task_id == task)
        self._db.execute(mine.with_for_update(key_share=True))
        return self.get(task)

    def states(self, task: TaskId) -> Mapping[ForestId, str]:
        """The states of those forests of a task that exist."""
        return {ForestId(row.forest_id): row.state for row in self._run(_STATES, id=task)}

    def cancel(self, task: TaskId, actor: str) -> None:
        """Mark an unfinished task as cancelled; an equal one can be requested then."""
        self._run(_CANCEL, id=task, actor=actor)

    def release_sources(self) -> int:
        """Give the sources of merges that were given up before they moved anything back to their owners; how many."""
        released = self._run(_UNMOVED).all()
        if not released:
            return 0
        lock_forests(self._db, self._tenant, [ForestId(row.forest_id) for row in released])
        ids = sorted({row.task_id for row in released})
        for statement in _RELEASE:
            self._run(statement, ids=ids)
        return len(released)

    def note(self, entry: AuditEntry) -> None:
        """Add a row to the audit."""
        self._db.execute(
            sa.insert(m.Audit).values(
                tenant_id=self._tenant,
                actor=entry.actor,
                action=entry.action,
                outcome=entry.outcome,
                forest_id=entry.forest_id,
                owner_hash=owner_hash(self._tenant, entry.owner) if entry.owner is not None else None,
                task_id=entry.task_id,
                detail=dict(entry.detail),
            )
        )

    def audited(
        self, owner: str | None, action: str | None, task: TaskId | None, since: datetime | None, limit: int
    ) -> Sequence[AuditEntry]:
        """At most ``limit`` rows of the audit, the newest first: those that match whatever is not None."""
        table = m.Audit
        where = [table.tenant_id == self._tenant]
        if owner is not None:
            mine = table.owner_hash == owner_hash(self._tenant, owner)
            tasks = sa.select(table.task_id).where(table.tenant_id == self._tenant, mine)
            where.append(mine | table.task_id.in_(tasks))
        if action is not None:
            where.append(table.action == action)
        if task is not None:
            where.append(table.task_id == task)
        if since is not None:
            where.append(table.at >= since)
        columns = (table.actor, table.action, table.outcome, table.forest_id, table.task_id, table.detail, table.at)
        found = self._db.execute(sa.select(*columns).where(*where).order_by(table.audit_id.desc()).limit(limit))
        return [record_of(AuditEntry, row) for row in found]

    def audit_chain(self, newest: bool = False) -> Iterator[ChainedRow]:
        """All rows of the audit in the order of their chain, those outside it last; or its newest. Streamed."""
        self.unhurried()
        statement = _NEWEST if newest else _CHAIN
        with self._db.execute(statement, {"t": self._tenant}, execution_options={"yield_per": 1_000}) as rows:
            for row in rows:
                yield ChainedRow(*row)

    def find_forest(self, owner: str) -> ForestId | None:
        """The owner's forest."""
        return forest_id(self._db, self._tenant, owner)

    def claim(self, kinds: Sequence[str], worker: WorkerId, lease_s: float) -> ClaimedTask | None:
        """Take the next task of these kinds, live lane first, then the one that has waited longest."""
        token = LeaseToken(uuid4())
        if self._run(_CLAIMABLE, kinds=list(kinds)).first() is None:
            return None
        take_turn(self._db, self._tenant)
        claimed = self._run(_CLAIM, kinds=list(kinds), token=token, worker=worker, lease=lease_s).scalar()
        task = self.get(TaskId(claimed)) if claimed is not None else None
        return (token, task) if task is not None else None

    def store_progress(self, token: LeaseToken, progress: Numbers, lease_s: float) -> bool:
        """Store progress and renew the lease; False when the lease was lost."""
        return self._update(token, {"progress": dict(progress), "lease_until": seconds_from_now(lease_s)})

    def advance(self, task: TaskId, progress: Numbers) -> Numbers:
        """Store progress together with what else this transaction writes; the progress."""
        own = (m.OperationRow.tenant_id == self._tenant, m.OperationRow.task_id == task)
        self._db.execute(sa.update(m.OperationRow).where(*own).values(progress=dict(progress)))
        return progress

    def finish(self, token: LeaseToken) -> bool:
        """The task is done; False when the lease was lost."""
        cancelled = m.OperationRow.progress[PHASE].astext == CANCELLED
        ended = self._ended(WorkState.DONE, None, None)
        ended["error_code"] = sa.case((cancelled, CANCELLED))
        ended["error_text"] = sa.case((cancelled, "It was cancelled."))
        return self._update(token, ended)

    def retry(self, token: LeaseToken, delay_s: float, counts: bool, code: str, text: str) -> None:
        """Give the task back for a later try; ``counts`` says whether this try counts against it."""
        error = {"available_at": seconds_from_now(delay_s), "error_code": code, "error_text": text}
        self._update(token, _GIVEN_BACK | error | ({} if counts else _UNCOUNTED))

    def hand_back(self, token: LeaseToken) -> None:
        """Give the task back with its progress, for the next worker."""
        self._update(token, _GIVEN_BACK | _UNCOUNTED)

    def bury(self, token: LeaseToken, code: str, text: str) -> bool:
        """The task can't succeed until somebody acts; False when the lease was lost, and nothing is changed."""
        return self._update(token, self._ended(WorkState.DEAD, code, text))

    def get(self, task: TaskId) -> OperationTask | None:
        """One task."""
        k = m.OperationRow
        found = self._db.execute(_tasks().where(k.tenant_id == self._tenant, k.task_id == task)).first()
        return record_of(OperationTask, found) if found is not None else None

    def list(self, kinds: Sequence[str], limit: int) -> Sequence[OperationTask]:
        """Tasks of these kinds, the newest first."""
        k = m.OperationRow
        found = _tasks().where(k.tenant_id == self._tenant, k.kind.in_(kinds))
        newest = found.order_by(k.created_at.desc(), k.task_id).limit(limit)
        return [record_of(OperationTask, row) for row in self._db.execute(newest)]

    def _update(self, token: LeaseToken, values: dict[str, Any]) -> bool:
        """Change the task that is still under this lease."""
        table = m.OperationRow
        held = (table.tenant_id == self._tenant, table.state == WorkState.RUNNING, table.lease_token == token)
        return self._db.execute(sa.update(table).where(*held).values(**values)).rowcount == 1

    @staticmethod
    def _ended(state: str, code: str | None, text: str | None) -> dict[str, Any]:
        ended = {"state": state, "finished_at": sa.func.clock_timestamp(), "error_code": code, "error_text": text}
        return _GIVEN_BACK | ended


def _touched(tenant: TenantId, task: TaskId, forest: ForestId) -> tuple[sa.ColumnElement[bool], ...]:
    """The row that says that an operation touches a forest."""
    table = m.OperationForestRow
    return table.tenant_id == tenant, table.task_id == task, table.forest_id == forest


def owner_hash(tenant: TenantId, owner: str) -> bytes:
    """What the audit has of an owner's name: it can be searched for, and not be read back."""
    return hashlib.sha256(f"{tenant}\x1f{owner}".encode()).digest()


def _tasks() -> sa.Select[Any]:
    """All columns of tasks, and what each waits for."""
    k = m.OperationRow
    waits_for = sa.func.memforest.waits_for(k.tenant_id, k.task_id, type_=sa.Uuid())
    waiting = k.state.in_((WorkState.HELD, WorkState.READY))
    return sa.select(k.__table__, k.task_id.label("id"), sa.case((waiting, waits_for)).label("waits_for"))


OpenTasks = Callable[[TenantId], AbstractContextManager[OperationRows]]
"""Opens one transaction of a tenant on its tasks."""
