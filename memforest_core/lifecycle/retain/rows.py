"""Retention in Postgres: policies, what is too old, what a forest holds, and what is least worth keeping."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.domain.operations import OperationKind
from memforest_core.lifecycle.retain import chosen_rows as chosen
from memforest_core.lifecycle.retain.records import HeldForest, Leaf, Limits, Order, Policy, Totals, When
from memforest_core.store import tables as m
from memforest_core.store.engine import tenant_transaction
from memforest_core.store.owners import lock_forest, visible
from memforest_core.work.jobs import Lane
from memforest_core.work.rows.operations import OperationRows

_DAY_S = 86_400
_DEFAULT = UUID(int=0)
"""The forest id under which the policy of all others is kept."""

_HELD = chosen.measured("forest_id = :f")
_HELD_AFTER = chosen.measured("forest_id > :after ORDER BY forest_id LIMIT :n")

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


class RetentionRows:
    """Policies, and what they limit, in one transaction of a tenant."""

    def __init__(self, connection: sa.Connection, tenant: TenantId) -> None:
        self._db = connection
        self._tenant = tenant
        self.tasks = OperationRows(connection, tenant)

    def now(self) -> datetime:
        """The database's clock."""
        moment: datetime = self._db.scalar(sa.text("SELECT clock_timestamp()"))
        return moment.astimezone(UTC)

    def put_policy(self, forest: ForestId | None, limits: Limits) -> None:
        """Set the limits of a forest, or (None) of the tenant's others."""
        values: dict[str, Any] = {
            "max_age_s": _seconds(limits.max_age_days),
            "facts_max_age_s": _seconds(limits.facts_max_age_days),
            "digests_max_age_s": _seconds(limits.digests_max_age_days),
            "window_max_age_s": _seconds(limits.window_max_age_days),
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
        """The limits that hold for a forest: its own, or those of the tenant's other forests."""
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

    def forests_after(self, after: ForestId | None, limit: int, at: datetime) -> Sequence[HeldForest]:
        """The next live forests in order of ids, measured against the policy that holds for each."""
        found = self._db.execute(_HELD_AFTER, self._values(after=after or _DEFAULT, n=limit, at=at))
        return [_held_forest(row) for row in found]

    def held(self, forest: ForestId, at: datetime) -> HeldForest | None:
        """One forest; None unless it is live."""
        found = self._db.execute(_HELD, self._values(f=forest, at=at)).first()
        return _held_forest(found) if found is not None else None

    def lock(self, forest: ForestId) -> bool:
        """Become the forest's only writer; whether it exists. Raises StoreUnavailable past the time-out of locks."""
        return lock_forest(self._db, self._tenant, forest) is not None

    def aged_cells(self, forest: ForestId, when: When, limit: int | None = None) -> Sequence[Leaf]:
        """Cells whose turns are all too old, the oldest first; those in work, or with what is pinned, are left out."""
        return self._leaves(chosen.AGED, forest, when, limit)

    def aged_left(self, forest: ForestId, when: When) -> int:
        """How many cells are too old."""
        return self._count(chosen.AGED_LEFT, forest, when)

    def aged_facts(self, forest: ForestId, when: When, limit: int | None = None) -> Sequence[Leaf]:
        """Facts that are too old, the oldest first, but those that go with a cell that is."""
        return self._leaves(chosen.AGED_FACTS, forest, when, limit)

    def aged_facts_left(self, forest: ForestId, when: When) -> int:
        """How many facts are too old, as above."""
        return self._count(chosen.AGED_FACTS_LEFT, forest, when)

    def digests(self, forest: ForestId, when: When) -> tuple[str, ...]:
        """Span and first day of the digests that are too old, the oldest first."""
        return tuple(self._db.scalars(chosen.DIGEST_NAMES, self._at(forest, when)))

    def digests_left(self, forest: ForestId, when: When) -> int:
        """How many digests are too old."""
        return self._count(chosen.DIGESTS_LEFT, forest, when)

    def drop_digests(self, forest: ForestId, when: When, limit: int) -> int:
        """Delete the oldest of them; how many. The caller holds the forest."""
        return self._drop(chosen.DROP_DIGESTS, forest, when, limit)

    def windows(self, forest: ForestId, when: When) -> tuple[str, ...]:
        """The caller's ids of sessions whose compacted text is too old, the oldest first."""
        return tuple(self._db.scalars(chosen.TEXT_NAMES, self._at(forest, when)))

    def windows_left(self, forest: ForestId, when: When) -> int:
        """How many compacted texts are too old."""
        return self._count(chosen.TEXTS_LEFT, forest, when)

    def drop_windows(self, forest: ForestId, when: When, limit: int) -> int:
        """Delete the oldest of them; how many. The caller holds the forest."""
        return self._drop(chosen.DROP_TEXTS, forest, when, limit)

    def items_left(self, forest: ForestId, when: When) -> int:
        """How many items of windows are too old."""
        return self._count(chosen.ITEMS_LEFT, forest, when)

    def drop_items(self, forest: ForestId, when: When, limit: int) -> int:
        """Delete the oldest of them; how many. The caller holds the forest."""
        return self._drop(chosen.DROP_ITEMS, forest, when, limit)

    def totals(self, forest: ForestId, when: When, *, bytes_too: bool) -> Totals:
        """What the forest holds, as if what is too old were gone already."""
        row = self._db.execute(chosen.TOTALS, self._at(forest, when) | {"bytes": bytes_too}).one()
        return Totals(
            row.facts, row.pinned, row.cells, row.bare_cells, int(row.bytes), row.pinned_sessions, row.pinned_turns
        )

    def facts_left(self, forest: ForestId, when: When) -> int:
        """Facts of the forest that were there at that moment, too old or not."""
        return self._count(chosen.FACTS_LEFT, forest, when)

    def bare_cells_left(self, forest: ForestId, when: When) -> int:
        """Cells of the forest that were there at that moment, too old or not, and on which no fact rests."""
        return self._count(chosen.BARE_LEFT, forest, when)

    def least_cells(self, forest: ForestId, when: When, limit: int) -> Sequence[Leaf]:
        """Cells on which neither a fact nor something pinned rests, in the order in which they go, ties by id."""
        return self._leaves(chosen.LEAST_CELLS[when.order], forest, when, limit)

    def least_facts(self, forest: ForestId, when: When, limit: int) -> Sequence[Leaf]:
        """Facts that are not pinned, nor said in what is: superseded ones first, then in the order in which they go,
        ties by key."""
        return self._leaves(chosen.LEAST_FACTS[when.order], forest, when, limit)

    def drop_stray_visits(self, forest: ForestId, limit: int) -> int:
        """Delete visits of rows that are gone; how many."""
        return self._db.execute(_DROP_STRAY, self._values(f=forest, n=limit)).rowcount

    def ask_sweep(self, subject: str, every_s: float) -> bool:
        """Ask for a run over all forests if there is a policy and none was asked for this long; whether it was."""
        kind = OperationKind.RETAIN
        due = self._db.scalar(_SWEEP_DUE, self._values(kind=kind.value, every=every_s))
        if due:
            self.tasks.enqueue(kind, subject, {}, Lane.BACKFILL)
        return bool(due)

    def _leaves(self, statement: sa.TextClause, forest: ForestId, when: When, limit: int | None) -> list[Leaf]:
        found = self._db.execute(statement, self._at(forest, when) | {"n": limit})
        return [Leaf(row.id, int(row.size), row.said_at.astimezone(UTC)) for row in found]

    def _count(self, statement: sa.TextClause, forest: ForestId, when: When) -> int:
        return int(self._db.execute(statement, self._at(forest, when)).scalar_one())

    def _drop(self, statement: sa.TextClause, forest: ForestId, when: When, limit: int) -> int:
        return self._db.execute(statement, self._at(forest, when) | {"n": limit}).rowcount

    def _at(self, forest: ForestId, when: When) -> dict[str, Any]:
        moments = {"cutoff": when.cutoff, "facts": when.facts, "digests": when.digests, "windows": when.windows}
        return self._values(f=forest, at=when.at, **moments)

    def _values(self, **values: object) -> dict[str, Any]:
        return {"t": self._tenant, **values}


def _stated(row: sa.Row[Any]) -> dict[str, Any]:
    """The fields of limits."""
    return {
        "max_age_days": _days(row.max_age_s),
        "max_facts": row.max_facts,
        "max_bytes": row.max_bytes,
        "fraction": row.fraction,
        "facts_max_age_days": _days(row.facts_max_age_s),
        "digests_max_age_days": _days(row.digests_max_age_s),
        "window_max_age_days": _days(row.window_max_age_s),
        "order": Order(row.first_out),
    }


def _days(seconds: int | None) -> float | None:
    return None if seconds is None else seconds / _DAY_S


def _seconds(days: float | None) -> int | None:
    return None if days is None else round(days * _DAY_S)


def _held_forest(row: sa.Row[Any]) -> HeldForest:
    # A policy always has its fraction; what it does not limit is not counted.
    limits = Limits(**_stated(row)) if row.fraction is not None else None
    over = any(
        most is not None and held > most for held, most in ((row.facts, row.max_facts), (row.bytes, row.max_bytes))
    )
    return HeldForest(ForestId(row.forest_id), limits, over or row.aged)


@contextmanager
def retaining(engine: sa.Engine, tenant: TenantId) -> Iterator[RetentionRows]:
    """One transaction of a tenant. Raises StoreUnavailable."""
    with tenant_transaction(engine, tenant) as connection:
        yield RetentionRows(connection, tenant)
