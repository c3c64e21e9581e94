"""Policies in Postgres, and what they are about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from memforest_core.domain.beside import Role
from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.retain.records import HeldForest, Leaf, Limits, Policy, Totals, When
from memforest_core.retain.rows import sql
from memforest_core.store import tables as m
from memforest_core.store.engine import tenant_transaction, transaction
from memforest_core.store.owners import visible
from memforest_core.work.jobs import Lane
from memforest_core.work.records import AuditEntry, MaintenanceKind, TaskId
from memforest_core.work.rows.operations import OperationRows

_DAY_S = 86_400
_DEFAULT = UUID(int=0)
"""The forest id under which the policy of all others is kept."""


class RetentionRows:
    """Policies, and what they are about, in one transaction of a tenant."""

    def __init__(self, connection: sa.Connection, tenant: TenantId) -> None:
        self._db = connection
        self._tenant = tenant
        self._tasks = OperationRows(connection, tenant)

    def now(self) -> datetime:
        """The database's clock."""
        moment: datetime = self._db.scalar(sa.text("SELECT clock_timestamp()"))
        return moment.astimezone(UTC)

    def join(self, task: TaskId, forest: ForestId) -> bool:
        """Take a forest for a run over many; False while an operation is at it that a policy does not run beside."""
        return self._tasks.join(task, forest, Role.RETAIN)

    def part(self, task: TaskId, forest: ForestId) -> None:
        """Let a forest go."""
        self._tasks.part(task, forest)

    def note(self, entry: AuditEntry) -> None:
        """Add a row to the audit."""
        self._tasks.note(entry)

    def put_policy(self, forest: ForestId | None, limits: Limits) -> None:
        """Set the limits of a forest, or (None) of the tenant's others."""
        values: dict[str, Any] = {
            "max_age_s": None if limits.max_age_days is None else round(limits.max_age_days * _DAY_S),
            "max_facts": limits.max_facts,
            "max_bytes": limits.max_bytes,
            "fraction": limits.fraction,
            "updated_at": sa.func.clock_timestamp(),
        }
        self._db.execute(
            insert(m.RetentionPolicy)
            .values(tenant_id=self._tenant, forest_id=forest or _DEFAULT, **values)
            .on_conflict_do_update(index_elements=["tenant_id", "forest_id"], set_=values)
        )

    def drop_policy(self, forest: ForestId | None) -> bool:
        """Take a policy away; whether there was one."""
        return self._db.execute(sa.delete(m.RetentionPolicy).where(*self._of(forest))).rowcount == 1

    def limits_of(self, forest: ForestId | None) -> Limits | None:
        """A forest's own limits, or (None) those of the others."""
        found = self._db.execute(sa.select(m.RetentionPolicy.__table__).where(*self._of(forest))).first()
        return Limits(*_stated(found)) if found is not None else None

    def policies(self) -> Sequence[Policy]:
        """All policies, the tenant's first, then by owner."""
        found = self._db.execute(
            sa.select(m.RetentionPolicy.__table__, m.Forest.owner)
            .outerjoin(
                m.Forest,
                sa.and_(
                    m.Forest.tenant_id == self._tenant,
                    m.Forest.forest_id == m.RetentionPolicy.forest_id,
                    visible(),
                ),
            )
            .where(
                m.RetentionPolicy.tenant_id == self._tenant,
                m.Forest.owner.is_not(None) | (m.RetentionPolicy.forest_id == _DEFAULT),
            )
            .order_by(m.Forest.owner.nulls_first())
        )
        return [Policy(*_stated(row), owner=row.owner, updated_at=row.updated_at.astimezone(UTC)) for row in found]

    def forests_after(self, after: ForestId | None, limit: int, at: datetime) -> Sequence[HeldForest]:
        """The next live forests in order of ids, measured against the policy that holds for each."""
        found = self._db.execute(sql.HELD_AFTER, self._values(after=after or _DEFAULT, n=limit, at=at))
        return [_held(row) for row in found]

    def held(self, forest: ForestId, at: datetime) -> HeldForest | None:
        """One forest; None unless it is live."""
        found = self._db.execute(sql.HELD, self._values(f=forest, at=at)).first()
        return _held(found) if found is not None else None

    def aged_cells(self, forest: ForestId, when: When, limit: int | None = None) -> Sequence[Leaf]:
        """Cells whose turns are all too old, the oldest first; those in work, or with a pinned fact, are left out."""
        return self._leaves(sql.AGED, forest, when, limit)

    def aged_left(self, forest: ForestId, when: When) -> int:
        """How many cells are too old."""
        return int(self._db.execute(sql.AGED_LEFT, self._at(forest, when)).scalar_one())

    def totals(self, forest: ForestId, when: When, *, bytes_too: bool) -> Totals:
        """What the forest holds, as if what is too old were gone already."""
        row = self._db.execute(sql.TOTALS, self._at(forest, when) | {"bytes": bytes_too}).one()
        return Totals(row.facts, row.pinned, row.cells, row.bare_cells, int(row.bytes))

    def facts_left(self, forest: ForestId, when: When) -> int:
        """Facts of the forest that were there at that moment, too old or not."""
        return int(self._db.execute(sql.FACTS_LEFT, self._at(forest, when)).scalar_one())

    def bare_cells_left(self, forest: ForestId, when: When) -> int:
        """Cells of the forest that were there at that moment, too old or not, and on which no fact rests."""
        return int(self._db.execute(sql.BARE_LEFT, self._at(forest, when)).scalar_one())

    def least_cells(self, forest: ForestId, when: When, limit: int) -> Sequence[Leaf]:
        """Cells on which no fact rests, those least worth keeping first, ties by id."""
        return self._leaves(sql.LEAST_CELLS, forest, when, limit)

    def least_facts(self, forest: ForestId, when: When, limit: int) -> Sequence[Leaf]:
        """Unpinned facts, superseded ones first, then those least worth keeping, ties by key."""
        return self._leaves(sql.LEAST_FACTS, forest, when, limit)

    def drop_stray_visits(self, forest: ForestId, limit: int) -> int:
        """Drop visits of what is no more; how many."""
        return self._db.execute(sql.DROP_STRAY, self._values(f=forest, n=limit)).rowcount

    def ask_sweep(self, subject: str, every_s: float) -> bool:
        """Ask for a run over all forests if there is a policy and none was asked for this long; whether it was."""
        kind = MaintenanceKind.RETAIN
        due = self._db.scalar(sql.SWEEP_DUE, self._values(kind=kind.value, every=every_s))
        if due:
            self._tasks.enqueue(kind, subject, {}, Lane.BACKFILL)
        return bool(due)

    def _leaves(self, statement: sa.TextClause, forest: ForestId, when: When, limit: int | None) -> list[Leaf]:
        found = self._db.execute(statement, self._at(forest, when) | {"n": limit})
        return [Leaf(row.id, int(row.size), row.said_at.astimezone(UTC)) for row in found]

    def _of(self, forest: ForestId | None) -> tuple[sa.ColumnElement[bool], ...]:
        return (
            m.RetentionPolicy.tenant_id == self._tenant,
            m.RetentionPolicy.forest_id == (forest or _DEFAULT),
        )

    def _at(self, forest: ForestId, when: When) -> dict[str, Any]:
        return self._values(f=forest, at=when.at, cutoff=when.cutoff)

    def _values(self, **values: object) -> dict[str, Any]:
        return {"t": self._tenant, **values}


def _stated(row: sa.Row[Any]) -> tuple[float | None, int | None, int | None, float]:
    """The fields of limits."""
    days = None if row.max_age_s is None else row.max_age_s / _DAY_S
    return days, row.max_facts, row.max_bytes, row.fraction


def _held(row: sa.Row[Any]) -> HeldForest:
    return HeldForest(
        id=ForestId(row.forest_id),
        # A policy always has its fraction.
        limits=Limits(*_stated(row)) if row.fraction is not None else None,
        facts=row.facts,
        bytes=None if row.bytes is None else int(row.bytes),
        aged=row.aged,
    )


class RetentionStore:
    """Opens transactions on policies."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    @contextmanager
    def retaining(self, tenant: TenantId) -> Iterator[RetentionRows]:
        """One transaction of a tenant."""
        with tenant_transaction(self._engine, tenant) as connection:
            yield RetentionRows(connection, tenant)

    def tenants(self) -> Sequence[TenantId]:
        """All tenants, in order."""
        with transaction(self._engine) as connection:
            return [TenantId(row) for row in connection.scalars(sa.text("SELECT tenant_id FROM memforest.tenants()"))]
