"""Statements that select what a policy removes: what is too old of each kind, and what goes first of the rest."""

# ruff: noqa: S608 - statements are made of constants of this package

from __future__ import annotations

from collections.abc import Callable, Mapping

import sqlalchemy as sa

from memforest_core.domain.temperature import Decay
from memforest_core.lifecycle.erase.rows.targets import free_cell, free_fact, free_item, free_text, free_time
from memforest_core.lifecycle.retain.records import AGE_OF, AGES, Order, Phase

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
    Phase.DIGESTS: ("calendar_digest", "end_at", "forest_id, span, first_day", free_time),
    Phase.WINDOWS: ("session_window", "updated_at", "session_id", free_text),
    Phase.WINDOW_ITEMS: ("window_item", "put_at", "session_id, item_id", free_item),
}
"""Kinds of rows that can be made again: table, column of their age, key, and what they must not rest on."""

_OLD: Mapping[Phase, Callable[[str, str], str]] = {
    **{phase: _old_rows(table, ended, free) for phase, (table, ended, _, free) in _ROWS.items()},
    Phase.AGED: old_cells,
    Phase.AGED_FACTS: old_facts,
}

_FACT_BYTES = (
    "SELECT coalesce(sum(octet_length(x.text)), 0) FROM memforest.fact x WHERE x.tenant_id = :t AND x.forest_id"
)
_TURN_BYTES = """SELECT coalesce(sum(octet_length(t.content)), 0) FROM memforest.session s
                   JOIN memforest.turn t ON t.tenant_id = :t AND t.session_id = s.session_id
                  WHERE s.tenant_id = :t AND s.forest_id"""

_NIL = "CAST('00000000-0000-0000-0000-000000000000' AS uuid)"


def _over_age() -> str:
    """That a forest ``g`` has something that is too old by its policy ``p``; what that does not limit is not read."""

    def exists(phase: Phase) -> str:
        age = AGES[AGE_OF[phase]].replace("_days", "_s")
        cutoff = f"{_moment('at')} - make_interval(secs => p.{age})"
        return f"CASE WHEN p.{age} IS NULL THEN false ELSE EXISTS ({_OLD[phase]('g.forest_id', cutoff)}) END"

    return " OR ".join(map(exists, (Phase.AGED, Phase.AGED_FACTS, *_ROWS)))


def measured(chosen: str) -> sa.TextClause:
    """Live forests, each with the policy that applies to it; what that does not limit is not counted."""
    return sa.text(f"""
        SELECT g.forest_id, p.max_age_s, p.facts_max_age_s, p.digests_max_age_s, p.window_max_age_s, p.max_facts,
               p.max_bytes, p.fraction, p.first_out,
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


_AGED = f"({old_cells(':f', _moment('cutoff'))}) c WHERE c.created_at <= :at"

# What is too old counts as gone: cells with the facts that rest on nothing else, then facts.
_WITH_AGED = f"""
    WITH aged AS MATERIALIZED (SELECT c.* FROM {_AGED}),
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


def _worth(said_at: str) -> str:
    """What a row with its visits ``v`` is worth: the lowest is forgotten first.

    The logarithm to base 2 of ``(1 + visits) x 0.5^(idle days / half-life)`` (DESIGN 9): one more visit adds weight and
    may lengthen the half-life, each half-life without a visit takes 1. As a logarithm it orders rows of any age: the
    product itself is 0.0 in floating point after three unvisited years.
    """
    visits = "coalesce(v.visits, 0)"
    # Doublings beyond the longest half-life only risk an overflow.
    half_life = (
        f"least({_DECAY.longest_half_life_s / 86_400}, {_DECAY.half_life_s / 86_400}"
        f" * power(CAST(2 AS float8), least({visits} / {_DECAY.accesses_per_doubling}, 64)))"
    )
    idle = (
        f"greatest(0, CAST(extract(epoch FROM CAST(:at AS timestamptz) - greatest({said_at}, v.last_visit_at))"
        " AS float8) / 86400)"
    )
    return f"ln(CAST(1 + {visits} AS float8)) / ln(CAST(2 AS float8)) - {idle} / {half_life}"


def _first(order: Order, said_at: str) -> str:
    """What a policy's order compares, the lowest goes first; what was never visited before what was."""
    if order is Order.VISITS:
        return f"v.last_visit_at NULLS FIRST, coalesce(v.visits, 0), {said_at}"
    return _worth(said_at)


def _least_cells(order: Order) -> sa.TextClause:
    """Cells on which neither a fact nor something pinned rests, in the order in which they go, ties by id."""
    return sa.text(f"""
    {_WITH_AGED}
    SELECT c.cell_id AS id, c.time_end AS said_at, words.size
      FROM (SELECT c.*, row_number() OVER (ORDER BY {_first(order, "c.time_end")}, c.time_end, c.cell_id) AS place
              FROM memforest.cell c
              LEFT JOIN memforest.visit v ON v.tenant_id = :t AND v.forest_id = :f AND v.item_id = c.cell_id
             WHERE {_BARE} AND {free_cell(":f")}
             ORDER BY place LIMIT :n) c
     CROSS JOIN LATERAL (
           SELECT coalesce(sum(octet_length(CASE WHEN c.char_start IS NULL THEN t.content
                      ELSE substr(t.content, c.char_start + 1, c.char_end - c.char_start) END)), 0) AS size
             FROM memforest.turn t WHERE t.tenant_id = :t AND t.session_id = c.session_id
              AND t.ordinal BETWEEN c.first_turn AND c.last_turn) words
     ORDER BY c.place
""")


def _least_facts(order: Order) -> sa.TextClause:
    """Facts that are not pinned, nor said in what is: superseded ones first, then as they go, ties by key."""
    return sa.text(f"""
    {_WITH_AGED}
    SELECT x.fact_id AS id, octet_length(x.text) AS size, x.mentioned_at AS said_at
      FROM memforest.fact x
      LEFT JOIN memforest.visit v ON v.tenant_id = :t AND v.forest_id = :f AND v.item_id = x.fact_id
     WHERE x.tenant_id = :t AND x.forest_id = :f AND NOT x.pinned AND x.created_at <= :at AND {_STAYS}
       AND {free_fact(":f")}
     ORDER BY x.superseded_at IS NULL, {_first(order, "x.mentioned_at")}, x.key_time, x.key_ordinal, x.key_item,
              x.fact_id LIMIT :n
""")


COUNTS: Mapping[Phase, sa.TextClause] = {
    **{phase: sa.text(f"SELECT count(*) FROM {_old(phase)}") for phase in _ROWS},
    Phase.AGED: sa.text(f"SELECT count(*) FROM {_AGED}"),
    Phase.AGED_FACTS: sa.text(f"{_WITH_AGED} SELECT count(*) FROM faded"),
    Phase.WORDS: sa.text(f"SELECT count(*) FROM memforest.cell c WHERE {_bare('true')}"),
    Phase.FACTS: sa.text(
        "SELECT count(*) FROM memforest.fact WHERE tenant_id = :t AND forest_id = :f AND created_at <= :at"
    ),
}
"""How much there is of each kind: what is too old, or (words and facts) what was there when the run began."""

FIRST: Mapping[Phase, Mapping[Order, sa.TextClause]] = {
    Phase.AGED: dict.fromkeys(
        Order,
        sa.text(f"""
    SELECT c.cell_id AS id, octet_length(c.text) AS size, c.time_end AS said_at FROM {_AGED}
     ORDER BY c.time_end, c.cell_id LIMIT :n
"""),
    ),
    Phase.AGED_FACTS: dict.fromkeys(
        Order,
        sa.text(f"""
    {_WITH_AGED}
    SELECT fact_id AS id, size, mentioned_at AS said_at FROM faded ORDER BY mentioned_at, fact_id LIMIT :n
"""),
    ),
    Phase.WORDS: {order: _least_cells(order) for order in Order},
    Phase.FACTS: {order: _least_facts(order) for order in Order},
}
"""The leaves of each kind that go first, by the order of a run."""

NAMES: Mapping[Phase, sa.TextClause] = {
    Phase.DIGESTS: sa.text(
        f"SELECT concat_ws(' ', d.span, d.first_day) FROM {_old(Phase.DIGESTS)} ORDER BY d.end_at, d.span, d.first_day"
    ),
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
