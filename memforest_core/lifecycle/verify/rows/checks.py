"""Checks as SQL: the rows that break each promise, by codes."""

# ruff: noqa: S608 - statements are made of constants of this module

from __future__ import annotations

from memforest_core.lifecycle.verify.records import Check
from memforest_core.store.copying import words_left
from memforest_core.store.trees import LOWEST as LOWEST_KEY
from memforest_core.store.trees import MEMBERS, micros
from memforest_core.store.vectors import UNUSED

# Parameters: t (tenant), f (forests of the snapshot).
F = "forest_id = ANY(CAST(:f AS uuid[]))"
TREES = f"r.tenant_id = :t AND r.{F}"
CELLS = f"c.tenant_id = :t AND c.{F}"
FACTS = f"x.tenant_id = :t AND x.{F}"
SESSIONS = f"s.tenant_id = :t AND s.{F}"

NODES_OF_TREES = "memforest.tree r JOIN memforest.node n ON n.tenant_id = :t AND n.tree_id = r.tree_id"

CLEAN = "n.level > 0 AND n.version = n.clean_version AND NOT n.dead"


def codes(**conditions: str) -> str:
    """One row for each condition that is true."""
    rows = ", ".join(f"(({condition}), '{what}')" for what, condition in conditions.items())
    return f"CROSS JOIN LATERAL (VALUES {rows}) AS broken(yes, what) WHERE broken.yes"


SETTLES_S = 60
"""A tree without dirty nodes stops being due right after its last save; a worker that dies in between leaves it due."""

INDEXED_NODES = f"""FROM {NODES_OF_TREES}
      JOIN memforest.node_summary s ON s.tenant_id = :t AND s.node_id = n.node_id WHERE {TREES}"""

TURN_SUMS = """LATERAL (SELECT count(*) AS turns, min(t.ordinal) AS lowest, max(t.ordinal) AS highest
    FROM memforest.turn t WHERE t.tenant_id = :t AND t.session_id = s.session_id) t"""

# How long a packed turn is, by its cells; its text itself is compared with them where packs are checked.
PACKED_CHARS = """(SELECT max(d.char_end) FROM memforest.cell d
    WHERE d.tenant_id = :t AND d.session_id = t.session_id AND d.last_turn = t.ordinal)"""

PACKS = f"""
    SELECT coalesce(p.forest_id, said.forest_id) AS id, p.texts, p.turns, p.text_bytes, said.turn_keys, said.chars
      FROM (SELECT t.pack, s.forest_id,
                   array_agg((t.session_id, t.ordinal)::text ORDER BY t.session_id, t.ordinal) AS turn_keys,
                   array_agg({PACKED_CHARS} ORDER BY t.session_id, t.ordinal) AS chars
              FROM memforest.session s
              JOIN memforest.turn t ON t.tenant_id = :t AND t.session_id = s.session_id AND t.pack IS NOT NULL
             WHERE {SESSIONS} GROUP BY t.pack, s.forest_id) said
      FULL JOIN (SELECT * FROM memforest.turn_pack p WHERE p.tenant_id = :t AND p.{F}) p USING (pack, forest_id)"""

LOWEST = f"({LOWEST_KEY.time}, {LOWEST_KEY.ordinal}, {LOWEST_KEY.item}, '')"
KEY = "({0}.key_time, {0}.key_ordinal, {0}.key_item, {0}.key_id)"
CELL_KEY = "(0, c.first_turn, coalesce(c.char_start, 0), replace(CAST(c.cell_id AS text), '-', ''))"
FACT_KEY = "(x.key_time, x.key_ordinal, x.key_item, replace(CAST(x.fact_id AS text), '-', ''))"

# {0} is the table that has a lease.
LEASED = "({0}.lease_token IS NOT NULL OR {0}.lease_until IS NOT NULL OR {0}.worker_id IS NOT NULL)"
HELD = "({0}.lease_token IS NOT NULL AND {0}.lease_until IS NOT NULL AND {0}.worker_id IS NOT NULL)"


def _lease(alias: str, running: str) -> str:
    return codes(
        no_lease=f"{running} AND NOT {HELD.format(alias)}", leaked=f"NOT ({running}) AND {LEASED.format(alias)}"
    )


DIRTY = """EXISTS (SELECT 1 FROM memforest.node n WHERE n.tenant_id = :t AND n.tree_id = r.tree_id
    AND n.version > n.clean_version AND NOT n.dead)"""

# "IS TRUE" stops the planner from searching for an id among all that a forest has.
OBJECT = """(CASE i.kind
    WHEN 'cell' THEN EXISTS (SELECT 1 FROM memforest.cell o WHERE o.tenant_id = :t AND o.cell_id = i.point_id
                                AND (o.forest_id = i.forest_id) IS TRUE)
    WHEN 'fact' THEN EXISTS (SELECT 1 FROM memforest.fact o WHERE o.tenant_id = :t AND o.fact_id = i.point_id
                                AND (o.forest_id = i.forest_id) IS TRUE)
    ELSE EXISTS (SELECT 1 FROM memforest.node_summary o WHERE o.tenant_id = :t AND o.node_id = i.point_id) END)"""

WITHOUT_ROW = "NOT EXISTS (SELECT 1 FROM memforest.index_row i WHERE i.tenant_id = :t AND i.point_id = {})"

VIOLATIONS = {
    Check.TURNS: f"""
    SELECT s.session_id AS id, broken.what FROM memforest.session s CROSS JOIN {TURN_SUMS}
    {
        codes(
            gap="t.turns > 0 AND (t.lowest <> 0 OR t.highest <> t.turns - 1)",
            uncovered="EXISTS (SELECT 1 FROM memforest.turn t WHERE t.tenant_id = :t AND t.session_id = s.session_id"
            " AND NOT t.erased) AND NOT EXISTS (SELECT 1 FROM memforest.cell c"
            " WHERE c.tenant_id = :t AND c.session_id = s.session_id)",
            words="EXISTS (SELECT 1 FROM memforest.turn t WHERE t.tenant_id = :t AND t.session_id = s.session_id"
            f" AND t.erased AND ({' OR '.join(words_left('turn', 't').values())}))",
        )
    } AND {SESSIONS}""",
    # A turn that is too long for a cell is cut into cells of its own, which have their offsets into it. Where all turns
    # of a cell are erased the cell is gone: between two cells there may be erased turns, and then ordinals are missing.
    Check.CELLS: f"""
    WITH placed AS (
        SELECT c.cell_id, c.session_id, c.forest_id, c.ordinal, c.first_turn, c.last_turn,
               coalesce(c.char_start, 0) AS char_start, c.char_end,
               c.char_end IS NULL OR c.char_end = (SELECT coalesce(length(t.content), {
        PACKED_CHARS
    }) FROM memforest.turn t
                  WHERE t.tenant_id = :t AND t.session_id = c.session_id AND t.ordinal = c.last_turn) AS ends
          FROM memforest.cell c WHERE {CELLS}),
    ordered AS (
        SELECT placed.*, lag(ordinal) OVER w AS before, lag(last_turn) OVER w AS turn_before,
               lag(char_end) OVER w AS end_before, lag(ends) OVER w AS whole_before,
               lead(ordinal) OVER w IS NULL AS is_last
          FROM placed WINDOW w AS (PARTITION BY session_id ORDER BY ordinal))
    SELECT o.cell_id AS id, broken.what
      FROM ordered o JOIN memforest.session s ON s.tenant_id = :t AND s.session_id = o.session_id
     CROSS JOIN LATERAL (SELECT count(*) AS turns FROM memforest.turn t
                          WHERE t.tenant_id = :t AND t.session_id = o.session_id AND t.erased
                            AND t.ordinal > coalesce(o.turn_before, -1) AND t.ordinal < o.first_turn) e
    {
        codes(
            ordinal_gap="CASE WHEN e.turns > 0 THEN o.ordinal <= o.before"
            " ELSE o.ordinal <> coalesce(o.before + 1, 0) END",
            turn_gap="CASE WHEN o.before IS NULL THEN o.first_turn <> e.turns OR o.char_start <> 0"
            " WHEN o.whole_before THEN o.first_turn <> o.turn_before + 1 + e.turns OR o.char_start <> 0"
            " ELSE o.first_turn <> o.turn_before OR o.char_start IS DISTINCT FROM o.end_before END",
            backwards="o.last_turn < o.first_turn OR o.char_end <= o.char_start",
            no_turn="o.ends IS NULL",
            tail_missing="o.is_last AND (NOT o.ends OR EXISTS (SELECT 1 FROM memforest.turn t"
            " WHERE t.tenant_id = :t AND t.session_id = o.session_id AND t.ordinal > o.last_turn AND NOT t.erased)"
            " OR NOT EXISTS (SELECT 1 FROM memforest.turn t"
            " WHERE t.tenant_id = :t AND t.session_id = o.session_id AND t.ordinal = o.last_turn))",
            other_forest="o.forest_id <> s.forest_id",
        )
    }""",
    # Cells whose words were erased are counted still: the next one takes the ordinal after them.
    Check.SESSION_COUNTERS: f"""
    SELECT s.session_id AS id, broken.what FROM memforest.session s CROSS JOIN {TURN_SUMS}
     CROSS JOIN LATERAL (SELECT count(*) AS cells, coalesce(max(c.ordinal) + 1, 0) AS following FROM memforest.cell c
                          WHERE c.tenant_id = :t AND c.session_id = s.session_id) c
    {
        codes(
            turn_count="s.turn_count <> t.turns",
            cell_count="s.cell_count < c.following OR (s.cell_count <> c.cells AND NOT EXISTS (SELECT 1"
            " FROM memforest.turn t WHERE t.tenant_id = :t AND t.session_id = s.session_id AND t.erased))",
        )
    } AND {SESSIONS}""",
    # A window is claimed by its first cell. While its lease is being taken back, that one may still be running.
    Check.WINDOWS: f"""
    SELECT c.cell_id AS id, 'unclaimable' AS what FROM memforest.cell c
      LEFT JOIN memforest.cell h ON h.tenant_id = :t AND h.session_id = c.session_id AND h.ordinal = c.window_ordinal
     WHERE {CELLS} AND c.state = 'ready' AND coalesce(h.state, 'none') NOT IN ('ready', 'running')""",
    Check.OUTCOMES: f"""
    SELECT c.cell_id AS id, 'none' AS what FROM memforest.cell c
     WHERE {CELLS} AND c.state = 'done' AND c.outcome IS NULL""",
    # What is not placed is on its way. Superseded candidates wait below zero until the reducer takes them out.
    Check.CANDIDATES: f"""
    SELECT c.cell_id AS id, broken.what FROM memforest.cell c
      JOIN memforest.candidate k ON k.tenant_id = :t AND k.cell_id = c.cell_id
      LEFT JOIN memforest.occurrence o ON o.tenant_id = :t AND o.cell_id = k.cell_id AND o.item = k.item
    {codes(unattached="k.item >= 0 AND o.fact_id IS NULL", superseded="k.item < 0")} AND {CELLS} AND c.placed""",
    Check.OCCURRENCES: f"""
    SELECT c.cell_id AS id, broken.what FROM memforest.cell c
      JOIN memforest.occurrence o ON o.tenant_id = :t AND o.cell_id = c.cell_id
      JOIN memforest.candidate k ON k.tenant_id = :t AND k.cell_id = o.cell_id AND k.item = o.item
      LEFT JOIN memforest.fact x ON x.tenant_id = :t AND x.fact_id = o.fact_id
    {
        codes(
            no_fact="x.fact_id IS NULL",
            other_forest="x.forest_id <> c.forest_id",
            other_session="o.session_id <> c.session_id",
            candidate_differs="o.turn_ordinals <> k.turn_ordinals",
            no_turn="cardinality(o.turn_ordinals) = 0 OR EXISTS (SELECT 1 FROM unnest(o.turn_ordinals) AS u(ordinal)"
            " WHERE NOT EXISTS (SELECT 1 FROM memforest.turn t"
            " WHERE t.tenant_id = :t AND t.session_id = c.session_id AND t.ordinal = u.ordinal))",
            turns_elsewhere="NOT EXISTS (SELECT 1 FROM unnest(o.turn_ordinals) AS u(ordinal)"
            " WHERE u.ordinal BETWEEN c.first_turn AND c.last_turn)",
        )
    } AND {CELLS}""",
    Check.FACTS: f"""
    SELECT x.fact_id AS id, broken.what FROM memforest.fact x
    {
        codes(
            no_occurrence="NOT EXISTS (SELECT 1 FROM memforest.occurrence o"
            " WHERE o.tenant_id = :t AND o.fact_id = x.fact_id)",
            no_scope=f"NOT EXISTS (SELECT 1 FROM {MEMBERS} p WHERE p.payload_id = x.fact_id)",
        )
    } AND {FACTS}""",
    Check.TREE_HEADS: f"""
    SELECT r.tree_id AS id, broken.what FROM memforest.tree r
      LEFT JOIN memforest.node n ON n.tenant_id = :t AND n.node_id = r.root_id
            AND (n.tree_id = r.tree_id) IS TRUE
    {
        codes(
            root_missing="r.state = 'active' AND n.node_id IS NULL",
            second_root="n.parent_id IS NOT NULL",
            branching="r.k < 3",
            not_active="r.state <> 'active' AND (r.root_id IS NOT NULL OR r.height <> 0)",
            session_missing="r.kind = 'session' AND NOT EXISTS (SELECT 1 FROM memforest.session s"
            " WHERE s.tenant_id = :t AND s.session_id = r.session_id AND (s.forest_id = r.forest_id) IS TRUE)",
        )
    } AND {TREES}""",
    # The codes are those of memtree/check.py. One pass over each level in key order, and index probes from there: a
    # join of the pass with itself would be planned by guesses, and some guesses are quadratic.
    Check.TREE_NODES: f"""
    SELECT n.node_id AS id, broken.what
      FROM (SELECT n.*, r.k, r.root_id, r.state AS tree_state, row_number() OVER w = 1 AS is_first,
                   lead(n.node_id) OVER w IS NULL AS is_last,
                   lag(n.parent_id) OVER w IS DISTINCT FROM n.parent_id AS first_child,
                   lead(n.key_time) OVER w AS next_time, lead(n.key_ordinal) OVER w AS next_ordinal,
                   lead(n.key_item) OVER w AS next_item, lead(n.key_id) OVER w AS next_id
              FROM memforest.tree r JOIN memforest.node n ON n.tenant_id = :t AND n.tree_id = r.tree_id
             WHERE {TREES}
            WINDOW w AS (PARTITION BY n.tree_id, n.level
                             ORDER BY n.key_time, n.key_ordinal, n.key_item, n.key_id)) n
      LEFT JOIN memforest.node p ON p.tenant_id = :t AND p.node_id = n.parent_id
      LEFT JOIN LATERAL (
        SELECT u.node_id FROM memforest.node u
         WHERE u.tenant_id = :t AND u.tree_id = n.tree_id AND u.level = n.level + 1 AND {KEY.format("u")}
               <= {KEY.format("n")}
         ORDER BY u.key_time DESC, u.key_ordinal DESC, u.key_item DESC, u.key_id DESC LIMIT 1) u ON true
      LEFT JOIN LATERAL (
        SELECT count(*) AS children, sum(k.leaf_count) AS leaves, min(k.time_start) AS first, max(k.time_end) AS last
          FROM memforest.node k WHERE n.level > 0 AND k.tenant_id = :t AND k.parent_id = n.node_id) b ON true
    {
        codes(
            wrong_tree="p.tree_id <> n.tree_id OR n.tree_state <> 'active'",
            parent_missing="n.parent_id IS NOT NULL AND p.node_id IS NULL",
            second_root="n.parent_id IS NULL AND n.node_id IS DISTINCT FROM n.root_id",
            parent_level="p.level <> n.level + 1",
            payload_missing="n.level = 0 AND n.payload_id IS NULL",
            payload_unexpected="n.level > 0 AND n.payload_id IS NOT NULL",
            childless="n.level > 0 AND b.children = 0 AND NOT (n.node_id = n.root_id AND n.level = 1)",
            overfull="b.children > n.k",
            underfull="b.children BETWEEN 1 AND (n.k + 1) / 2 - 1 AND NOT n.is_last AND n.node_id <> n.root_id",
            leaf_count="n.leaf_count <> CASE WHEN n.level = 0 THEN 1 ELSE coalesce(b.leaves, 0) END",
            interval="n.level > 0 AND (n.time_start IS DISTINCT FROM b.first OR n.time_end IS DISTINCT FROM b.last)",
            key_unexpected=f"n.level > 0 AND n.is_first AND {KEY.format('n')} <> {LOWEST}",
            key_missing=f"NOT (n.level > 0 AND n.is_first) AND {KEY.format('n')} = {LOWEST}",
            key_order=f"{KEY.format('n')} = (n.next_time, n.next_ordinal, n.next_item, n.next_id)",
            key_bound="p.node_id IS NOT NULL AND u.node_id IS DISTINCT FROM p.node_id"
            f" OR (n.level > 0 AND n.first_child AND {KEY.format('n')} <> {KEY.format('p')})",
        )
    }""",
    Check.TREE_COUNTERS: f"""
    SELECT r.tree_id AS id, broken.what FROM memforest.tree r
     CROSS JOIN LATERAL (SELECT count(*) FILTER (WHERE n.level = 0) AS leaves, coalesce(max(n.level), 0) AS height,
                                count(DISTINCT n.payload_id) AS members
                           FROM memforest.node n WHERE n.tenant_id = :t AND n.tree_id = r.tree_id) n
    {codes(leaf_count="r.leaf_count <> n.leaves", height="r.height <> n.height", members="n.members <> n.leaves")} AND {
        TREES
    }""",
    Check.PLACEMENTS: f"""
    SELECT p.payload_id AS id, 'unexpected' AS what FROM memforest.tree r
      JOIN memforest.placement p ON p.tenant_id = :t AND p.tree_id = r.tree_id
     WHERE {TREES} AND r.state <> 'candidate'""",
    Check.LEAVES: f"""
    SELECT n.node_id AS id, broken.what FROM memforest.tree r
      JOIN memforest.node n ON n.tenant_id = :t AND n.tree_id = r.tree_id AND n.level = 0
      LEFT JOIN memforest.cell c ON r.kind = 'session' AND c.tenant_id = :t AND c.cell_id = n.payload_id
      LEFT JOIN memforest.fact x ON r.kind <> 'session' AND x.tenant_id = :t AND x.fact_id = n.payload_id
    {
        codes(
            no_payload="c.cell_id IS NULL AND x.fact_id IS NULL",
            other_session="c.session_id <> r.session_id",
            other_forest="coalesce(c.forest_id, x.forest_id) <> r.forest_id",
            key=f"(c.cell_id IS NOT NULL AND {KEY.format('n')} <> {CELL_KEY})"
            f" OR (x.fact_id IS NOT NULL AND {KEY.format('n')} <> {FACT_KEY})",
            interval=f"(c.cell_id IS NOT NULL AND (n.time_start IS DISTINCT FROM {micros('c.time_start')}"
            f" OR n.time_end IS DISTINCT FROM {micros('c.time_end')}))"
            " OR (x.fact_id IS NOT NULL AND (n.time_start IS DISTINCT FROM"
            f" {micros('coalesce(x.time_start, x.mentioned_at)')} OR n.time_end IS DISTINCT FROM"
            f" {micros('coalesce(x.time_end, x.time_start, x.mentioned_at)')}))",
        )
    } AND {TREES}""",
    Check.PLACED_CELLS: f"""
    SELECT c.cell_id AS id, 'no_leaf' AS what FROM memforest.cell c
      LEFT JOIN memforest.tree r ON r.tenant_id = :t AND r.forest_id = c.forest_id AND r.kind = 'session'
            AND r.scope_key = CAST(c.session_id AS text)
      LEFT JOIN memforest.node n ON n.tenant_id = :t AND n.tree_id = r.tree_id AND n.payload_id = c.cell_id
     WHERE {CELLS} AND c.placed AND n.node_id IS NULL""",
    # The words of a correction are placed by the reducer, some time after the old ones were superseded.
    Check.CHANGES: f"""
    SELECT x.fact_id AS id, 'no_successor' AS what FROM memforest.fact x
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
    Check.TOPICS: f"""
    SELECT w.session_id AS id, broken.what FROM memforest.turn_topic w
      JOIN memforest.turn t ON t.tenant_id = :t AND t.session_id = w.session_id AND t.ordinal = w.ordinal
      JOIN memforest.session s ON s.tenant_id = :t AND s.session_id = w.session_id
      JOIN memforest.tree r ON r.tenant_id = :t AND r.tree_id = w.tree_id
    {
        codes(
            no_turn="t.erased",
            no_topic="r.kind <> 'scene' OR r.state = 'merged'",
            other_forest="r.forest_id <> w.forest_id OR s.forest_id <> w.forest_id",
            other_time="t.occurred_at <> w.occurred_at",
        )
    } AND w.tenant_id = :t AND w.{F}""",
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
