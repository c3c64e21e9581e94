"""Checks of what was said and what was made of it: sessions, cells, candidates and facts."""

# ruff: noqa: S608 - statements are made of constants of this package

from __future__ import annotations

from memforest_core.lifecycle.verify.records import Check
from memforest_core.lifecycle.verify.rows.queries import (
    CELLS,
    COUNT_CELLS,
    COUNT_FACTS,
    COUNT_SESSIONS,
    FACTS,
    SESSIONS,
    codes,
)
from memforest_core.store.copying import words_left

_OF_CELLS = "SELECT count(*) FROM memforest.cell c JOIN memforest.{} k ON k.tenant_id = :t AND k.cell_id = c.cell_id"

COUNTS = {
    Check.TURNS: COUNT_SESSIONS,
    Check.CELLS: COUNT_CELLS,
    Check.SESSION_COUNTERS: COUNT_SESSIONS,
    Check.WINDOWS: f"{COUNT_CELLS} AND c.state = 'ready'",
    Check.OUTCOMES: f"{COUNT_CELLS} AND c.state = 'done'",
    Check.CANDIDATES: f"{_OF_CELLS.format('candidate')} WHERE {CELLS} AND c.placed",
    Check.OCCURRENCES: f"{_OF_CELLS.format('occurrence')} WHERE {CELLS}",
    Check.FACTS: COUNT_FACTS,
}

TURN_SUMS = """LATERAL (SELECT count(*) AS turns, min(t.ordinal) AS lowest, max(t.ordinal) AS highest
    FROM memforest.turn t WHERE t.tenant_id = :t AND t.session_id = s.session_id) t"""

# A deletion goes from the last turn to the first: where the first are gone, the rest came while it was under way.
CUT = """t.lowest > 0 AND EXISTS (SELECT 1 FROM memforest.maintenance k WHERE k.tenant_id = :t AND k.kind = 'erase'
    AND k.forest_id = s.forest_id AND k.state = 'done' AND NOT k.arguments ? 'dry_run'
    AND k.arguments ->> 'target' = 'session' AND k.arguments ->> 'session' = CAST(s.session_id AS text))"""

VIOLATIONS = {
    Check.TURNS: f"""
    SELECT s.session_id AS id, broken.what FROM memforest.session s CROSS JOIN {TURN_SUMS}
    {
        codes(
            deleted_in_part=CUT,
            gap=f"t.turns > 0 AND (t.lowest <> 0 OR t.highest <> t.turns - 1) AND NOT ({CUT})",
            uncovered="EXISTS (SELECT 1 FROM memforest.turn t WHERE t.tenant_id = :t AND t.session_id = s.session_id"
            " AND NOT t.erased) AND NOT EXISTS (SELECT 1 FROM memforest.cell c"
            " WHERE c.tenant_id = :t AND c.session_id = s.session_id)",
            words="EXISTS (SELECT 1 FROM memforest.turn t WHERE t.tenant_id = :t AND t.session_id = s.session_id"
            f" AND t.erased AND ({' OR '.join(words_left('turn', 't').values())}))",
        )
    } AND {SESSIONS}""",
    # A turn that is too long for a cell is cut into cells of its own, which keep their offsets into it. Where all turns
    # of a cell are erased the cell is gone: between two cells there may be erased turns, and then ordinals are missing.
    Check.CELLS: f"""
    WITH placed AS (
        SELECT c.cell_id, c.session_id, c.forest_id, c.ordinal, c.first_turn, c.last_turn,
               coalesce(c.char_start, 0) AS char_start, c.char_end,
               c.char_end IS NULL OR c.char_end = (SELECT length(t.content) FROM memforest.turn t
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
            no_scope="NOT EXISTS (SELECT 1 FROM memforest.placement p"
            " WHERE p.tenant_id = :t AND p.payload_id = x.fact_id)",
        )
    } AND {FACTS}""",
}
