"""Conditions of statements that something is not pinned: no policy removes what is, nor what that rests on. Explicit
deletions do.

Each is a condition on a row of a forest, ``forest`` being how the statement names the forest's id. Few rows are pinned:
the inner statements begin at the partial indexes over them.
"""

# ruff: noqa: S608 - statements are made of constants of this package

from __future__ import annotations

from memforest_core.domain.cells import MAX_WINDOW_TURNS


def _said(forest: str, columns: str) -> str:
    """Occurrences that rest on a pinned turn: their cells begin at most a window before it."""
    return f"""
            SELECT {columns} FROM memforest.turn t
              JOIN memforest.session s ON s.tenant_id = :t AND s.session_id = t.session_id AND s.forest_id = {forest}
              JOIN memforest.cell d ON d.tenant_id = :t AND d.session_id = t.session_id
                   AND t.ordinal BETWEEN d.first_turn AND d.last_turn + {MAX_WINDOW_TURNS}
              JOIN memforest.occurrence o ON o.tenant_id = :t AND o.cell_id = d.cell_id
                   AND t.ordinal = ANY(o.turn_ordinals)
             WHERE t.tenant_id = :t AND t.pinned"""


def free_session(session: str) -> str:
    """That a session is not pinned."""
    return f"""NOT EXISTS (SELECT 1 FROM memforest.session s
                    WHERE s.tenant_id = :t AND s.session_id = {session} AND s.pinned)"""


def free_cell(forest: str) -> str:
    """That neither a cell ``c`` nor its turns are pinned, and that no fact rests on them which is pinned or was said in
    a pinned turn. A fact may rest on turns of later cells than its own."""
    return f"""
        {free_session("c.session_id")}
        AND NOT EXISTS (SELECT 1 FROM memforest.turn t
                         WHERE t.tenant_id = :t AND t.session_id = c.session_id AND t.pinned
                           AND t.ordinal BETWEEN c.first_turn AND c.last_turn)
        AND NOT EXISTS (SELECT 1 FROM (
            SELECT o.session_id, o.turn_ordinals FROM memforest.fact x
              JOIN memforest.occurrence o ON o.tenant_id = :t AND o.fact_id = x.fact_id
             WHERE x.tenant_id = :t AND x.forest_id = {forest} AND x.pinned
             UNION ALL {_said(forest, "o.session_id, o.turn_ordinals")}) held
         WHERE held.session_id = c.session_id
           AND EXISTS (SELECT 1 FROM unnest(held.turn_ordinals) AS rests(ordinal)
                        WHERE rests.ordinal BETWEEN c.first_turn AND c.last_turn))"""


def free_fact(forest: str, fact: str = "x.fact_id") -> str:
    """That a fact was said in no pinned session and no pinned turn; whether it is pinned itself is a column."""
    return f"""NOT EXISTS (SELECT 1 FROM (
            SELECT o.fact_id FROM memforest.session s
              JOIN memforest.cell d ON d.tenant_id = :t AND d.session_id = s.session_id
              JOIN memforest.occurrence o ON o.tenant_id = :t AND o.cell_id = d.cell_id
             WHERE s.tenant_id = :t AND s.forest_id = {forest} AND s.pinned
             UNION ALL {_said(forest, "o.fact_id")}) held
         WHERE held.fact_id = {fact})"""


def free_time(forest: str) -> str:
    """That a digest ``d`` is of no turn that is pinned, or is in a pinned session."""
    within = "t.occurred_at >= d.start_at AND t.occurred_at < d.end_at"
    return f"""
        NOT EXISTS (SELECT 1 FROM memforest.turn t
              JOIN memforest.session s ON s.tenant_id = :t AND s.session_id = t.session_id AND s.forest_id = {forest}
             WHERE t.tenant_id = :t AND t.pinned AND {within})
        AND NOT EXISTS (SELECT 1 FROM memforest.session s
              JOIN memforest.turn t ON t.tenant_id = :t AND t.session_id = s.session_id AND NOT t.erased AND {within}
             WHERE s.tenant_id = :t AND s.forest_id = {forest} AND s.pinned)"""


def free_text(_forest: str) -> str:
    """That a window's text ``d`` is of no pinned turn, and of no pinned session."""
    return f"""{free_session("d.session_id")}
        AND NOT EXISTS (SELECT 1 FROM memforest.turn t WHERE t.tenant_id = :t AND t.session_id = d.session_id
                           AND t.pinned AND t.ordinal < d.turns)"""


def free_item(forest: str) -> str:
    """That a window's item ``d`` refers to nothing that is pinned, and is not in the window of a pinned session."""
    return f"""{free_session("d.session_id")} AND {free_session("d.said_in")}
        AND NOT EXISTS (SELECT 1 FROM memforest.turn t WHERE t.tenant_id = :t AND t.session_id = d.said_in
                           AND t.ordinal = d.ordinal AND t.pinned)
        AND NOT EXISTS (SELECT 1 FROM memforest.fact x
                         WHERE x.tenant_id = :t AND x.fact_id = d.fact_id AND x.pinned)
        AND {free_fact(forest, "d.fact_id")}"""
