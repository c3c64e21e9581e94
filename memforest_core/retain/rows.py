"""Retention in Postgres: policies, what is too old, what a forest holds, and what is least worth keeping."""

# ruff: noqa: S608 - statements are made of constants of this module

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.domain.importance import FIRST_HALF_LIFE_DAYS, LONGEST_HALF_LIFE_DAYS, VISITS_PER_DOUBLING
from memforest_core.domain.operations import OperationKind
from memforest_core.retain.records import HeldForest, Leaf, Limits, Policy, Totals, When
from memforest_core.store import tables as m
from memforest_core.store.engine import tenant_transaction
from memforest_core.store.owners import visible
from memforest_core.work.jobs import Lane
from memforest_core.work.rows.operations import OperationRows

_DAY_S = 86_400
_DEFAULT = UUID(int=0)
"""The forest id under which the policy of all others is kept."""

_NIL = "CAST('00000000-0000-0000-0000-000000000000' AS uuid)"

_WORDS = """EXISTS (SELECT 1 FROM memforest.turn t WHERE t.tenant_id = :t AND t.session_id = c.session_id
                      AND t.ordinal BETWEEN c.first_turn AND c.last_turn AND NOT t.erased)"""
"""That a cell ``c`` still has words."""

_SETTLED = f"(c.placed OR c.state = 'dead') AND {_WORDS}"
"""That a cell ``c`` has words, and that extraction and placing of it are over."""


def _unheld(facts: str) -> str:
    """That nothing rests on a cell ``c`` of what ``facts`` selects, given occurrences ``o``: nor on another piece of
    the same long turn, which goes with it."""
    return f"""
        NOT EXISTS (SELECT 1 FROM memforest.occurrence o {facts} WHERE o.tenant_id = :t AND o.cell_id = c.cell_id)
        AND (c.char_start IS NULL OR NOT EXISTS (
            SELECT 1 FROM memforest.cell d JOIN memforest.occurrence o ON o.tenant_id = :t AND o.cell_id = d.cell_id
                   {facts}
             WHERE d.tenant_id = :t AND d.session_id = c.session_id AND d.first_turn = c.first_turn))
    """


_PINNED = "JOIN memforest.fact x ON x.tenant_id = :t AND x.fact_id = o.fact_id AND x.pinned"


def _aged(forest: str, cutoff: str) -> str:
    """Cells of a forest in which nothing is younger than a moment, and on which no pinned fact rests."""
    return f"""
        SELECT c.* FROM memforest.cell c
         WHERE c.tenant_id = :t AND c.forest_id = {forest} AND c.time_end < {cutoff} AND {_SETTLED}
           AND {_unheld(_PINNED)}
    """


_FACT_BYTES = (
    "SELECT coalesce(sum(octet_length(x.text)), 0) FROM memforest.fact x WHERE x.tenant_id = :t AND x.forest_id"
)
_TURN_BYTES = """SELECT coalesce(sum(octet_length(t.content)), 0) FROM memforest.session s
                   JOIN memforest.turn t ON t.tenant_id = :t AND t.session_id = s.session_id
                  WHERE s.tenant_id = :t AND s.forest_id"""


def _measured(chosen: str) -> sa.TextClause:
    """Live forests, each against the policy that holds for it: only what that limits is looked at."""
    return sa.text(f"""
        SELECT g.forest_id, p.max_age_s, p.max_facts, p.max_bytes, p.fraction,
               CASE WHEN p.max_facts IS NOT NULL THEN
                    (SELECT count(*) FROM memforest.fact x WHERE x.tenant_id = :t AND x.forest_id = g.forest_id) END
               AS facts,
               CASE WHEN p.max_bytes IS NOT NULL THEN
                    ({_FACT_BYTES} = g.forest_id) + ({_TURN_BYTES} = g.forest_id) END AS bytes,
               CASE WHEN p.max_age_s IS NOT NULL THEN
                    EXISTS ({_aged("g.forest_id", "CAST(:at AS timestamptz) - make_interval(secs => p.max_age_s)")})
                    ELSE false END AS aged
          FROM (SELECT forest_id FROM memforest.forest WHERE tenant_id = :t AND state = 'live' AND {chosen}) g
          LEFT JOIN LATERAL (
               SELECT * FROM memforest.retention_policy
                WHERE tenant_id = :t AND forest_id IN (g.forest_id, {_NIL})
                ORDER BY forest_id = {_NIL} LIMIT 1) p ON true
         ORDER BY g.forest_id
    """)


_HELD = _measured("forest_id = :f")
_HELD_AFTER = _measured("forest_id > :after ORDER BY forest_id LIMIT :n")

_AGED = sa.text(f"""
    SELECT c.cell_id AS id, octet_length(c.text) AS size, c.time_end AS said_at
      FROM ({_aged(":f", "CAST(:cutoff AS timestamptz)")}) c
     WHERE c.created_at <= :at ORDER BY c.time_end, c.cell_id LIMIT :n
""")

_AGED_LEFT = sa.text(
    f"SELECT count(*) FROM ({_aged(':f', 'CAST(:cutoff AS timestamptz)')}) c WHERE c.created_at <= :at"
)

# What is too old counts as gone, and with it the facts that rest on nothing else.
_WITH_AGED = f"""
    WITH aged AS MATERIALIZED ({_aged(":f", "CAST(:cutoff AS timestamptz)")} AND c.created_at <= :at),
    gone AS MATERIALIZED (
        SELECT DISTINCT o.fact_id FROM aged a JOIN memforest.occurrence o ON o.tenant_id = :t AND o.cell_id = a.cell_id
         WHERE NOT EXISTS (SELECT 1 FROM memforest.occurrence x LEFT JOIN aged y ON y.cell_id = x.cell_id
                            WHERE x.tenant_id = :t AND x.fact_id = o.fact_id AND y.cell_id IS NULL))
"""

_STAYS = "NOT EXISTS (SELECT 1 FROM gone WHERE gone.fact_id = x.fact_id)"

_BARE = f"""
    c.tenant_id = :t AND c.forest_id = :f AND c.created_at <= :at AND {_SETTLED}
    AND {_unheld("")}
"""
"""That a cell ``c`` has words of which no fact tells."""

_NOT_AGED = "NOT EXISTS (SELECT 1 FROM aged WHERE aged.cell_id = c.cell_id)"

_FACTS_LEFT = sa.text(
    "SELECT count(*) FROM memforest.fact WHERE tenant_id = :t AND forest_id = :f AND created_at <= :at"
)
_BARE_LEFT = sa.text(f"SELECT count(*) FROM memforest.cell c WHERE {_BARE}")

_TOTALS = sa.text(f"""
    {_WITH_AGED}
    SELECT (SELECT count(*) FROM memforest.fact x
             WHERE x.tenant_id = :t AND x.forest_id = :f AND x.created_at <= :at AND {_STAYS}) AS facts,
           (SELECT count(*) FROM memforest.fact x WHERE x.tenant_id = :t AND x.forest_id = :f AND x.pinned) AS pinned,
           (SELECT count(*) FROM memforest.cell c WHERE c.tenant_id = :t AND c.forest_id = :f AND c.created_at <= :at
               AND {_SETTLED} AND {_NOT_AGED}) AS cells,
           (SELECT count(*) FROM memforest.cell c WHERE {_BARE} AND {_NOT_AGED}) AS bare_cells,
           CASE WHEN CAST(:bytes AS boolean) THEN
               ({_FACT_BYTES} = :f AND {_STAYS}) + ({_TURN_BYTES} = :f
                    AND NOT EXISTS (SELECT 1 FROM aged WHERE aged.session_id = t.session_id
                                       AND t.ordinal BETWEEN aged.first_turn AND aged.last_turn)) ELSE 0 END AS bytes
""")


def _worth(said_at: str) -> str:
    """``domain.importance.retention`` of a row with its visits ``v``."""
    visits = "coalesce(v.visits, 0)"
    # Doublings beyond the longest half-life only risk an overflow.
    half_life = (
        f"least({LONGEST_HALF_LIFE_DAYS}, {FIRST_HALF_LIFE_DAYS}"
        f" * power(CAST(2 AS float8), least({visits} / {VISITS_PER_DOUBLING}, 64)))"
    )
    idle = (
        f"greatest(0, CAST(extract(epoch FROM CAST(:at AS timestamptz) - greatest({said_at}, v.last_visit_at))"
        " AS float8) / 86400)"
    )
    return f"ln(CAST(1 + {visits} AS float8)) / ln(CAST(2 AS float8)) - {idle} / {half_life}"


_LEAST_CELLS = sa.text(f"""
    {_WITH_AGED}
    SELECT c.cell_id AS id, c.time_end AS said_at, words.size
      FROM (SELECT c.*, {_worth("c.time_end")} AS worth FROM memforest.cell c
              LEFT JOIN memforest.visit v ON v.tenant_id = :t AND v.forest_id = :f AND v.item_id = c.cell_id
             WHERE {_BARE} AND {_NOT_AGED}
             ORDER BY worth, c.time_end, c.cell_id LIMIT :n) c
     CROSS JOIN LATERAL (
           SELECT coalesce(sum(octet_length(CASE WHEN c.char_start IS NULL THEN t.content
                      ELSE substr(t.content, c.char_start + 1, c.char_end - c.char_start) END)), 0) AS size
             FROM memforest.turn t WHERE t.tenant_id = :t AND t.session_id = c.session_id
              AND t.ordinal BETWEEN c.first_turn AND c.last_turn) words
     ORDER BY c.worth, c.time_end, c.cell_id
""")

_LEAST_FACTS = sa.text(f"""
    {_WITH_AGED}
    SELECT x.fact_id AS id, octet_length(x.text) AS size, x.mentioned_at AS said_at, {_worth("x.mentioned_at")} AS worth
      FROM memforest.fact x
      LEFT JOIN memforest.visit v ON v.tenant_id = :t AND v.forest_id = :f AND v.item_id = x.fact_id
     WHERE x.tenant_id = :t AND x.forest_id = :f AND NOT x.pinned AND x.created_at <= :at AND {_STAYS}
     ORDER BY x.superseded_at IS NULL, worth, x.key_time, x.key_ordinal, x.key_item, x.fact_id LIMIT :n
""")

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
        return Limits(*_stated(found)) if found is not None else None

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
        return [Policy(*_stated(row), owner=row.owner, updated_at=row.updated_at.astimezone(UTC)) for row in found]

    def forests_after(self, after: ForestId | None, limit: int, at: datetime) -> Sequence[HeldForest]:
        """The next live forests in order of ids, measured against the policy that holds for each."""
        found = self._db.execute(_HELD_AFTER, self._values(after=after or _DEFAULT, n=limit, at=at))
        return [_held_forest(row) for row in found]

    def held(self, forest: ForestId, at: datetime) -> HeldForest | None:
        """One forest; None unless it is live."""
        found = self._db.execute(_HELD, self._values(f=forest, at=at)).first()
        return _held_forest(found) if found is not None else None

    def aged_cells(self, forest: ForestId, when: When, limit: int | None = None) -> Sequence[Leaf]:
        """Cells whose turns are all too old, the oldest first; those in work, or with a pinned fact, are left out."""
        return self._leaves(_AGED, forest, when, limit)

    def aged_left(self, forest: ForestId, when: When) -> int:
        """How many cells are too old."""
        return int(self._db.execute(_AGED_LEFT, self._at(forest, when)).scalar_one())

    def totals(self, forest: ForestId, when: When, *, bytes_too: bool) -> Totals:
        """What the forest holds, as if what is too old were gone already."""
        row = self._db.execute(_TOTALS, self._at(forest, when) | {"bytes": bytes_too}).one()
        return Totals(row.facts, row.pinned, row.cells, row.bare_cells, int(row.bytes))

    def facts_left(self, forest: ForestId, when: When) -> int:
        """Facts of the forest that were there at that moment, too old or not."""
        return int(self._db.execute(_FACTS_LEFT, self._at(forest, when)).scalar_one())

    def bare_cells_left(self, forest: ForestId, when: When) -> int:
        """Cells of the forest that were there at that moment, too old or not, and on which no fact rests."""
        return int(self._db.execute(_BARE_LEFT, self._at(forest, when)).scalar_one())

    def least_cells(self, forest: ForestId, when: When, limit: int) -> Sequence[Leaf]:
        """Cells on which no fact rests, those least worth keeping first, ties by id."""
        return self._leaves(_LEAST_CELLS, forest, when, limit)

    def least_facts(self, forest: ForestId, when: When, limit: int) -> Sequence[Leaf]:
        """Unpinned facts, superseded ones first, then those least worth keeping, ties by key."""
        return self._leaves(_LEAST_FACTS, forest, when, limit)

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

    def _at(self, forest: ForestId, when: When) -> dict[str, Any]:
        return self._values(f=forest, at=when.at, cutoff=when.cutoff)

    def _values(self, **values: object) -> dict[str, Any]:
        return {"t": self._tenant, **values}


def _stated(row: sa.Row[Any]) -> tuple[float | None, int | None, int | None, float]:
    """The fields of limits."""
    days = None if row.max_age_s is None else row.max_age_s / _DAY_S
    return days, row.max_facts, row.max_bytes, row.fraction


def _held_forest(row: sa.Row[Any]) -> HeldForest:
    # A policy always has its fraction; what it does not limit is not counted.
    limits = Limits(*_stated(row)) if row.fraction is not None else None
    over = any(
        most is not None and held > most for held, most in ((row.facts, row.max_facts), (row.bytes, row.max_bytes))
    )
    return HeldForest(ForestId(row.forest_id), limits, over or row.aged)


@contextmanager
def retaining(engine: sa.Engine, tenant: TenantId) -> Iterator[RetentionRows]:
    """One transaction of a tenant. Raises StoreUnavailable."""
    with tenant_transaction(engine, tenant) as connection:
        yield RetentionRows(connection, tenant)
