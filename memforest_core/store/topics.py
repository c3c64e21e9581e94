"""What is read of topics, as SQL: their turns, visits, and what speaks for their priority."""

# ruff: noqa: S608 - statements are made of constants

from __future__ import annotations

TOPIC = "r.tenant_id = :t AND r.forest_id = :f AND r.kind = 'scene' AND r.state = 'active'"
"""That a tree ``r`` is a topic of the forest ``f``: a scene that has a tree."""

# The turns that say the facts of a topic ``r``, each once.
_SAID = """(SELECT DISTINCT o.session_id, u.ordinal
              FROM memforest.placement p
              JOIN memforest.occurrence o ON o.tenant_id = :t AND o.fact_id = p.payload_id
             CROSS JOIN LATERAL unnest(o.turn_ordinals) AS u(ordinal)
             WHERE p.tenant_id = :t AND p.tree_id = r.tree_id)"""

TURNS = f"""{_SAID} w JOIN memforest.turn t ON t.tenant_id = :t AND t.session_id = w.session_id
                        AND t.ordinal = w.ordinal AND NOT t.erased"""
"""These turns, as ``t``, for a FROM within LATERAL."""

# What a turn's metadata state; other values than numbers from 0 to 1 are brought there, or left out of account.
_STATED = """CASE WHEN jsonb_typeof(t.metadata -> 'importance') = 'number'
                  THEN CAST(least(1, greatest(0, CAST(t.metadata ->> 'importance' AS numeric))) AS float8)
                  ELSE CAST(:importance AS float8) END"""


def described(picked: str) -> str:
    """Topics with all their columns, as SQL; ``picked`` selects their rows. Takes ``importance``, what a turn
    states that states nothing."""
    return f"""
        SELECT r.*, s.text AS summary, coalesce(v.visits, 0) AS visits, v.last_visit_at,
               said.turns, said.first, said.last,
               coalesce(CAST(r.rated AS float8) / 1000, said.stated, CAST(:importance AS float8)) AS stated,
               learned.at AS learned_at, clock_timestamp() AS now
          FROM ({picked}) r
          LEFT JOIN memforest.node_summary s ON s.tenant_id = :t AND s.node_id = r.root_id
          LEFT JOIN memforest.visit v ON v.tenant_id = :t AND v.item_id = r.root_id
         CROSS JOIN LATERAL (SELECT count(*) AS turns, min(t.occurred_at) AS first, max(t.occurred_at) AS last,
                                    avg({_STATED}) AS stated FROM {TURNS}) said
         CROSS JOIN LATERAL (SELECT coalesce(max(x.created_at), r.created_at) AS at
                               FROM memforest.placement p
                               JOIN memforest.fact x ON x.tenant_id = :t AND x.fact_id = p.payload_id
                              WHERE p.tenant_id = :t AND p.tree_id = r.tree_id) learned
    """
