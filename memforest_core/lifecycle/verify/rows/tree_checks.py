"""Checks of trees and of what they hold."""

# ruff: noqa: S608 - statements are made of constants of this package

from __future__ import annotations

from memforest_core.lifecycle.verify.records import Check
from memforest_core.lifecycle.verify.rows.queries import CELLS, COUNT_CELLS, COUNT_NODES, COUNT_TREES, TREES, codes
from memforest_core.store.trees import LOWEST as LOWEST_KEY
from memforest_core.store.trees import micros

COUNTS = {
    Check.TREE_HEADS: COUNT_TREES,
    Check.TREE_NODES: COUNT_NODES,
    Check.TREE_COUNTERS: COUNT_TREES,
    Check.PLACEMENTS: f"""SELECT count(*) FROM memforest.tree r
        JOIN memforest.placement p ON p.tenant_id = :t AND p.tree_id = r.tree_id WHERE {TREES}""",
    Check.LEAVES: f"{COUNT_NODES} AND n.level = 0",
    Check.PLACED_CELLS: f"{COUNT_CELLS} AND c.placed",
}

LOWEST = f"({LOWEST_KEY.time}, {LOWEST_KEY.ordinal}, {LOWEST_KEY.item}, '')"
KEY = "({0}.key_time, {0}.key_ordinal, {0}.key_item, {0}.key_id)"
CELL_KEY = "(0, c.first_turn, coalesce(c.char_start, 0), replace(CAST(c.cell_id AS text), '-', ''))"
FACT_KEY = "(x.key_time, x.key_ordinal, x.key_item, replace(CAST(x.fact_id AS text), '-', ''))"

VIOLATIONS = {
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
     CROSS JOIN LATERAL (SELECT count(*) FILTER (WHERE n.level = 0) AS leaves, coalesce(max(n.level), 0) AS height
                           FROM memforest.node n WHERE n.tenant_id = :t AND n.tree_id = r.tree_id) n
     CROSS JOIN LATERAL (SELECT count(*) AS members FROM memforest.placement p
                          WHERE p.tenant_id = :t AND p.tree_id = r.tree_id) p
    {
        codes(
            leaf_count="r.leaf_count <> n.leaves",
            height="r.height <> n.height",
            members="r.state = 'active' AND p.members <> n.leaves",
        )
    } AND {TREES}""",
    Check.PLACEMENTS: f"""
    SELECT p.payload_id AS id, broken.what FROM memforest.tree r
      JOIN memforest.placement p ON p.tenant_id = :t AND p.tree_id = r.tree_id
      LEFT JOIN memforest.node n ON n.tenant_id = :t AND n.node_id = p.leaf_id
    {
        codes(
            no_leaf="r.state = 'active' AND n.node_id IS NULL",
            unexpected="r.state = 'merged' OR (r.state <> 'active' AND p.leaf_id IS NOT NULL)",
            other_tree="n.tree_id <> p.tree_id",
            other_payload="n.node_id IS NOT NULL AND n.payload_id IS DISTINCT FROM p.payload_id",
            not_a_leaf="n.level <> 0",
        )
    } AND {TREES}""",
    Check.LEAVES: f"""
    SELECT n.node_id AS id, broken.what FROM memforest.tree r
      JOIN memforest.node n ON n.tenant_id = :t AND n.tree_id = r.tree_id AND n.level = 0
      LEFT JOIN memforest.placement p ON p.tenant_id = :t AND p.tree_id = n.tree_id AND p.payload_id = n.payload_id
      LEFT JOIN memforest.cell c ON r.kind = 'session' AND c.tenant_id = :t AND c.cell_id = n.payload_id
      LEFT JOIN memforest.fact x ON r.kind <> 'session' AND x.tenant_id = :t AND x.fact_id = n.payload_id
    {
        codes(
            no_placement="p.payload_id IS NULL",
            placed_elsewhere="p.payload_id IS NOT NULL AND p.leaf_id IS DISTINCT FROM n.node_id",
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
      LEFT JOIN memforest.placement p ON p.tenant_id = :t AND p.tree_id = r.tree_id AND p.payload_id = c.cell_id
     WHERE {CELLS} AND c.placed AND p.leaf_id IS NULL""",
}
