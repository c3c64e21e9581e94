"""Topics as SQL: which turns belong to them, their visits, and what speaks for their priority."""

# ruff: noqa: S608 - statements are made of constants

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from memforest_core.domain.ids import ForestId, SessionId, TenantId, TreeId
from memforest_core.store import tables as m
from memforest_core.store.trees import MEMBERS, members

_SCENE = "r.tenant_id = :t AND r.forest_id = :f AND r.kind = 'scene'"
_OWN = "memforest.turn_topic w WHERE w.tenant_id = :t AND w.tree_id = r.tree_id"
TOPIC = f"{_SCENE} AND (r.state = 'active' OR (r.state = 'candidate' AND EXISTS (SELECT 1 FROM {_OWN})))"
"""That a tree ``r`` is a topic of the forest ``f``: a scene that has a tree, or turns."""
COOLABLE = "r.kind = 'scene' AND (r.state = 'active' OR (r.state = 'candidate' AND r.begun_at IS NOT NULL))"
"""That a tree ``r`` may become cold: a scene of some facts that began with one of them never does."""
REACHED = f"coalesce((SELECT max(w.occurred_at) FROM {_OWN}), r.time_end)"
"""When the last turn of a topic ``r`` was said."""

TURNS = f"""(SELECT w.session_id, w.ordinal, w.occurred_at FROM {_OWN}) w
               JOIN memforest.turn t ON t.tenant_id = :t AND t.session_id = w.session_id
                AND t.ordinal = w.ordinal AND NOT t.erased"""
"""These turns, as ``t``, for a FROM within LATERAL."""

BEGINNING = f"""SELECT left(t.content, 400) AS beginning,
                        memforest.packed(t.tenant_id, t.pack, t.session_id, t.ordinal) AS packed
                   FROM {TURNS} WHERE r.title IS NULL ORDER BY w.occurred_at, w.session_id, w.ordinal LIMIT 1"""
"""How a topic ``r`` without a title begins; its first turn may be in a pack."""

# What a turn's metadata state; other values than numbers from 0 to 1 are brought there, or left out of account.
_STATED = """CASE WHEN jsonb_typeof(t.metadata -> 'importance') = 'number'
                  THEN CAST(least(1, greatest(0, CAST(t.metadata ->> 'importance' AS numeric))) AS float8)
                  ELSE CAST(:importance AS float8) END"""


def described(picked: str) -> str:
    """Topics with all their columns, as SQL; ``picked`` selects their rows. Takes ``importance``, what a turn
    states that states nothing."""
    return f"""
        SELECT r.*, s.text AS summary, coalesce(v.visits, 0) AS visits, v.last_visit_at,
               began.beginning, began.packed, said.turns, said.first, said.last,
               coalesce(CAST(r.rated AS float8) / 1000, said.stated, CAST(:importance AS float8)) AS stated,
               coalesce(said.last, r.time_end) AS reached, learned.facts,
               learned.at AS learned_at, clock_timestamp() AS now
          FROM ({picked}) r
          LEFT JOIN LATERAL ({BEGINNING}) began ON true
          LEFT JOIN memforest.node_summary s ON s.tenant_id = :t AND s.node_id = r.root_id
         CROSS JOIN LATERAL (SELECT sum(v.visits) AS visits, max(v.last_visit_at) AS last_visit_at
                               FROM memforest.visit v WHERE v.tenant_id = :t AND v.item_id IN (r.root_id, r.tree_id)) v
         CROSS JOIN LATERAL (SELECT count(*) AS turns, min(t.occurred_at) AS first, max(t.occurred_at) AS last,
                                    avg({_STATED}) AS stated FROM {TURNS}) said
         CROSS JOIN LATERAL (SELECT count(*) AS facts, coalesce(max(x.created_at), r.created_at) AS at
                               FROM {MEMBERS} p
                               JOIN memforest.fact x ON x.tenant_id = :t AND x.fact_id = p.payload_id
                              WHERE p.tenant_id = :t AND p.tree_id = r.tree_id) learned
    """


# The turns of these cells, and those right before them, that have no topic: a turn goes where most of its facts are;
# one without facts, and an assistant's, follows the turn before it; the first of a session follow the next one.
ASSIGN = sa.text(f"""
    WITH said AS MATERIALIZED (
        SELECT DISTINCT t.session_id, t.ordinal, t.role, t.occurred_at, c.forest_id
          FROM memforest.cell c
          JOIN memforest.turn t ON t.tenant_id = :t AND t.session_id = c.session_id
           AND t.ordinal BETWEEN c.first_turn - 8 AND c.last_turn AND NOT t.erased
         WHERE c.tenant_id = :t AND c.cell_id = ANY(CAST(:cells AS uuid[]))),
    voted AS (
        SELECT DISTINCT ON (v.session_id, v.ordinal) v.session_id, v.ordinal, v.tree_id
          FROM (SELECT o.session_id, u.ordinal, r.tree_id, r.leaf_count, count(*) AS facts
                  FROM memforest.occurrence o
                 CROSS JOIN LATERAL unnest(o.turn_ordinals) AS u(ordinal)
                 CROSS JOIN {members("q.payload_id = o.fact_id")} p
                  JOIN memforest.tree r ON r.tenant_id = :t AND r.tree_id = p.tree_id AND r.kind = 'scene'
                 WHERE o.tenant_id = :t AND o.cell_id = ANY(CAST(:cells AS uuid[])) GROUP BY 1, 2, 3, 4) v
         ORDER BY v.session_id, v.ordinal, v.facts DESC, v.leaf_count DESC, v.tree_id),
    seeded AS (
        SELECT s.*, w.tree_id AS own, coalesce(w.tree_id, v.tree_id) AS near,
               coalesce(w.tree_id, CASE s.role WHEN 'assistant' THEN NULL ELSE v.tree_id END) AS seed
          FROM said s
          LEFT JOIN voted v ON v.session_id = s.session_id AND v.ordinal = s.ordinal
          LEFT JOIN memforest.turn_topic w
            ON w.tenant_id = :t AND w.session_id = s.session_id AND w.ordinal = s.ordinal),
    chosen AS (
        SELECT s.*, coalesce(
                   first_value(s.seed) OVER (PARTITION BY s.session_id, s.stretch ORDER BY s.ordinal),
                   first_value(s.seed) OVER (PARTITION BY s.session_id ORDER BY s.seed IS NULL, s.ordinal),
                   first_value(s.near) OVER (PARTITION BY s.session_id ORDER BY s.near IS NULL, s.ordinal)) AS tree_id
          FROM (SELECT *, count(seed) OVER (PARTITION BY session_id ORDER BY ordinal) AS stretch FROM seeded) s)
    INSERT INTO memforest.turn_topic (tenant_id, session_id, ordinal, forest_id, tree_id, occurred_at)
    SELECT :t, session_id, ordinal, forest_id, tree_id, occurred_at FROM chosen
     WHERE own IS NULL AND tree_id IS NOT NULL ORDER BY session_id, ordinal ON CONFLICT DO NOTHING
    """)
"""The statement that gives turns their topics by the facts of their ``cells``."""

_COPY = sa.text("""
    INSERT INTO memforest.turn_topic
           (tenant_id, session_id, ordinal, forest_id, tree_id, occurred_at, matched, vector, vector_model)
    SELECT :t, u.new, w.ordinal, :target, r.new, w.occurred_at, w.matched, w.vector, w.vector_model
      FROM unnest(CAST(:olds AS uuid[]), CAST(:news AS uuid[]), CAST(:firsts AS int[])) AS u(old, new, first)
      JOIN memforest.turn_topic w ON w.tenant_id = :t AND w.session_id = u.old AND w.ordinal >= u.first
      JOIN unnest(CAST(:trees AS uuid[]), CAST(:copies AS uuid[])) AS r(old, new) ON r.old = w.tree_id
     WHERE w.matched OR NOT :matched ORDER BY u.new, w.ordinal ON CONFLICT DO NOTHING
    """)

_OF_SESSIONS = sa.text("""
    SELECT DISTINCT w.tree_id FROM unnest(CAST(:olds AS uuid[]), CAST(:firsts AS int[])) AS u(old, first)
      JOIN memforest.turn_topic w ON w.tenant_id = :t AND w.session_id = u.old AND w.ordinal >= u.first
     WHERE w.matched OR NOT :matched ORDER BY w.tree_id
    """)


@dataclass(frozen=True, slots=True)
class CopiedTurns:
    """The topics of turns that are copied: of sessions to their copies, from an ordinal on. With ``matched`` only those
    that ``append`` chose."""

    sessions: Mapping[SessionId, tuple[SessionId, int]]
    matched: bool = False

    def topics(self, connection: sa.Connection, tenant: TenantId) -> list[TreeId]:
        """Which topics these are."""
        values = {"t": tenant, "matched": self.matched} | self._given()
        return [TreeId(tree) for tree in connection.execute(_OF_SESSIONS, values).scalars()]

    def copy(
        self, connection: sa.Connection, tenant: TenantId, target: ForestId, copies: Mapping[TreeId, TreeId]
    ) -> None:
        """Give the copied turns the ``copies`` of their topics."""
        news = [new for new, _ in self.sessions.values()]
        values = {"t": tenant, "target": target, "matched": self.matched, "news": news}
        trees = {"trees": list(copies), "copies": list(copies.values())}
        connection.execute(_COPY, values | trees | self._given())

    def _given(self) -> dict[str, list[Any]]:
        return {"olds": list(self.sessions), "firsts": [first for _, first in self.sessions.values()]}


_MOVE = sa.text("""
    UPDATE memforest.turn_topic SET tree_id = :target WHERE tenant_id = :t AND tree_id = :absorbed
    """)
_END = sa.text(
    "UPDATE memforest.tree SET state = 'merged', cold_at = NULL WHERE tenant_id = :t AND tree_id = :absorbed"
)


def move_turns(connection: sa.Connection, tenant: TenantId, absorbed: TreeId, target: TreeId) -> None:
    """Make the turns of one scene those of another; the first one, whose tree has ended, ends too.

    An append that gives a turn to a topic locks the topic first: it is waited for here, or finds the topic ended.
    """
    r = m.Tree
    own = sa.select(r.tree_id).where(r.tenant_id == tenant, r.tree_id == absorbed)
    connection.execute(own.with_for_update())
    for statement in (_MOVE, _END):
        connection.execute(statement, {"t": tenant, "absorbed": absorbed, "target": target})
