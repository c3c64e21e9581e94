"""The statements of retention: what is too old, what a forest holds, and what is least worth keeping."""

from __future__ import annotations

import sqlalchemy as sa

from memforest_core.domain.importance import FIRST_HALF_LIFE_DAYS, LONGEST_HALF_LIFE_DAYS, VISITS_PER_DOUBLING

NIL = "CAST('00000000-0000-0000-0000-000000000000' AS uuid)"

_WORDS = """EXISTS (SELECT 1 FROM memforest.turn t WHERE t.tenant_id = :t AND t.session_id = c.session_id
                      AND t.ordinal BETWEEN c.first_turn AND c.last_turn AND NOT t.erased)"""
"""That a cell ``c`` still has words."""

_SETTLED = f"(c.placed OR c.state = 'dead') AND {_WORDS}"
"""That a cell ``c`` has words and nobody is about to learn from them."""


def _unheld(facts: str) -> str:
    """That nothing rests on a cell ``c`` of what ``facts`` selects, given occurrences ``o``: nor on another piece of
    the same long turn, which goes with it."""
    return f"""
        NOT EXISTS (SELECT 1 FROM memforest.occurrence o {facts} WHERE o.tenant_id = :t AND o.cell_id = c.cell_id)
        AND (c.char_start IS NULL OR NOT EXISTS (
            SELECT 1 FROM memforest.cell d JOIN memforest.occurrence o ON o.tenant_id = :t AND o.cell_id = d.cell_id
                   {facts}
             WHERE d.tenant_id = :t AND d.session_id = c.session_id AND d.first_turn = c.first_turn))
    """  # noqa: S608 - constants of this module


_PINNED = "JOIN memforest.fact f ON f.tenant_id = :t AND f.fact_id = o.fact_id AND f.pinned"


def _aged(forest: str, cutoff: str) -> str:
    """Cells of a forest in which nothing is younger than a moment, and on which no pinned fact rests."""
    return f"""
        SELECT c.* FROM memforest.cell c
         WHERE c.tenant_id = :t AND c.forest_id = {forest} AND c.time_end < {cutoff} AND {_SETTLED}
           AND {_unheld(_PINNED)}
    """  # noqa: S608 - constants of this module


_FACT_BYTES = (
    "SELECT coalesce(sum(octet_length(f.text)), 0) FROM memforest.fact f WHERE f.tenant_id = :t AND f.forest_id"
)
_TURN_BYTES = """SELECT coalesce(sum(octet_length(t.content)), 0) FROM memforest.session s
                   JOIN memforest.turn t ON t.tenant_id = :t AND t.session_id = s.session_id
                  WHERE s.tenant_id = :t AND s.forest_id"""


def _held(chosen: str) -> sa.TextClause:
    """Live forests, each against the policy that holds for it: only what that limits is looked at."""
    return sa.text(f"""
        SELECT g.forest_id, p.max_age_s, p.max_facts, p.max_bytes, p.fraction,
               CASE WHEN p.max_facts IS NOT NULL THEN
                    (SELECT count(*) FROM memforest.fact f WHERE f.tenant_id = :t AND f.forest_id = g.forest_id) END
               AS facts,
               CASE WHEN p.max_bytes IS NOT NULL THEN
                    ({_FACT_BYTES} = g.forest_id) + ({_TURN_BYTES} = g.forest_id) END AS bytes,
               CASE WHEN p.max_age_s IS NOT NULL THEN
                    EXISTS ({_aged("g.forest_id", "CAST(:at AS timestamptz) - make_interval(secs => p.max_age_s)")})
                    ELSE false END AS aged
          FROM (SELECT forest_id FROM memforest.forest WHERE tenant_id = :t AND state = 'live' AND {chosen}) g
          LEFT JOIN LATERAL (
               SELECT * FROM memforest.retention_policy
                WHERE tenant_id = :t AND forest_id IN (g.forest_id, {NIL})
                ORDER BY forest_id = {NIL} LIMIT 1) p ON true
         ORDER BY g.forest_id
    """)  # noqa: S608 - constants of this module


HELD = _held("forest_id = :f")
HELD_AFTER = _held("forest_id > :after ORDER BY forest_id LIMIT :n")

AGED = sa.text(f"""
    SELECT c.cell_id AS id, octet_length(c.text) AS size, c.time_end AS said_at
      FROM ({_aged(":f", "CAST(:cutoff AS timestamptz)")}) c
     WHERE c.created_at <= :at ORDER BY c.time_end, c.cell_id LIMIT :n
""")  # noqa: S608 - constants of this module

AGED_LEFT = sa.text(
    f"SELECT count(*) FROM ({_aged(':f', 'CAST(:cutoff AS timestamptz)')}) c WHERE c.created_at <= :at"  # noqa: S608
)

# What is too old counts as gone, and with it the facts that rest on nothing else.
_WITH_AGED = f"""
    WITH aged AS MATERIALIZED ({_aged(":f", "CAST(:cutoff AS timestamptz)")} AND c.created_at <= :at),
    gone AS MATERIALIZED (
        SELECT DISTINCT o.fact_id FROM aged a JOIN memforest.occurrence o ON o.tenant_id = :t AND o.cell_id = a.cell_id
         WHERE NOT EXISTS (SELECT 1 FROM memforest.occurrence x LEFT JOIN aged y ON y.cell_id = x.cell_id
                            WHERE x.tenant_id = :t AND x.fact_id = o.fact_id AND y.cell_id IS NULL))
"""  # noqa: S608 - constants of this module

_STAYS = "NOT EXISTS (SELECT 1 FROM gone WHERE gone.fact_id = f.fact_id)"

_BARE = f"""
    c.tenant_id = :t AND c.forest_id = :f AND c.created_at <= :at AND {_SETTLED}
    AND {_unheld("")}
"""
"""That a cell ``c`` has words of which no fact tells."""

_NOT_AGED = "NOT EXISTS (SELECT 1 FROM aged WHERE aged.cell_id = c.cell_id)"

FACTS_LEFT = sa.text(
    "SELECT count(*) FROM memforest.fact WHERE tenant_id = :t AND forest_id = :f AND created_at <= :at"
)
BARE_LEFT = sa.text(f"SELECT count(*) FROM memforest.cell c WHERE {_BARE}")  # noqa: S608 - constants of this module

TOTALS = sa.text(f"""
    {_WITH_AGED}
    SELECT (SELECT count(*) FROM memforest.fact f
             WHERE f.tenant_id = :t AND f.forest_id = :f AND f.created_at <= :at AND {_STAYS}) AS facts,
           (SELECT count(*) FROM memforest.fact f WHERE f.tenant_id = :t AND f.forest_id = :f AND f.pinned) AS pinned,
           (SELECT count(*) FROM memforest.cell c WHERE c.tenant_id = :t AND c.forest_id = :f AND c.created_at <= :at
               AND {_SETTLED} AND {_NOT_AGED}) AS cells,
           (SELECT count(*) FROM memforest.cell c WHERE {_BARE} AND {_NOT_AGED}) AS bare_cells,
           CASE WHEN CAST(:bytes AS boolean) THEN
               ({_FACT_BYTES} = :f AND {_STAYS}) + ({_TURN_BYTES} = :f
                    AND NOT EXISTS (SELECT 1 FROM aged WHERE aged.session_id = t.session_id
                                       AND t.ordinal BETWEEN aged.first_turn AND aged.last_turn)) ELSE 0 END AS bytes
""")  # noqa: S608 - constants of this module


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


LEAST_CELLS = sa.text(f"""
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
""")  # noqa: S608 - constants of this module

LEAST_FACTS = sa.text(f"""
    {_WITH_AGED}
    SELECT f.fact_id AS id, octet_length(f.text) AS size, f.mentioned_at AS said_at, {_worth("f.mentioned_at")} AS worth
      FROM memforest.fact f
      LEFT JOIN memforest.visit v ON v.tenant_id = :t AND v.forest_id = :f AND v.item_id = f.fact_id
     WHERE f.tenant_id = :t AND f.forest_id = :f AND NOT f.pinned AND f.created_at <= :at AND {_STAYS}
     ORDER BY f.superseded_at IS NULL, worth, f.key_time, f.key_ordinal, f.key_item, f.fact_id LIMIT :n
""")  # noqa: S608 - constants of this module

DROP_STRAY = sa.text("""
    DELETE FROM memforest.visit WHERE tenant_id = :t AND item_id IN (
        SELECT v.item_id FROM memforest.visit v
         WHERE v.tenant_id = :t AND v.forest_id = :f
           AND NOT EXISTS (SELECT 1 FROM memforest.fact x WHERE x.tenant_id = :t AND x.fact_id = v.item_id)
           AND NOT EXISTS (SELECT 1 FROM memforest.cell x WHERE x.tenant_id = :t AND x.cell_id = v.item_id)
           AND NOT EXISTS (SELECT 1 FROM memforest.node x WHERE x.tenant_id = :t AND x.node_id = v.item_id)
         ORDER BY v.item_id LIMIT :n FOR UPDATE SKIP LOCKED)
""")

SWEEP_DUE = sa.text("""
    SELECT EXISTS (SELECT 1 FROM memforest.retention_policy WHERE tenant_id = :t)
       AND NOT EXISTS (SELECT 1 FROM memforest.maintenance
                        WHERE tenant_id = :t AND kind = :kind AND forest_id IS NULL
                          AND created_at > clock_timestamp() - make_interval(secs => :every))
""")
