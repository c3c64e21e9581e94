"""Maintenance tasks in Postgres: asked for once, claimed by one, resumed by anybody."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC
from typing import Any
from uuid import uuid4

import sqlalchemy as sa

from memforest_core.adapters.postgres import models as m
from memforest_core.adapters.postgres.engine import tenant_transaction
from memforest_core.adapters.postgres.owners import forest_id
from memforest_core.domain.ids import ForestId, LeaseToken, TenantId, WorkerId
from memforest_core.errors import StoreUnavailable
from memforest_core.ports.maintenance import (
    AuditEntry,
    AuditFilter,
    ClaimedTask,
    MaintenanceRows,
    MaintenanceTask,
    Numbers,
    TaskId,
)

_TRIES = 3
"""A task that ends between the insert that it refused and the look at it is asked for again."""

_ENQUEUE = sa.text(
    """
    INSERT INTO memforest.maintenance (tenant_id, task_id, kind, subject, arguments, lane, forest_id, actor)
    VALUES (:t, :id, :kind, :subject, :arguments, :lane, :forest, :actor)
    ON CONFLICT (tenant_id, kind, subject) WHERE state IN ('held', 'ready', 'running') DO NOTHING
    RETURNING task_id
    """
).bindparams(sa.bindparam("arguments", type_=m.Maintenance.arguments.type))

_UNFINISHED = sa.text(
    """
    SELECT task_id FROM memforest.maintenance
     WHERE tenant_id = :t AND kind = :kind AND subject = :subject AND state IN ('held', 'ready', 'running')
    """
)

_CLAIM = sa.text(
    """
    WITH waiting AS (
        SELECT task_id FROM memforest.maintenance
         WHERE tenant_id = :t AND state = 'ready' AND available_at <= clock_timestamp()
           AND kind = ANY(CAST(:kinds AS text[]))
         ORDER BY lane, available_at LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED)
    UPDATE memforest.maintenance k
       SET state = 'running', attempts = least(k.attempts + 1, 1000), lease_token = :token, worker_id = :worker,
           lease_until = clock_timestamp() + make_interval(secs => :lease)
      FROM waiting WHERE k.tenant_id = :t AND k.task_id = waiting.task_id
    RETURNING k.task_id
    """
)

_GIVEN_BACK = {"state": "ready", "lease_token": None, "lease_until": None, "worker_id": None}


def free_tasks(lost: str) -> sa.TextClause:
    """The statement that frees tasks whose lease is ``lost`` (SQL over lease_until and worker_id).

    Takes :t, :max_lost and what ``lost`` names. Work that keeps losing its workers may be what kills them: past the
    limit it waits for a person.
    """
    return sa.text(
        f"""
        UPDATE memforest.maintenance
           SET state = CASE WHEN lost_leases + 1 > :max_lost THEN 'dead' ELSE 'ready' END,
               error_code = CASE WHEN lost_leases + 1 > :max_lost THEN 'lease_lost' ELSE error_code END,
               error_text = CASE WHEN lost_leases + 1 > :max_lost
                                 THEN 'Its workers died too often while at it.' ELSE error_text END,
               finished_at = CASE WHEN lost_leases + 1 > :max_lost THEN clock_timestamp() END,
               lost_leases = lost_leases + 1, attempts = greatest(attempts - 1, 0),
               lease_token = NULL, lease_until = NULL, worker_id = NULL
         WHERE tenant_id = :t AND task_id IN (
            SELECT task_id FROM memforest.maintenance WHERE tenant_id = :t AND state = 'running' AND {lost}
               FOR NO KEY UPDATE SKIP LOCKED)
        """  # noqa: S608 - a constant of this package
    )


class PostgresMaintenanceRows:
    """MaintenanceRows over one open transaction."""

    def __init__(self, connection: sa.Connection, tenant: TenantId) -> None:
        self._db = connection
        self._tenant = tenant

    def enqueue(
        self,
        kind: str,
        subject: str,
        arguments: Numbers,
        lane: int = 0,
        *,
        forest: ForestId | None = None,
        actor: str = "",
    ) -> TaskId:
        asked: dict[str, Any] = {"t": self._tenant, "kind": kind, "subject": subject}
        new = {"arguments": dict(arguments), "lane": lane, "forest": forest, "actor": actor}
        for _ in range(_TRIES):
            made = self._db.scalar(_ENQUEUE, asked | new | {"id": uuid4()})
            found = made or self._db.scalar(_UNFINISHED, asked)
            if found is not None:
                return TaskId(found)
        raise StoreUnavailable(f"Tasks of kind {kind} end faster than they can be asked for.")

    def note(self, entry: AuditEntry) -> None:
        self._db.execute(
            sa.insert(m.Audit),
            {
                "tenant_id": self._tenant,
                "actor": entry.actor,
                "action": entry.action,
                "outcome": entry.outcome,
                "forest_id": entry.forest_id,
                "owner_hash": owner_hash(self._tenant, entry.owner) if entry.owner is not None else None,
                "task_id": entry.task_id,
                "detail": dict(entry.detail),
            },
        )

    def audited(self, which: AuditFilter, limit: int) -> Sequence[AuditEntry]:
        where = [m.Audit.tenant_id == self._tenant]
        if which.owner is not None:
            mine = m.Audit.owner_hash == owner_hash(self._tenant, which.owner)
            tasks = sa.select(m.Audit.task_id).where(m.Audit.tenant_id == self._tenant, mine)
            where.append(mine | m.Audit.task_id.in_(tasks))
        if which.action is not None:
            where.append(m.Audit.action == which.action)
        if which.task_id is not None:
            where.append(m.Audit.task_id == which.task_id)
        if which.since is not None:
            where.append(m.Audit.at >= which.since)
        found = self._db.execute(
            sa.select(m.Audit.__table__).where(*where).order_by(m.Audit.audit_id.desc()).limit(limit)
        )
        return [
            AuditEntry(
                actor=row.actor,
                action=row.action,
                outcome=row.outcome,
                forest_id=ForestId(row.forest_id) if row.forest_id else None,
                task_id=TaskId(row.task_id) if row.task_id else None,
                detail=row.detail,
                at=row.at.astimezone(UTC),
            )
            for row in found
        ]

    def forest(self, owner: str) -> ForestId | None:
        return forest_id(self._db, self._tenant, owner)

    def claim(self, kinds: Sequence[str], worker: WorkerId, lease_s: float) -> ClaimedTask | None:
        token = LeaseToken(uuid4())
        claimed = self._db.scalar(
            _CLAIM, {"t": self._tenant, "kinds": list(kinds), "token": token, "worker": worker, "lease": lease_s}
        )
        task = self.get(TaskId(claimed)) if claimed is not None else None
        return ClaimedTask(token, task) if task is not None else None

    def keep(self, token: LeaseToken, progress: Numbers, lease_s: float) -> bool:
        until = sa.func.clock_timestamp() + sa.func.make_interval(0, 0, 0, 0, 0, 0, lease_s)
        return self._update(token, {"progress": dict(progress), "lease_until": until})

    def finish(self, token: LeaseToken) -> bool:
        return self._update(token, self._ended("done", None, None))

    def retry(self, token: LeaseToken, delay_s: float, counts: bool, code: str, text: str) -> None:
        values = _GIVEN_BACK | {
            "available_at": sa.func.clock_timestamp() + sa.func.make_interval(0, 0, 0, 0, 0, 0, delay_s),
            "error_code": code,
            "error_text": text,
        }
        self._update(token, values if counts else values | self._uncounted())

    def hand_back(self, token: LeaseToken) -> None:
        self._update(token, _GIVEN_BACK | self._uncounted())

    def bury(self, token: LeaseToken, code: str, text: str) -> bool:
        return self._update(token, self._ended("dead", code, text))

    def get(self, task: TaskId) -> MaintenanceTask | None:
        found = self._db.execute(
            sa.select(m.Maintenance.__table__).where(
                m.Maintenance.tenant_id == self._tenant, m.Maintenance.task_id == task
            )
        ).first()
        return _task(found) if found is not None else None

    def list(self, kinds: Sequence[str], limit: int) -> Sequence[MaintenanceTask]:
        found = self._db.execute(
            sa.select(m.Maintenance.__table__)
            .where(m.Maintenance.tenant_id == self._tenant, m.Maintenance.kind.in_(kinds))
            .order_by(m.Maintenance.created_at.desc(), m.Maintenance.task_id)
            .limit(limit)
        )
        return [_task(row) for row in found]

    def _update(self, token: LeaseToken, values: dict[str, Any]) -> bool:
        """Change the task that is still under this lease."""
        return (
            self._db.execute(
                sa.update(m.Maintenance)
                .where(
                    m.Maintenance.tenant_id == self._tenant,
                    m.Maintenance.state == "running",
                    m.Maintenance.lease_token == token,
                )
                .values(**values)
            ).rowcount
            == 1
        )

    @staticmethod
    def _uncounted() -> dict[str, Any]:
        return {"attempts": sa.func.greatest(m.Maintenance.attempts - 1, 0)}

    @staticmethod
    def _ended(state: str, code: str | None, text: str | None) -> dict[str, Any]:
        ended = {"state": state, "finished_at": sa.func.clock_timestamp(), "error_code": code, "error_text": text}
        return _GIVEN_BACK | ended


def owner_hash(tenant: TenantId, owner: str) -> bytes:
    """What the audit keeps of an owner's name: it can be asked about, and not be read back."""
    return hashlib.sha256(f"{tenant}\x1f{owner}".encode()).digest()


def _task(row: sa.Row[Any]) -> MaintenanceTask:
    return MaintenanceTask(
        id=TaskId(row.task_id),
        kind=row.kind,
        subject=row.subject,
        arguments=row.arguments,
        progress=row.progress,
        state=row.state,
        attempts=row.attempts,
        lost_leases=row.lost_leases,
        created_at=row.created_at,
        finished_at=row.finished_at,
        error_code=row.error_code,
        error_text=row.error_text,
        forest_id=ForestId(row.forest_id) if row.forest_id else None,
        actor=row.actor,
    )


class PostgresMaintenanceStore:
    """MaintenanceStore over an engine."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    @contextmanager
    def maintaining(self, tenant: TenantId) -> Iterator[MaintenanceRows]:
        with tenant_transaction(self._engine, tenant) as connection:
            yield PostgresMaintenanceRows(connection, tenant)
