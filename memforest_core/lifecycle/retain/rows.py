"""Retention in Postgres: policies, what is too old, how large a forest is, and what is least important in it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from memforest_core.domain.ids import ForestId
from memforest_core.domain.operation_rules import OperationKind
from memforest_core.lifecycle.retain import chosen_rows as chosen
from memforest_core.lifecycle.retain.records import (
    AGES,
    Leaf,
    Limits,
    MeasuredForest,
    Order,
    Phase,
    Policy,
    Totals,
    When,
)
from memforest_core.store import tables as m
from memforest_core.store.owners import ForestRows, visible
from memforest_core.work.jobs import Lane
from memforest_core.work.rows.operation_rows import OperationRows

_DAY_S = 86_400
_DEFAULT = UUID(int=0)
"""The forest id under which the policy of all others is stored."""

_ONE_FOREST = chosen.measured("forest_id = :f")
_FORESTS_AFTER = chosen.measured("forest_id > :after ORDER BY forest_id LIMIT :n")

_DROP_STRAY = sa.text("""
    DELETE FROM memforest.visit WHERE tenant_id = :t AND item_id IN (
        SELECT v.item_id FROM memforest.visit v
         WHERE v.tenant_id = :t AND v.forest_id = :f
           AND NOT EXISTS (SELECT 1 FROM memforest.fact x WHERE x.tenant_id = :t AND x.fact_id = v.item_id)
           AND NOT EXISTS (SELECT 1 FROM memforest.cell x WHERE x.tenant_id = :t AND x.cell_id = v.item_id)
           AND NOT EXISTS (SELECT 1 FROM memforest.node x WHERE x.tenant_id = :t AND x.node_id = v.item_id)
         ORDER BY v.item_id LIMIT :n FOR UPDATE SKIP LOCKED)
""")

_SWEEP_DUE = sa.text("""
    SELECT EXISTS (SELECT 1 FROM memforest.retention_policy WHERE tenant_id = :t)
       AND NOT EXISTS (SELECT 1 FROM memforest.maintenance
                        WHERE tenant_id = :t AND kind = :kind AND forest_id IS NULL
                          AND created_at > clock_timestamp() - make_interval(secs => :every))
""")


class RetentionRows(ForestRows):
    """Policies, and what they limit, in one transaction of a tenant."""

    @property
    def tasks(self) -> OperationRows:
        return OperationRows(self._db, self._tenant)

    def now(self) -> datetime:
        moment: datetime = self._db.scalar(sa.text("SELECT clock_timestamp()"))
        return moment.astimezone(UTC)

    def put_policy(self, forest: ForestId | None, limits: Limits) -> None:
        """Set the limits of a forest, or (None) of the tenant's others."""
        ages: dict[str, int | None] = {_column(name): None for name in AGES}
        ages |= {_column(name): round(days * _DAY_S) for name, days in limits.ages().items()}
        values: dict[str, Any] = {
            **ages,
            "max_facts": limits.max_facts,
            "max_bytes": limits.max_bytes,
            "fraction": limits.fraction,
            "first_out": limits.order.value,
            "updated_at": sa.func.clock_timestamp(),
        }
        self._db.execute(
            insert(m.RetentionPolicy)
            .values(tenant_id=self._tenant, forest_id=forest or _DEFAULT, **values)
            .on_conflict_do_update(index_elements=["tenant_id", "forest_id"], set_=values)
        )

    def drop_policy(self, forest: ForestId | None) -> bool:
        """Remove a policy; whether there was one."""
        policy = m.RetentionPolicy
        of = (policy.tenant_id == self._tenant, policy.forest_id == (forest or _DEFAULT))
        return self._db.execute(sa.delete(policy).where(*of)).rowcount == 1

    def limits_for(self, forest: ForestId) -> Limits | None:
        """The limits that apply to a forest: its own, or those of the tenant's other forests."""
        policy = m.RetentionPolicy
        found = self._db.execute(
            sa.select(policy.__table__)
            .where(policy.tenant_id == self._tenant, policy.forest_id.in_([forest, _DEFAULT]))
            .order_by(policy.forest_id == _DEFAULT)
        ).first()
        return Limits(**_stated(found)) if found is not None else None

    def policies(self) -> Sequence[Policy]:
        """All policies, the tenant's first, then by owner."""
        policy, forest = m.RetentionPolicy, m.Forest
        same = sa.and_(forest.tenant_id == self._tenant, forest.forest_id == policy.forest_id, visible())
        found = self._db.execute(
            sa.select(policy.__table__, forest.owner)
            .outerjoin(forest, same)
            .where(policy.tenant_id == self._tenant, forest.owner.is_not(None) | (policy.forest_id == _DEFAULT))
            .order_by(forest.owner.nulls_first())
        )
        return [Policy(**_stated(row), owner=row.owner, updated_at=row.updated_at.astimezone(UTC)) for row in found]

    def forests_after(self, after: ForestId | None, limit: int, at: datetime) -> Sequence[MeasuredForest]:
        """The next live forests in order of ids, measured against the policy that applies to each."""
        return [_measured(row) for row in self._run(_FORESTS_AFTER, after=after or _DEFAULT, n=limit, at=at)]

    def measured(self, forest: ForestId, at: datetime) -> MeasuredForest | None:
        """One forest; None unless it is live."""
        found = self._run(_ONE_FOREST, f=forest, at=at).first()
        return _measured(found) if found is not None else None

    def count(self, phase: Phase, forest: ForestId, when: When) -> int:
        """How much there is of what a phase removes: what is too old of a kind; of words (cells on which no fact rests)
        and facts those that were there when the run began."""
        return int(self._chosen(chosen.COUNTS[phase], forest, when).scalar_one())

    def first(self, phase: Phase, forest: ForestId, when: When, limit: int | None = None) -> list[Leaf]:
        """The leaves that a phase removes, in the order in which they go; cells in work, or with what is pinned, and
        facts that go with a cell are left out."""
        found = self._chosen(chosen.FIRST[phase][when.order], forest, when, n=limit)
        return [Leaf(row.id, int(row.size), row.said_at.astimezone(UTC)) for row in found]

    def names(self, phase: Phase, forest: ForestId, when: When) -> tuple[str, ...]:
        """Digests that are too old by span and first day, or sessions whose compacted text is, the oldest first."""
        return tuple(self._chosen(chosen.NAMES[phase], forest, when).scalars())

    def drop(self, phase: Phase, forest: ForestId, when: When, limit: int) -> int:
        """Delete the oldest rows of a kind that can be made again; how many. The caller has locked the forest."""
        return self._chosen(chosen.DROPS[phase], forest, when, n=limit).rowcount

    def totals(self, forest: ForestId, when: When, *, bytes_too: bool) -> Totals:
        """The size of the forest, as if what is too old were gone already."""
        row = self._chosen(chosen.TOTALS, forest, when, bytes=bytes_too).one()
        return Totals(**{name: int(count) for name, count in row._mapping.items()})

    def drop_stray_visits(self, forest: ForestId, limit: int) -> int:
        return self._run(_DROP_STRAY, f=forest, n=limit).rowcount

    def request_sweep(self, subject: str, every_s: float) -> bool:
        """Request a run over all forests if there is a policy and none was requested for this long; whether it was."""
        kind = OperationKind.RETAIN
        due = self._run(_SWEEP_DUE, kind=kind.value, every=every_s).scalar()
        if due:
            self.tasks.enqueue(kind, subject, {}, Lane.BACKFILL)
        return bool(due)

    def _chosen(
        self, statement: sa.TextClause, forest: ForestId, when: When, **values: object
    ) -> sa.CursorResult[*tuple[Any, ...]]:
        return self._run(statement, f=forest, at=when.at, **(dict.fromkeys(AGES) | dict(when.before)), **values)


def _column(age: str) -> str:
    return AGES[age].replace("_days", "_s")


def _stated(row: sa.Row[Any]) -> dict[str, Any]:
    seconds = {field: row._mapping[_column(age)] for age, field in AGES.items()}
    return {
        **{field: None if age is None else age / _DAY_S for field, age in seconds.items()},
        "max_facts": row.max_facts,
        "max_bytes": row.max_bytes,
        "fraction": row.fraction,
        "order": Order(row.first_out),
    }


def _measured(row: sa.Row[Any]) -> MeasuredForest:
    # A policy always has its fraction; what it does not limit is not counted.
    limits = Limits(**_stated(row)) if row.fraction is not None else None
    sizes = ((row.facts, row.max_facts), (row.bytes, row.max_bytes))
    over = any(most is not None and size > most for size, most in sizes)
    return MeasuredForest(ForestId(row.forest_id), limits, over or row.aged)
