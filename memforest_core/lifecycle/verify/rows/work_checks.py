"""Checks of what workers do with rows: deletions and corrections, leases, dirty trees, index rows and vectors."""

# ruff: noqa: S608 - statements are made of constants of this package

from __future__ import annotations

from memforest_core.lifecycle.verify.records import Check
from memforest_core.lifecycle.verify.rows.queries import (
    CELLS,
    COUNT_CELLS,
    COUNT_FACTS,
    COUNT_NODES,
    COUNT_POINTS,
    COUNT_SESSIONS,
    COUNT_TREES,
    FACTS,
    NODES_OF_TREES,
    SESSIONS,
    TREES,
    F,
    codes,
)
from memforest_core.store.vectors import UNUSED

SETTLES_S = 60
"""A tree without dirty nodes stops being due right after its last save; a worker that dies in between leaves it due."""

INDEXED_NODES = f"""FROM {NODES_OF_TREES}
      JOIN memforest.node_summary s ON s.tenant_id = :t AND s.node_id = n.node_id WHERE {TREES}"""

COUNTS = {
    Check.CHANGES: f"SELECT ({COUNT_SESSIONS}) + ({COUNT_FACTS})",
    Check.SESSION_WINDOWS: f"""SELECT (SELECT count(*) FROM memforest.session_window w WHERE w.tenant_id = :t AND w.{F})
        + (SELECT count(*) FROM memforest.window_item i WHERE i.tenant_id = :t AND i.{F})""",
    Check.CALENDAR: f"SELECT count(*) FROM memforest.calendar_digest g WHERE g.tenant_id = :t AND g.{F}",
    Check.LEASES: f"SELECT ({COUNT_CELLS}) + ({COUNT_POINTS}) + ({COUNT_NODES})",
    Check.TASKS: "SELECT count(*) FROM memforest.maintenance k WHERE k.tenant_id = :t",
    Check.FORESTS: "SELECT count(*) FROM memforest.forest f WHERE f.tenant_id = :t",
    Check.DUE_TREES: COUNT_TREES,
    Check.DIRTY_PATHS: f"{COUNT_NODES} AND n.version > n.clean_version AND NOT n.dead",
    Check.INDEX_ROWS: COUNT_POINTS,
    Check.UNINDEXED: f"SELECT ({COUNT_CELLS}) + ({COUNT_FACTS}) + (SELECT count(*) {INDEXED_NODES})",
    Check.ORPHAN_VECTORS: f"SELECT count(*) FROM memforest.vector v WHERE v.tenant_id = :t AND v.{F}",
}

# {0} is the table that has a lease.
LEASED = "({0}.lease_token IS NOT NULL OR {0}.lease_until IS NOT NULL OR {0}.worker_id IS NOT NULL)"
HELD = "({0}.lease_token IS NOT NULL AND {0}.lease_until IS NOT NULL AND {0}.worker_id IS NOT NULL)"


def _lease(alias: str, running: str) -> str:
    return codes(
        no_lease=f"{running} AND NOT {HELD.format(alias)}",
        leaked=f"NOT ({running}) AND {LEASED.format(alias)}",
    )


DIRTY = """EXISTS (SELECT 1 FROM memforest.node n WHERE n.tenant_id = :t AND n.tree_id = r.tree_id
    AND n.version > n.clean_version AND NOT n.dead)"""

# "IS TRUE" keeps the planner from looking for an id among all that a forest has.
OBJECT = """(CASE i.kind
    WHEN 'cell' THEN EXISTS (SELECT 1 FROM memforest.cell o WHERE o.tenant_id = :t AND o.cell_id = i.point_id
                                AND (o.forest_id = i.forest_id) IS TRUE)
    WHEN 'fact' THEN EXISTS (SELECT 1 FROM memforest.fact o WHERE o.tenant_id = :t AND o.fact_id = i.point_id
                                AND (o.forest_id = i.forest_id) IS TRUE)
    ELSE EXISTS (SELECT 1 FROM memforest.node_summary o WHERE o.tenant_id = :t AND o.node_id = i.point_id) END)"""

WITHOUT_ROW = "NOT EXISTS (SELECT 1 FROM memforest.index_row i WHERE i.tenant_id = :t AND i.point_id = {})"

VIOLATIONS = {
    # The words of a correction are placed by the reducer, some time after the old ones were superseded.
    Check.CHANGES: f"""
    SELECT s.session_id AS id, 'words_left' AS what FROM memforest.session s WHERE {SESSIONS} AND EXISTS (
        SELECT 1 FROM memforest.turn t WHERE t.tenant_id = :t AND t.session_id = s.session_id AND t.erased
           AND (t.content, t.name, t.speaker_id, t.metadata) <> ('', '', '', CAST('{{}}' AS jsonb)))
    UNION ALL
    SELECT x.fact_id, 'no_successor' FROM memforest.fact x
     WHERE {FACTS} AND (x.superseded_by IS NULL) <> (x.superseded_at IS NULL)
    UNION ALL
    SELECT x.fact_id, 'no_successor' FROM memforest.fact x
     WHERE {FACTS} AND x.superseded_by IS NOT NULL
       AND NOT EXISTS (SELECT 1 FROM memforest.fact n WHERE n.tenant_id = :t AND n.fact_id = x.superseded_by)
       AND NOT EXISTS (SELECT 1 FROM memforest.cell c WHERE c.tenant_id = :t AND c.forest_id = x.forest_id
                          AND c.state = 'done' AND NOT c.placed)""",
    # Both go with their sessions.
    Check.SESSION_WINDOWS: f"""
    SELECT w.session_id AS id, 'no_turn' AS what FROM memforest.session_window w
      JOIN memforest.session s ON s.tenant_id = :t AND s.session_id = w.session_id
     WHERE w.tenant_id = :t AND w.{F} AND w.turns > s.turn_count
    UNION ALL
    SELECT i.session_id, 'no_turn' FROM memforest.window_item i
     WHERE i.tenant_id = :t AND i.{F} AND i.said_in IS NOT NULL
       AND NOT EXISTS (SELECT 1 FROM memforest.turn t WHERE t.tenant_id = :t AND t.session_id = i.said_in
                          AND t.ordinal = i.ordinal AND NOT t.erased)""",
    # Turns may have come since; those that it was made of are deleted only together with it.
    Check.CALENDAR: f"""
    SELECT DISTINCT g.forest_id AS id, 'no_turn' AS what FROM memforest.calendar_digest g
     WHERE g.tenant_id = :t AND g.{F} AND g.turns > (
           SELECT count(DISTINCT (t.session_id, t.ordinal)) FROM memforest.cell c
             JOIN memforest.turn t ON t.tenant_id = :t AND t.session_id = c.session_id
                                  AND t.ordinal BETWEEN c.first_turn AND c.last_turn
            WHERE c.tenant_id = :t AND c.forest_id = g.forest_id AND c.time_end >= g.start_at
              AND c.time_start < g.end_at AND t.occurred_at >= g.start_at AND t.occurred_at < g.end_at
              AND NOT t.erased)""",
    Check.LEASES: f"""
    SELECT c.cell_id AS id, broken.what FROM memforest.cell c {_lease("c", "c.state = 'running'")} AND {CELLS}
    UNION ALL
    SELECT i.point_id, broken.what FROM memforest.index_row i {_lease("i", "i.state = 'running'")}
       AND i.tenant_id = :t AND i.{F}
    UNION ALL
    SELECT n.node_id, broken.what FROM memforest.tree r
      JOIN memforest.node n ON n.tenant_id = :t AND n.tree_id = r.tree_id
     {_lease("n", "n.lease_token IS NOT NULL")} AND {TREES}""",
    Check.TASKS: f"""
    SELECT k.task_id AS id, broken.what FROM memforest.maintenance k {_lease("k", "k.state = 'running'")}
       AND k.tenant_id = :t""",
    # What an operation builds or clears is seen by nobody: without the operation nobody would ever remove it.
    Check.FORESTS: f"""
    SELECT f.forest_id AS id, 'abandoned' AS what FROM memforest.forest f
     WHERE f.tenant_id = :t AND f.state <> 'live' AND NOT EXISTS (
        SELECT 1 FROM memforest.maintenance k
         WHERE k.tenant_id = :t AND (k.state <> 'done' OR k.finished_at > now() - make_interval(secs => {SETTLES_S}))
           AND (k.forest_id = f.forest_id OR k.arguments::text LIKE '%' || f.forest_id || '%'
                OR k.progress::text LIKE '%' || f.forest_id || '%'))""",
    Check.DUE_TREES: f"""
    SELECT r.tree_id AS id, 'not_due' AS what FROM memforest.tree r
     WHERE {TREES} AND r.due_at IS NULL AND {DIRTY}
    UNION ALL
    SELECT r.tree_id, 'not_settled' FROM memforest.tree r
     WHERE {TREES} AND r.due_at < now() - make_interval(secs => {SETTLES_S}) AND NOT {DIRTY}
       AND coalesce(r.last_mark_at, r.due_at) < now() - make_interval(secs => {SETTLES_S})
       AND NOT EXISTS (SELECT 1 FROM memforest.node n
                         JOIN memforest.node_summary s ON s.tenant_id = :t AND s.node_id = n.node_id
                        WHERE n.tenant_id = :t AND n.tree_id = r.tree_id
                          AND s.created_at > now() - make_interval(secs => {SETTLES_S}))""",
    Check.DIRTY_PATHS: f"""
    SELECT n.node_id AS id, 'clean_above' AS what FROM memforest.tree r
      JOIN memforest.node n ON n.tenant_id = :t AND n.tree_id = r.tree_id
      JOIN memforest.node p ON p.tenant_id = :t AND p.node_id = n.parent_id
     WHERE {TREES} AND n.version > n.clean_version AND NOT n.dead AND p.version = p.clean_version AND NOT p.dead""",
    Check.INDEX_ROWS: f"""
    SELECT i.point_id AS id, broken.what FROM memforest.index_row i
    {
        codes(
            no_object=f"NOT i.deleted AND NOT {OBJECT}",
            object_lives=f"i.deleted AND {OBJECT}",
            not_behind="i.state = 'done' AND (i.deleted OR i.indexed_version <> i.version)",
            ahead="i.indexed_version > i.version",
        )
    } AND i.tenant_id = :t AND i.{F}""",
    Check.UNINDEXED: f"""
    SELECT c.cell_id AS id, 'cell' AS what FROM memforest.cell c
     WHERE {CELLS} AND {WITHOUT_ROW.format("c.cell_id")}
    UNION ALL
    SELECT x.fact_id, 'fact' FROM memforest.fact x
     WHERE {FACTS} AND {WITHOUT_ROW.format("x.fact_id")}
    UNION ALL
    SELECT n.node_id, 'node' {INDEXED_NODES} AND {WITHOUT_ROW.format("n.node_id")}""",
    Check.ORPHAN_VECTORS: f"""
    SELECT v.forest_id AS id, 'unused' AS what FROM memforest.vector v
     WHERE v.tenant_id = :t AND v.{F} AND {UNUSED}""",
}
