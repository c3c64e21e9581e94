"""The promises as queries: for each check how many items there are, and which of them break it, in sets."""

# ruff: noqa: S608 - statements are made of constants of this module

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from memforest_core.store.vectors import UNUSED
from memforest_core.verify.records import Check
from memforest_core.verify.rows import sessions as s
from memforest_core.verify.rows import trees as t
from memforest_core.verify.rows.parts import CELLS, TREES, F, codes

SETTLES_S = 60
"""A tree without dirty nodes stops being due right after its last save; a worker that dies in between leaves it due."""

# {0} is the table that has a lease.
LEASED = "({0}.lease_token IS NOT NULL OR {0}.lease_until IS NOT NULL OR {0}.worker_id IS NOT NULL)"
HELD = "({0}.lease_token IS NOT NULL AND {0}.lease_until IS NOT NULL AND {0}.worker_id IS NOT NULL)"
SESSIONS = f"FROM memforest.session s WHERE s.tenant_id = :t AND s.{F}"


@dataclass(frozen=True, slots=True)
class Statement:
    """A check in SQL: a count of what is looked at, and rows (id, what) of what is wrong."""

    counted: sa.TextClause
    broken: sa.TextClause


def _check(counted: str, broken: str) -> Statement:
    return Statement(sa.text(counted), sa.text(broken))


def _lease(alias: str, running: str) -> str:
    return codes(
        no_lease=f"{running} AND NOT {HELD.format(alias)}",
        leaked=f"NOT ({running}) AND {LEASED.format(alias)}",
    )


LEASES = f"""
    SELECT c.cell_id AS id, broken.what FROM memforest.cell c {_lease("c", "c.state = 'running'")} AND {CELLS}
    UNION ALL
    SELECT i.point_id, broken.what FROM memforest.index_row i {_lease("i", "i.state = 'running'")}
       AND i.tenant_id = :t AND i.{F}
    UNION ALL
    SELECT n.node_id, broken.what FROM memforest.tree r
      JOIN memforest.node n ON n.tenant_id = :t AND n.tree_id = r.tree_id
     {_lease("n", "n.lease_token IS NOT NULL")} AND {TREES}"""

TASKS = f"""
    SELECT k.task_id AS id, broken.what FROM memforest.maintenance k {_lease("k", "k.state = 'running'")}
       AND k.tenant_id = :t"""

# What an operation builds or clears is seen by nobody: without the operation nobody would ever remove it.
FORESTS = f"""
    SELECT o.forest_id AS id, 'abandoned' AS what FROM memforest.forest o
     WHERE o.tenant_id = :t AND o.state <> 'live' AND NOT EXISTS (
        SELECT 1 FROM memforest.maintenance k
         WHERE k.tenant_id = :t AND (k.state <> 'done' OR k.finished_at > now() - make_interval(secs => {SETTLES_S}))
           AND (k.forest_id = o.forest_id OR k.arguments::text LIKE '%' || o.forest_id || '%'
                OR k.progress::text LIKE '%' || o.forest_id || '%'))"""

# The words of a correction are placed by the reducer, some time after the old ones were superseded.
CHANGES = f"""
    SELECT s.session_id AS id, 'words_left' AS what {SESSIONS} AND EXISTS (
        SELECT 1 FROM memforest.turn k WHERE k.tenant_id = :t AND k.session_id = s.session_id AND k.erased
           AND (k.content, k.name, k.speaker_id, k.metadata) <> ('', '', '', CAST('{{}}' AS jsonb)))
    UNION ALL
    SELECT f.fact_id, 'no_successor' FROM memforest.fact f
     WHERE f.tenant_id = :t AND f.{F} AND (f.superseded_by IS NULL) <> (f.superseded_at IS NULL)
    UNION ALL
    SELECT f.fact_id, 'no_successor' FROM memforest.fact f
     WHERE f.tenant_id = :t AND f.{F} AND f.superseded_by IS NOT NULL
       AND NOT EXISTS (SELECT 1 FROM memforest.fact n WHERE n.tenant_id = :t AND n.fact_id = f.superseded_by)
       AND NOT EXISTS (SELECT 1 FROM memforest.cell c WHERE c.tenant_id = :t AND c.forest_id = f.forest_id
                          AND c.state = 'done' AND NOT c.placed)"""

DIRTY = """EXISTS (SELECT 1 FROM memforest.node n WHERE n.tenant_id = :t AND n.tree_id = r.tree_id
    AND n.version > n.clean_version AND NOT n.dead)"""

DUE = f"""
    SELECT r.tree_id AS id, 'not_due' AS what FROM memforest.tree r
     WHERE {TREES} AND r.due_at IS NULL AND {DIRTY}
    UNION ALL
    SELECT r.tree_id, 'not_settled' FROM memforest.tree r
     WHERE {TREES} AND r.due_at < now() - make_interval(secs => {SETTLES_S}) AND NOT {DIRTY}
       AND coalesce(r.last_mark_at, r.due_at) < now() - make_interval(secs => {SETTLES_S})
       AND NOT EXISTS (SELECT 1 FROM memforest.node n
                         JOIN memforest.node_summary s ON s.tenant_id = :t AND s.node_id = n.node_id
                        WHERE n.tenant_id = :t AND n.tree_id = r.tree_id
                          AND s.created_at > now() - make_interval(secs => {SETTLES_S}))"""

PATHS = f"""
    SELECT n.node_id AS id, 'clean_above' AS what FROM memforest.tree r
      JOIN memforest.node n ON n.tenant_id = :t AND n.tree_id = r.tree_id
      JOIN memforest.node p ON p.tenant_id = :t AND p.node_id = n.parent_id
     WHERE {TREES} AND n.version > n.clean_version AND NOT n.dead AND p.version = p.clean_version AND NOT p.dead"""

# "IS TRUE" keeps the planner from looking for an id among all that a forest has.
OBJECT = """(CASE i.kind
    WHEN 'cell' THEN EXISTS (SELECT 1 FROM memforest.cell o WHERE o.tenant_id = :t AND o.cell_id = i.point_id
                                AND (o.forest_id = i.forest_id) IS TRUE)
    WHEN 'fact' THEN EXISTS (SELECT 1 FROM memforest.fact o WHERE o.tenant_id = :t AND o.fact_id = i.point_id
                                AND (o.forest_id = i.forest_id) IS TRUE)
    ELSE EXISTS (SELECT 1 FROM memforest.node_summary o WHERE o.tenant_id = :t AND o.node_id = i.point_id) END)"""

INDEX_ROWS = f"""
    SELECT i.point_id AS id, broken.what FROM memforest.index_row i
    {
    codes(
        no_object=f"NOT i.deleted AND NOT {OBJECT}",
        object_lives=f"i.deleted AND {OBJECT}",
        not_behind="i.state = 'done' AND (i.deleted OR i.indexed_version <> i.version)",
        ahead="i.indexed_version > i.version",
    )
} AND i.tenant_id = :t AND i.{F}"""

WITHOUT_ROW = "NOT EXISTS (SELECT 1 FROM memforest.index_row i WHERE i.tenant_id = :t AND i.point_id = {})"
INDEXED_NODES = f"""FROM memforest.tree r JOIN memforest.node n ON n.tenant_id = :t AND n.tree_id = r.tree_id
      JOIN memforest.node_summary s ON s.tenant_id = :t AND s.node_id = n.node_id WHERE {TREES}"""

UNINDEXED = f"""
    SELECT c.cell_id AS id, 'cell' AS what FROM memforest.cell c
     WHERE {CELLS} AND {WITHOUT_ROW.format("c.cell_id")}
    UNION ALL
    SELECT f.fact_id, 'fact' FROM memforest.fact f
     WHERE f.tenant_id = :t AND f.{F} AND {WITHOUT_ROW.format("f.fact_id")}
    UNION ALL
    SELECT n.node_id, 'node' {INDEXED_NODES} AND {WITHOUT_ROW.format("n.node_id")}"""

ORPHAN_VECTORS = f"""
    SELECT v.forest_id AS id, 'unused' AS what FROM memforest.vector v
     WHERE v.tenant_id = :t AND v.{F} AND {UNUSED}"""

COUNT_VECTORS = f"SELECT count(*) FROM memforest.vector v WHERE v.tenant_id = :t AND v.{F}"
COUNT_CELLS = f"SELECT count(*) FROM memforest.cell c WHERE {CELLS}"
COUNT_FACTS = f"SELECT count(*) FROM memforest.fact f WHERE f.tenant_id = :t AND f.{F}"
COUNT_TREES = f"SELECT count(*) FROM memforest.tree r WHERE {TREES}"
COUNT_SESSIONS = f"SELECT count(*) {SESSIONS}"
COUNT_POINTS = f"SELECT count(*) FROM memforest.index_row i WHERE i.tenant_id = :t AND i.{F}"
COUNT_NODES = f"""SELECT count(*) FROM memforest.tree r
    JOIN memforest.node n ON n.tenant_id = :t AND n.tree_id = r.tree_id WHERE {TREES}"""
COUNT_OF_CELLS = f"""SELECT count(*) FROM memforest.cell c
    JOIN memforest.{{}} k ON k.tenant_id = :t AND k.cell_id = c.cell_id WHERE {CELLS}"""
COUNT_PLACEMENTS = f"""SELECT count(*) FROM memforest.tree r
    JOIN memforest.placement p ON p.tenant_id = :t AND p.tree_id = r.tree_id WHERE {TREES}"""

CLEAN_NODES = f"{TREES} AND n.level > 0 AND n.version = n.clean_version AND NOT n.dead"

STATEMENTS: dict[Check, Statement] = {
    Check.TURNS: _check(COUNT_SESSIONS, s.TURNS),
    Check.CELLS: _check(COUNT_CELLS, s.COVER),
    Check.SESSION_COUNTERS: _check(COUNT_SESSIONS, s.SESSION_COUNTERS),
    Check.WINDOWS: _check(f"{COUNT_CELLS} AND c.state = 'ready'", s.WINDOWS),
    Check.OUTCOMES: _check(f"{COUNT_CELLS} AND c.state = 'done'", s.OUTCOMES),
    Check.CANDIDATES: _check(f"{COUNT_OF_CELLS.format('candidate')} AND c.placed", s.CANDIDATES),
    Check.OCCURRENCES: _check(COUNT_OF_CELLS.format("occurrence"), s.OCCURRENCES),
    Check.FACTS: _check(COUNT_FACTS, s.FACTS),
    Check.TREE_HEADS: _check(COUNT_TREES, t.HEADS),
    Check.TREE_NODES: _check(COUNT_NODES, t.NODES),
    Check.TREE_COUNTERS: _check(COUNT_TREES, t.COUNTERS),
    Check.PLACEMENTS: _check(COUNT_PLACEMENTS, t.PLACEMENTS),
    Check.LEAVES: _check(f"{COUNT_NODES} AND n.level = 0", t.LEAVES),
    Check.PLACED_CELLS: _check(f"{COUNT_CELLS} AND c.placed", t.PLACED_CELLS),
    Check.CHANGES: _check(f"SELECT ({COUNT_SESSIONS}) + ({COUNT_FACTS})", CHANGES),
    Check.LEASES: _check(f"SELECT ({COUNT_CELLS}) + ({COUNT_POINTS}) + ({COUNT_NODES})", LEASES),
    Check.TASKS: _check("SELECT count(*) FROM memforest.maintenance k WHERE k.tenant_id = :t", TASKS),
    Check.FORESTS: _check("SELECT count(*) FROM memforest.forest o WHERE o.tenant_id = :t", FORESTS),
    Check.DUE_TREES: _check(COUNT_TREES, DUE),
    Check.DIRTY_PATHS: _check(f"{COUNT_NODES} AND n.version > n.clean_version AND NOT n.dead", PATHS),
    Check.INDEX_ROWS: _check(COUNT_POINTS, INDEX_ROWS),
    Check.UNINDEXED: _check(f"SELECT ({COUNT_CELLS}) + ({COUNT_FACTS}) + (SELECT count(*) {INDEXED_NODES})", UNINDEXED),
    Check.ORPHAN_VECTORS: _check(COUNT_VECTORS, ORPHAN_VECTORS),
}
"""All checks that rows alone decide."""

COUNT_SUMMARIES = sa.text(f"""SELECT count(*) FROM memforest.tree r
        JOIN memforest.node n ON n.tenant_id = :t AND n.tree_id = r.tree_id WHERE {CLEAN_NODES}
""")

BURIED = sa.text(f"""
    SELECT 'cells' AS kind, count(*) AS items FROM memforest.cell c WHERE {CELLS} AND c.state = 'dead'
    UNION ALL
    SELECT 'nodes', count(*) FROM memforest.tree r
      JOIN memforest.node n ON n.tenant_id = :t AND n.tree_id = r.tree_id WHERE {TREES} AND n.dead
    UNION ALL
    SELECT 'index_rows', count(*) FROM memforest.index_row i
     WHERE i.tenant_id = :t AND i.{F} AND i.state = 'dead'
""")
