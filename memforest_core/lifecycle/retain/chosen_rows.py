"""The statements that choose what a policy takes: what is too old of each kind, and what goes first of the rest."""

# ruff: noqa: S608 - statements are made of constants of this package

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa

from memforest_core.domain.importance import FIRST_HALF_LIFE_DAYS, LONGEST_HALF_LIFE_DAYS, VISITS_PER_DOUBLING
from memforest_core.lifecycle.erase.rows.pinned import free_cell, free_fact, free_item, free_text, free_time
from memforest_core.lifecycle.retain.records import Order

_WORDS = """EXISTS (SELECT 1 FROM memforest.turn t WHERE t.tenant_id = :t AND t.session_id = c.session_id
                      AND t.ordinal BETWEEN c.first_turn AND c.last_turn AND NOT t.erased)"""
"""That a cell ``c`` still has words."""

_SETTLED = f"(c.placed OR c.state = 'dead') AND {_WORDS}"
"""That a cell ``c`` has words, and that extraction and placing of it are over."""


def _moment(name: str) -> str:
    return f"CAST(:{name} AS timestamptz)"


def old_cells(forest: str, cutoff: str) -> str:
    """Cells of a forest in which nothing is younger than a moment, and on which nothing pinned rests."""
    return f"""
        SELECT c.* FROM memforest.cell c
         WHERE c.tenant_id = :t AND c.forest_id = {forest} AND c.time_end < {cutoff} AND {_SETTLED}
           AND {free_cell(forest)}
    """


def old_facts(forest: str, cutoff: str) -> str:
    """Facts of a forest that were said at no later moment, and nowhere in what is pinned."""
    return f"""
        SELECT x.* FROM memforest.fact x
         WHERE x.tenant_id = :t AND x.forest_id = {forest} AND NOT x.pinned AND x.mentioned_at < {cutoff}
           AND NOT EXISTS (SELECT 1 FROM memforest.occurrence o
                             JOIN memforest.cell c ON c.tenant_id = :t AND c.cell_id = o.cell_id
                            WHERE o.tenant_id = :t AND o.fact_id = x.fact_id AND c.time_end >= {cutoff})
           AND {free_fact(forest)}
    """


def old_digests(forest: str, cutoff: str) -> str:
    """Digests of times that ended before a moment, of nothing that is pinned."""
    return f"""
        SELECT g.* FROM memforest.calendar_digest g
         WHERE g.tenant_id = :t AND g.forest_id = {forest} AND g.end_at < {cutoff} AND {free_time(forest)}
    """


def old_texts(forest: str, cutoff: str) -> str:
    """Compacted texts of windows that were made before a moment."""
    return f"""
        SELECT w.* FROM memforest.session_window w
         WHERE w.tenant_id = :t AND w.forest_id = {forest} AND w.updated_at < {cutoff} AND {free_text()}
    """


def old_items(forest: str, cutoff: str) -> str:
    """Items that were put into a window before a moment."""
    return f"""
        SELECT i.* FROM memforest.window_item i
         WHERE i.tenant_id = :t AND i.forest_id = {forest} AND i.put_at < {cutoff} AND {free_item(forest)}
    """


_FACT_BYTES = (
    "SELECT coalesce(sum(octet_length(x.text)), 0) FROM memforest.fact x WHERE x.tenant_id = :t AND x.forest_id"
)
_TURN_BYTES = """SELECT coalesce(sum(octet_length(t.content)), 0) FROM memforest.session s
                   JOIN memforest.turn t ON t.tenant_id = :t AND t.session_id = s.session_id
                  WHERE s.tenant_id = :t AND s.forest_id"""

_NIL = "CAST('00000000-0000-0000-0000-000000000000' AS uuid)"


def _over_age() -> str:
    """That a forest ``g`` holds something that is too old by its policy ``p``: only what that limits is looked at."""
    kinds = (
        ("max_age_s", old_cells),
        ("facts_max_age_s", old_facts),
        ("digests_max_age_s", old_digests),
        ("window_max_age_s", old_texts),
        ("window_max_age_s", old_items),
    )

    def held(age: str, old: Callable[[str, str], str]) -> str:
        cutoff = f"{_moment('at')} - make_interval(secs => p.{age})"
        return f"CASE WHEN p.{age} IS NULL THEN false ELSE EXISTS ({old('g.forest_id', cutoff)}) END"

    return " OR ".join(held(age, old) for age, old in kinds)


def measured(chosen: str) -> sa.TextClause:
    """Live forests, each against the policy that holds for it: only what that limits is looked at."""
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


_AGED = f"({old_cells(':f', _moment('cutoff'))}) c WHERE c.created_at <= :at"
AGED = sa.text(f"""
    SELECT c.cell_id AS id, octet_length(c.text) AS size, c.time_end AS said_at FROM {_AGED}
     ORDER BY c.time_end, c.cell_id LIMIT :n
""")
AGED_LEFT = sa.text(f"SELECT count(*) FROM {_AGED}")

_DIGESTS = f"({old_digests(':f', _moment('digests'))}) g WHERE g.made_at <= :at"
DIGESTS_LEFT = sa.text(f"SELECT count(*) FROM {_DIGESTS}")
DIGEST_NAMES = sa.text(
    f"SELECT concat_ws(' ', g.span, g.first_day) FROM {_DIGESTS} ORDER BY g.end_at, g.span, g.first_day"
)
DROP_DIGESTS = sa.text(f"""
    DELETE FROM memforest.calendar_digest d USING (
        SELECT g.span, g.first_day FROM {_DIGESTS} ORDER BY g.end_at, g.span, g.first_day LIMIT :n) u
     WHERE d.tenant_id = :t AND d.forest_id = :f AND d.span = u.span AND d.first_day = u.first_day
""")

_TEXTS = f"({old_texts(':f', _moment('windows'))}) w"
TEXTS_LEFT = sa.text(f"SELECT count(*) FROM {_TEXTS}")
TEXT_NAMES = sa.text(f"""
    SELECT s.external_id FROM {_TEXTS} JOIN memforest.session s ON s.tenant_id = :t AND s.session_id = w.session_id
     ORDER BY w.updated_at, w.session_id
""")
DROP_TEXTS = sa.text(f"""
    DELETE FROM memforest.session_window d USING (
        SELECT w.session_id FROM {_TEXTS} ORDER BY w.updated_at, w.session_id LIMIT :n) u
     WHERE d.tenant_id = :t AND d.session_id = u.session_id
""")

_ITEMS = f"({old_items(':f', _moment('windows'))}) i"
ITEMS_LEFT = sa.text(f"SELECT count(*) FROM {_ITEMS}")
DROP_ITEMS = sa.text(f"""
    DELETE FROM memforest.window_item d USING (
        SELECT i.session_id, i.item_id FROM {_ITEMS} ORDER BY i.put_at, i.session_id, i.item_id LIMIT :n) u
     WHERE d.tenant_id = :t AND d.session_id = u.session_id AND d.item_id = u.item_id
""")

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

AGED_FACTS = sa.text(f"""
    {_WITH_AGED}
    SELECT fact_id AS id, size, mentioned_at AS said_at FROM faded ORDER BY mentioned_at, fact_id LIMIT :n
""")
AGED_FACTS_LEFT = sa.text(f"{_WITH_AGED} SELECT count(*) FROM faded")

_STAYS = "NOT EXISTS (SELECT 1 FROM gone WHERE gone.fact_id = x.fact_id)"
_NOT_AGED = "NOT EXISTS (SELECT 1 FROM aged WHERE aged.cell_id = c.cell_id)"


def _bare(told: str) -> str:
    """That a cell ``c`` has words of which no fact tells: ``told`` says which occurrences ``o`` count. Nor does one of
    another piece of the same long turn, which goes with it."""
    return f"""
        c.tenant_id = :t AND c.forest_id = :f AND c.created_at <= :at AND {_SETTLED}
        AND NOT EXISTS (SELECT 1 FROM memforest.occurrence o
                         WHERE o.tenant_id = :t AND o.cell_id = c.cell_id AND {told})
        AND (c.char_start IS NULL OR NOT EXISTS (
            SELECT 1 FROM memforest.cell d JOIN memforest.occurrence o ON o.tenant_id = :t AND o.cell_id = d.cell_id
             WHERE d.tenant_id = :t AND d.session_id = c.session_id AND d.first_turn = c.first_turn AND {told}))
    """


_BARE = f"{_bare('NOT EXISTS (SELECT 1 FROM gone WHERE gone.fact_id = o.fact_id)')} AND {_NOT_AGED}"

FACTS_LEFT = sa.text(
    "SELECT count(*) FROM memforest.fact WHERE tenant_id = :t AND forest_id = :f AND created_at <= :at"
)
BARE_LEFT = sa.text(f"SELECT count(*) FROM memforest.cell c WHERE {_bare('true')}")

TOTALS = sa.text(f"""
    {_WITH_AGED}
    SELECT (SELECT count(*) FROM memforest.fact x
             WHERE x.tenant_id = :t AND x.forest_id = :f AND x.created_at <= :at AND {_STAYS}) AS facts,
           (SELECT count(*) FROM memforest.fact x WHERE x.tenant_id = :t AND x.forest_id = :f AND x.pinned) AS pinned,
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


def _first(order: Order, said_at: str) -> str:
    """What a policy's order compares, the lowest goes first; what was never visited before what was."""
    match order:
        case Order.AGE:
            return _worth(said_at)
        case Order.VISITS:
            return f"v.last_visit_at NULLS FIRST, coalesce(v.visits, 0), {said_at}"


LEAST_CELLS = {
    order: sa.text(f"""
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
    for order in Order
}

LEAST_FACTS = {
    order: sa.text(f"""
    {_WITH_AGED}
    SELECT x.fact_id AS id, octet_length(x.text) AS size, x.mentioned_at AS said_at
      FROM memforest.fact x
      LEFT JOIN memforest.visit v ON v.tenant_id = :t AND v.forest_id = :f AND v.item_id = x.fact_id
     WHERE x.tenant_id = :t AND x.forest_id = :f AND NOT x.pinned AND x.created_at <= :at AND {_STAYS}
       AND {free_fact(":f")}
     ORDER BY x.superseded_at IS NULL, {_first(order, "x.mentioned_at")}, x.key_time, x.key_ordinal, x.key_item,
              x.fact_id LIMIT :n
""")
    for order in Order
}
