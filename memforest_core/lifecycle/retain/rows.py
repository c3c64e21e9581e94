"""Retention in Postgres: policies, what is too old, how large a forest is, and what is least important in it."""

# ruff: noqa: S608 - statements are made of constants of this package

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from memforest_core.domain.ids import ForestId
from memforest_core.domain.operation_rules import OperationKind
from memforest_core.domain.temperature import Decay
from memforest_core.lifecycle.erase.rows.targets import free_cell, free_fact, free_item, free_text, free_time
from memforest_core.lifecycle.retain.records import (
    AGE_OF,
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
from memforest_core.store.topics import COOLABLE
from memforest_core.store.trees import MEMBERS, members
from memforest_core.work.jobs import Lane
from memforest_core.work.rows.operation_rows import OperationRows

_WORDS = """EXISTS (SELECT 1 FROM memforest.turn t WHERE t.tenant_id = :t AND t.session_id = c.session_id
                      AND t.ordinal BETWEEN c.first_turn AND c.last_turn AND NOT t.erased)"""
"""That a cell ``c`` still has words."""

_SETTLED = f"(c.placed OR c.state = 'dead') AND {_WORDS}"
"""That a cell ``c`` has words, and that extraction and placing of it are over."""


def _moment(name: str) -> str:
    return f"CAST(:{name} AS timestamptz)"


def old_cells(forest: str, cutoff: str) -> str:
    """Cells of a forest in which nothing is younger than a timestamp, and on which nothing pinned rests."""
    return f"""
        SELECT c.* FROM memforest.cell c
         WHERE c.tenant_id = :t AND c.forest_id = {forest} AND c.time_end < {cutoff} AND {_SETTLED}
           AND {free_cell(forest)}
    """


def faded_cells(forest: str, cutoff: str) -> str:
    """Cells of a forest of topics that are cold since before a timestamp, which no other topic and nothing pinned
    needs."""
    faded = f"coalesce(r.cold_at < {cutoff}, false)"

    def needed(by: str) -> str:
        return f"""(EXISTS (SELECT 1 FROM memforest.occurrence o
                    CROSS JOIN {members("q.payload_id = o.fact_id")} b
                     JOIN memforest.tree r ON r.tenant_id = :t AND r.tree_id = b.tree_id AND {COOLABLE}
                    WHERE o.tenant_id = :t AND o.cell_id = c.cell_id AND {by})
            OR EXISTS (SELECT 1 FROM memforest.turn_topic w
                     JOIN memforest.tree r ON r.tenant_id = :t AND r.tree_id = w.tree_id
                    WHERE w.tenant_id = :t AND w.session_id = c.session_id
                      AND w.ordinal BETWEEN c.first_turn AND c.last_turn AND {by}))"""

    return f"""
        SELECT c.* FROM memforest.cell c
         WHERE c.tenant_id = :t AND c.forest_id = {forest} AND {_SETTLED}
           AND {needed(faded)} AND NOT {needed(f"NOT {faded}")} AND {free_cell(forest)}
    """


def old_facts(forest: str, cutoff: str) -> str:
    """Facts of a forest that were said at no later timestamp, and nowhere in what is pinned."""
    return f"""
        SELECT x.* FROM memforest.fact x
         WHERE x.tenant_id = :t AND x.forest_id = {forest} AND NOT x.pinned AND x.mentioned_at < {cutoff}
           AND NOT EXISTS (SELECT 1 FROM memforest.occurrence o
                             JOIN memforest.cell c ON c.tenant_id = :t AND c.cell_id = o.cell_id
                            WHERE o.tenant_id = :t AND o.fact_id = x.fact_id AND c.time_end >= {cutoff})
           AND {free_fact(forest)}
    """


def _old_rows(table: str, ended: str, free: Callable[[str], str]) -> Callable[[str, str], str]:
    """Rows ``d`` of a forest that can be made again, are over since before a timestamp, and of nothing pinned."""

    def old(forest: str, cutoff: str) -> str:
        return f"""
        SELECT d.* FROM memforest.{table} d
         WHERE d.tenant_id = :t AND d.forest_id = {forest} AND d.{ended} < {cutoff} AND {free(forest)}
    """

    return old


_ROWS = {
    Phase.DIGESTS: ("calendar_digest", "end_at", "forest_id, span, first_day, person", free_time),
    Phase.WINDOWS: ("session_window", "updated_at", "session_id", free_text),
    Phase.WINDOW_ITEMS: ("window_item", "put_at", "session_id, item_id", free_item),
}
"""Kinds of rows that can be made again: table, column of their age, key, and what they must not rest on."""

_OLD: Mapping[Phase, Callable[[str, str], str]] = {
    **{phase: _old_rows(table, ended, free) for phase, (table, ended, _, free) in _ROWS.items()},
    Phase.AGED: old_cells,
    Phase.FADED: faded_cells,
    Phase.AGED_FACTS: old_facts,
}

_FACT_BYTES = (
    "SELECT coalesce(sum(octet_length(x.text)), 0) FROM memforest.fact x WHERE x.tenant_id = :t AND x.forest_id"
)
_PACK = "LEFT JOIN memforest.turn_pack k ON k.tenant_id = :t AND k.pack = t.pack"
# Packed turns have the mean of their pack, which is right in sum.
_TURN_SIZE = "coalesce(octet_length(t.content), k.text_bytes / k.turns)"
_TURN_BYTES = f"""SELECT coalesce(sum({_TURN_SIZE}), 0) FROM memforest.session s
                   JOIN memforest.turn t ON t.tenant_id = :t AND t.session_id = s.session_id {_PACK}
                  WHERE s.tenant_id = :t AND s.forest_id"""

_NIL = "CAST('00000000-0000-0000-0000-000000000000' AS uuid)"


def _over_age() -> str:
    """That a forest ``g`` has something that is too old by its policy ``p``; what that does not limit is not read."""

    def exists(phase: Phase) -> str:
        age = AGES[AGE_OF[phase]].replace("_days", "_s")
        cutoff = f"{_moment('at')} - make_interval(secs => p.{age})"
        return f"CASE WHEN p.{age} IS NULL THEN false ELSE EXISTS ({_OLD[phase]('g.forest_id', cutoff)}) END"

    return " OR ".join(map(exists, (Phase.AGED, Phase.FADED, Phase.AGED_FACTS, *_ROWS)))


def _measuring(chosen: str) -> sa.TextClause:
    """Live forests, each with the policy that applies to it; what that does not limit is not counted."""
    return sa.text(f"""
        SELECT g.forest_id, p.max_age_s, p.facts_max_age_s, p.digests_max_age_s, p.window_max_age_s,
               p.faded_max_age_s, p.max_facts, p.max_bytes, p.fraction, p.first_out,
               CASE WHEN p.max_facts IS NOT NULL THEN
                    (SELECT count(*) FROM memforest.fact x WHERE x.tenant_id = :t AND x.forest_id = g.forest_id) END
               AS facts,
               CASE WHEN p.max_bytes IS NOT NULL THEN
                    ({_FACT_BYTES} = g.forest_id) + ({_TURN_BYTES} = g.forest_id) END AS bytes,
               {_over_age()} AS aged
          FROM (SELECT forest_id FROM memforest.forest WHERE tenant_id = :t AND state = 'live' AND {chosen}) g
          LEFT JOIN LATERAL (
               SELECT * FROM memforest.retention_policy
                WHERE tenant_id = :t AND forest_id IN (g.forest_id, {_NIL})
                ORDER BY forest_id = {_NIL} LIMIT 1) p ON true
         ORDER BY g.forest_id
    """)


def _old(phase: Phase) -> str:
    """What is too old of a kind, of what was there when the run began."""
    since = " WHERE d.made_at <= :at" if phase is Phase.DIGESTS else ""
    return f"({_OLD[phase](':f', _moment(AGE_OF[phase]))}) d{since}"


_FADED = f"""({faded_cells(":f", _moment("faded"))}) c
     WHERE c.created_at <= :at AND NOT coalesce(c.time_end < {_moment("cutoff")}, false)"""
_AGED = f"({old_cells(':f', _moment('cutoff'))}) c WHERE c.created_at <= :at"

# What is too old counts as gone: cells with the facts that rest on nothing else, then facts.
_WITH_AGED = f"""
    WITH aged AS MATERIALIZED (SELECT c.* FROM {_AGED} UNION ALL SELECT c.* FROM {_FADED}),
    bared AS MATERIALIZED (
        SELECT DISTINCT o.fact_id FROM aged a JOIN memforest.occurrence o ON o.tenant_id = :t AND o.cell_id = a.cell_id
         WHERE NOT EXISTS (SELECT 1 FROM memforest.occurrence x LEFT JOIN aged y ON y.cell_id = x.cell_id
                            WHERE x.tenant_id = :t AND x.fact_id = o.fact_id AND y.cell_id IS NULL)),
    faded AS MATERIALIZED (
        SELECT x.fact_id, octet_length(x.text) AS size, x.mentioned_at
          FROM ({old_facts(":f", _moment("facts"))}) x
         WHERE x.created_at <= :at AND NOT EXISTS (SELECT 1 FROM bared WHERE bared.fact_id = x.fact_id)),
    gone AS MATERIALIZED (SELECT fact_id FROM bared UNION ALL SELECT fact_id FROM faded)
"""

_STAYS = "NOT EXISTS (SELECT 1 FROM gone WHERE gone.fact_id = x.fact_id)"
_NOT_AGED = "NOT EXISTS (SELECT 1 FROM aged WHERE aged.cell_id = c.cell_id)"


def _bare(counts: str) -> str:
    """That a cell ``c`` has words on which no fact rests: ``counts`` says which occurrences ``o`` count. Nor does one
    rest on another part of the same long turn, which goes with it."""
    return f"""
        c.tenant_id = :t AND c.forest_id = :f AND c.created_at <= :at AND {_SETTLED}
        AND NOT EXISTS (SELECT 1 FROM memforest.occurrence o
                         WHERE o.tenant_id = :t AND o.cell_id = c.cell_id AND {counts})
        AND (c.char_start IS NULL OR NOT EXISTS (
            SELECT 1 FROM memforest.cell d JOIN memforest.occurrence o ON o.tenant_id = :t AND o.cell_id = d.cell_id
             WHERE d.tenant_id = :t AND d.session_id = c.session_id AND d.first_turn = c.first_turn AND {counts}))
    """


_BARE = f"{_bare('NOT EXISTS (SELECT 1 FROM gone WHERE gone.fact_id = o.fact_id)')} AND {_NOT_AGED}"

TOTALS = sa.text(f"""
    {_WITH_AGED}
    SELECT (SELECT count(*) FROM memforest.fact x
             WHERE x.tenant_id = :t AND x.forest_id = :f AND x.created_at <= :at AND {_STAYS}) AS facts,
           (SELECT count(*) FROM memforest.fact x
             WHERE x.tenant_id = :t AND x.forest_id = :f AND x.pinned) AS pinned_facts,
           (SELECT count(*) FROM memforest.session s
             WHERE s.tenant_id = :t AND s.forest_id = :f AND s.pinned) AS pinned_sessions,
           (SELECT count(*) FROM memforest.turn t
              JOIN memforest.session s ON s.tenant_id = :t AND s.session_id = t.session_id AND s.forest_id = :f
             WHERE t.tenant_id = :t AND t.pinned) AS pinned_turns,
           (SELECT count(*) FROM memforest.cell c WHERE c.tenant_id = :t AND c.forest_id = :f AND c.created_at <= :at
               AND {_SETTLED} AND {_NOT_AGED}) AS cells,
           (SELECT count(*) FROM memforest.cell c WHERE {_BARE}) AS bare_cells,
           CASE WHEN CAST(:bytes AS boolean) THEN
               ({_FACT_BYTES} = :f AND {_STAYS}) + ({_TURN_BYTES} = :f
                    AND NOT EXISTS (SELECT 1 FROM aged WHERE aged.session_id = t.session_id
                                       AND t.ordinal BETWEEN aged.first_turn AND aged.last_turn)) ELSE 0 END AS bytes
""")


_DECAY = Decay()


def _worth(since: str, visits: str = "coalesce(v.visits, 0)") -> str:
    """What so many visits are worth, idle ``since``: the lowest is forgotten first.

    The logarithm to base 2 of ``(1 + visits) x 0.5^(idle days / half-life)`` (DESIGN 9): one more visit adds weight and
    may lengthen the half-life, each half-life without a visit takes 1. As a logarithm it orders rows of any age: the
    product itself is 0.0 in floating point after three unvisited years.
    """
    # Doublings beyond the longest half-life only risk an overflow.
    half_life = (
        f"least({_DECAY.longest_half_life_s / 86_400}, {_DECAY.half_life_s / 86_400}"
        f" * power(CAST(2 AS float8), least({visits} / {_DECAY.accesses_per_doubling}, 64)))"
    )
    idle = f"greatest(0, CAST(extract(epoch FROM CAST(:at AS timestamptz) - {since}) AS float8) / 86400)"
    return f"ln(CAST(1 + {visits} AS float8)) / ln(CAST(2 AS float8)) - {idle} / {half_life}"


_NEAR = """(SELECT b.visits / CAST(count(*) AS float8) AS visits, b.last_visit_at
               FROM memforest.node leaf
               JOIN memforest.visit b ON b.tenant_id = :t AND b.item_id = leaf.parent_id
               JOIN memforest.node n ON n.tenant_id = :t AND n.parent_id = leaf.parent_id
              WHERE leaf.tenant_id = :t AND leaf.payload_id = {id}
              GROUP BY b.item_id, b.visits, b.last_visit_at) near"""
"""The lowest nodes above an item, in each of its trees: the mean visits of what is below, and the last one."""


def _relevance(id_: str) -> str:
    """How much an item, or at a mean its neighbours in a tree, was returned of late; NULL for never."""
    own = f"CASE WHEN v.visits > 0 THEN {_worth('v.last_visit_at', 'v.visits')} END"
    near = _worth("near.last_visit_at", "near.visits")
    return f"greatest({own}, (SELECT max({near}) FROM {_NEAR.format(id=id_)}))"


_MOST_LINKS = 100
"""Facts of one state that are counted: each of them reads the others."""


def _links(id_: str) -> str:
    """How many things an item is connected with: scopes that have it, where it was said, facts that it corrected, and
    others of the same state."""
    return f"""
        (SELECT count(*) FROM {MEMBERS} p WHERE p.tenant_id = :t AND p.payload_id = {id_})
      + (SELECT count(*) FROM memforest.occurrence o WHERE o.tenant_id = :t AND o.fact_id = {id_})
      + (SELECT count(*) FROM memforest.fact y WHERE y.tenant_id = :t AND y.superseded_by = {id_})
      + (SELECT count(*) FROM (
            SELECT 1 FROM memforest.fact y
              JOIN memforest.fact z ON z.tenant_id = :t AND z.forest_id = :f AND z.subject_key = y.subject_key
                   AND z.attribute = y.attribute AND z.fact_id <> y.fact_id
             WHERE y.tenant_id = :t AND y.fact_id = {id_} AND y.attribute <> '' LIMIT {_MOST_LINKS}) same)"""


def _first(order: Order, id_: str, said_at: str) -> str:
    """What a policy's order compares, the lowest goes first; what was never visited before what was."""
    match order:
        case Order.VISITS:
            return f"v.last_visit_at NULLS FIRST, coalesce(v.visits, 0), {said_at}"
        case Order.RELEVANCE:
            return f"{_relevance(id_)} NULLS FIRST, {said_at}"
        case Order.CENTRALITY:
            return f"{_links(id_)}, {said_at}"
        case Order.AGE:
            return _worth(f"greatest({said_at}, v.last_visit_at)")


def _least_cells(order: Order) -> sa.TextClause:
    """Cells on which neither a fact nor something pinned rests, in the order in which they go, ties by id."""
    first = _first(order, "c.cell_id", "c.time_end")
    return sa.text(f"""
    {_WITH_AGED}
    SELECT c.cell_id AS id, words.size
      FROM (SELECT c.*, row_number() OVER (ORDER BY {first}, c.time_end, c.cell_id) AS place
              FROM memforest.cell c
              LEFT JOIN memforest.visit v ON v.tenant_id = :t AND v.forest_id = :f AND v.item_id = c.cell_id
             WHERE {_BARE} AND {free_cell(":f")}
             ORDER BY place LIMIT :n) c
     CROSS JOIN LATERAL (
           SELECT coalesce(sum(CASE WHEN c.char_start IS NULL OR t.content IS NULL THEN {_TURN_SIZE}
                      ELSE octet_length(substr(t.content, c.char_start + 1, c.char_end - c.char_start)) END), 0) AS size
             FROM memforest.turn t {_PACK} WHERE t.tenant_id = :t AND t.session_id = c.session_id
              AND t.ordinal BETWEEN c.first_turn AND c.last_turn) words
     ORDER BY c.place
""")


def _least_facts(order: Order) -> sa.TextClause:
    """Facts that are not pinned, nor said in what is: superseded ones first, then as they go, ties by key."""
    return sa.text(f"""
    {_WITH_AGED}
    SELECT x.fact_id AS id, octet_length(x.text) AS size
      FROM memforest.fact x
      LEFT JOIN memforest.visit v ON v.tenant_id = :t AND v.forest_id = :f AND v.item_id = x.fact_id
     WHERE x.tenant_id = :t AND x.forest_id = :f AND NOT x.pinned AND x.created_at <= :at AND {_STAYS}
       AND {free_fact(":f")}
     ORDER BY x.superseded_at IS NULL, {_first(order, "x.fact_id", "x.mentioned_at")}, x.key_time, x.key_ordinal,
              x.key_item, x.fact_id LIMIT :n
""")


COUNTS: Mapping[Phase, sa.TextClause] = {
    **{phase: sa.text(f"SELECT count(*) FROM {_old(phase)}") for phase in _ROWS},
    Phase.AGED: sa.text(f"SELECT count(*) FROM {_AGED}"),
    Phase.FADED: sa.text(f"SELECT count(*) FROM {_FADED}"),
    Phase.AGED_FACTS: sa.text(f"{_WITH_AGED} SELECT count(*) FROM faded"),
    Phase.WORDS: sa.text(f"SELECT count(*) FROM memforest.cell c WHERE {_bare('true')}"),
    Phase.FACTS: sa.text(
        "SELECT count(*) FROM memforest.fact WHERE tenant_id = :t AND forest_id = :f AND created_at <= :at"
    ),
}
"""How much there is of each kind: what is too old, or (words and facts) what was there when the run began."""

FIRST: Mapping[Phase, Mapping[Order, sa.TextClause]] = {
    **{
        phase: dict.fromkeys(
            Order,
            sa.text(f"""
    SELECT c.cell_id AS id, octet_length(c.text) AS size FROM {cells}
     ORDER BY c.time_end, c.cell_id LIMIT :n
"""),
        )
        for phase, cells in {Phase.AGED: _AGED, Phase.FADED: _FADED}.items()
    },
    Phase.AGED_FACTS: dict.fromkeys(
        Order,
        sa.text(f"""
    {_WITH_AGED}
    SELECT fact_id AS id, size FROM faded ORDER BY mentioned_at, fact_id LIMIT :n
"""),
    ),
    Phase.WORDS: {order: _least_cells(order) for order in Order},
    Phase.FACTS: {order: _least_facts(order) for order in Order},
}
"""The leaves of each kind that go first, by the order of a run."""

NAMES: Mapping[Phase, sa.TextClause] = {
    Phase.DIGESTS: sa.text(f"""
    SELECT concat_ws(' ', d.span, d.first_day, nullif(d.person, '')) FROM {_old(Phase.DIGESTS)}
     ORDER BY d.end_at, d.span, d.first_day, d.person
"""),
    Phase.WINDOWS: sa.text(f"""
    SELECT s.external_id FROM {_old(Phase.WINDOWS)}
      JOIN memforest.session s ON s.tenant_id = :t AND s.session_id = d.session_id
     ORDER BY d.updated_at, d.session_id
"""),
}

DROPS: Mapping[Phase, sa.TextClause] = {
    phase: sa.text(f"""
    DELETE FROM memforest.{table} WHERE tenant_id = :t AND ({key}) IN (
        SELECT {key} FROM {_old(phase)} ORDER BY {ended}, {key} LIMIT :n)
""")
    for phase, (table, ended, key, _) in _ROWS.items()
}

_DAY_S = 86_400
_DEFAULT = UUID(int=0)
"""The forest id under which the policy of all others is stored."""

_ONE_FOREST = _measuring("forest_id = :f")
_FORESTS_AFTER = _measuring("forest_id > :after ORDER BY forest_id LIMIT :n")

_DROP_STRAY = sa.text("""
    DELETE FROM memforest.visit WHERE tenant_id = :t AND item_id IN (
        SELECT v.item_id FROM memforest.visit v
         WHERE v.tenant_id = :t AND v.forest_id = :f
           AND NOT EXISTS (SELECT 1 FROM memforest.fact x WHERE x.tenant_id = :t AND x.fact_id = v.item_id)
           AND NOT EXISTS (SELECT 1 FROM memforest.cell x WHERE x.tenant_id = :t AND x.cell_id = v.item_id)
           AND NOT EXISTS (SELECT 1 FROM memforest.node x WHERE x.tenant_id = :t AND x.node_id = v.item_id)
           AND NOT EXISTS (SELECT 1 FROM memforest.tree x WHERE x.tenant_id = :t AND x.tree_id = v.item_id)
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
        return self._delete(m.RetentionPolicy.forest_id, [forest or _DEFAULT]) == 1

    def limits_for(self, forest: ForestId) -> Limits | None:
        """The limits that apply to a forest: its own, or those of the tenant's other forests."""
        policy = m.RetentionPolicy
        found = self._db.execute(
            self._select(policy.__table__)
            .where(policy.forest_id.in_([forest, _DEFAULT]))
            .order_by(policy.forest_id == _DEFAULT)
        ).first()
        return Limits(**_stated(found)) if found is not None else None

    def policies(self) -> Sequence[Policy]:
        """All policies, the tenant's first, then by owner."""
        policy, forest = m.RetentionPolicy, m.Forest
        same = sa.and_(forest.tenant_id == self._tenant, forest.forest_id == policy.forest_id, visible())
        found = self._db.execute(
            self._select(policy.__table__, forest.owner)
            .outerjoin(forest, same)
            .where(forest.owner.is_not(None) | (policy.forest_id == _DEFAULT))
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
        """What is too old of a kind; of words without facts, and of facts, those that were there when the run began."""
        return int(self._chosen(COUNTS[phase], forest, when).scalar_one())

    def first(self, phase: Phase, forest: ForestId, when: When, limit: int | None = None) -> list[Leaf]:
        """The leaves that a phase removes, in order, without cells in work, what is pinned, and facts of such."""
        found = self._chosen(FIRST[phase][when.order], forest, when, n=limit)
        return [Leaf(row.id, int(row.size)) for row in found]

    def names(self, phase: Phase, forest: ForestId, when: When) -> tuple[str, ...]:
        """Digests that are too old by span and first day, or sessions whose compacted text is, the oldest first."""
        return tuple(self._chosen(NAMES[phase], forest, when).scalars())

    def drop(self, phase: Phase, forest: ForestId, when: When, limit: int) -> int:
        """Delete the oldest rows of a kind that can be made again; how many. The caller has locked the forest."""
        return self._chosen(DROPS[phase], forest, when, n=limit).rowcount

    def totals(self, forest: ForestId, when: When, *, bytes_too: bool) -> Totals:
        """The size of the forest, as if what is too old were gone already."""
        row = self._chosen(TOTALS, forest, when, bytes=bytes_too).one()
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
