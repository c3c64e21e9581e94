"""Rows that a deletion removes, or that a policy must leave: turns that a target names, then what rests on them."""

# ruff: noqa: S608 - statements are made of constants of this package

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from memforest_core.domain.cells import MAX_WINDOW_TURNS
from memforest_core.domain.facts import Statement
from memforest_core.domain.ids import CellId, FactId, ForestId, NodeId, SessionId, TreeId
from memforest_core.lifecycle.erase.records import ItemKey, RemainingTurns, Scope, Target, TurnKey
from memforest_core.store import tables as m
from memforest_core.store.packs import of_sessions, unpack
from memforest_core.store.removal import RemovalRows
from memforest_core.store.rows import FIRST, TenantRows, among
from memforest_core.store.statements import from_document
from memforest_core.store.trees import SCOPES_OF

TURNS = "unnest(CAST(:sessions AS uuid[]), CAST(:ordinals AS int[])) AS u(session, ordinal)"
ITEMS = "unnest(CAST(:cells AS uuid[]), CAST(:items AS smallint[])) AS u(cell, item)"
IDS = "ANY(CAST(:ids AS uuid[]))"
OF_TIMES = """g.tenant_id = :t AND g.forest_id = :f AND EXISTS (
    SELECT 1 FROM unnest(CAST(:times AS timestamptz[])) AS u(at)
     WHERE u.at >= g.start_at AND u.at < g.end_at)"""


def sessions_of(turns: Sequence[TurnKey]) -> list[SessionId]:
    """The sessions of these turns, in the order of ids."""
    return sorted({turn.session_id for turn in turns}, key=str)


def item_arrays(items: Sequence[ItemKey]) -> dict[str, list[Any]]:
    """Candidates as the parameters of ``ITEMS``."""
    return {"cells": [item.cell_id for item in items], "items": [item.item for item in items]}


class BatchRows(TenantRows):
    def _ids(self, statement: sa.TextClause, ids: Sequence[Any], **values: object) -> sa.CursorResult[*tuple[Any, ...]]:
        return self._run(statement, ids=list(ids), **values)

    def _turns(
        self, statement: sa.TextClause, turns: Sequence[TurnKey], **values: object
    ) -> sa.CursorResult[*tuple[Any, ...]]:
        sessions, ordinals = [turn.session_id for turn in turns], [turn.ordinal for turn in turns]
        return self._run(statement, sessions=sessions, ordinals=ordinals, in_sessions=sessions_of(turns), **values)

    def _items(self, statement: sa.TextClause, items: Sequence[ItemKey]) -> sa.CursorResult[*tuple[Any, ...]]:
        return self._run(statement, **item_arrays(items))


def _said_pinned(forest: str, columns: str) -> str:
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
             UNION ALL {_said_pinned(forest, "o.session_id, o.turn_ordinals")}) held
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
             UNION ALL {_said_pinned(forest, "o.fact_id")}) held
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


CELL_CHARS = 6_000
"""About how many characters of a long turn are in one cell."""

# The digest is salted with the forest: the same speaker has another digest in another forest.
_DIGEST = (
    "encode(sha256(convert_to(CAST(CAST(:f AS uuid) AS text) || chr(31) || t.speaker_id, 'UTF8')), 'hex') = :speaker"
)
_WITHIN = (
    "(CAST(:since AS timestamptz) IS NULL OR t.occurred_at >= CAST(:since AS timestamptz))"
    " AND (CAST(:until AS timestamptz) IS NULL OR t.occurred_at < CAST(:until AS timestamptz))"
)
_OF_SESSION = """SELECT t.session_id, t.ordinal, t.content FROM memforest.turn t
                  WHERE t.tenant_id = :t AND t.session_id = :session AND NOT t.erased {}
                  ORDER BY t.ordinal LIMIT :most"""


def _said(condition: str) -> str:
    return f"""SELECT t.* FROM (SELECT session_id FROM memforest.session
                                 WHERE tenant_id = :t AND forest_id = :f AND session_id >= :after
                                 ORDER BY session_id) s
      CROSS JOIN LATERAL (SELECT t.session_id, t.ordinal, t.content FROM memforest.turn t
                           WHERE t.tenant_id = :t AND t.session_id = s.session_id AND NOT t.erased AND {condition}
                           ORDER BY t.ordinal LIMIT :most) t
      ORDER BY t.session_id, t.ordinal LIMIT :most"""


def _bounded(picked: str) -> sa.TextClause:
    """The first of these turns that together make no more than ``:most`` cells, and at least one."""
    return sa.text(f"""
        SELECT session_id, ordinal FROM (
            SELECT session_id, ordinal, row_number() OVER w AS place,
                   sum(1 + 2 * (coalesce(length(content), {CELL_CHARS}) / {CELL_CHARS})) OVER w AS cost
              FROM ({picked}) p WINDOW w AS (ORDER BY session_id, ordinal)) q
         WHERE cost <= :most OR place = 1 ORDER BY session_id, ordinal
    """)


_NAMED_TURNS = {
    Target.TURNS: _bounded(_OF_SESSION.format("AND t.ordinal = ANY(CAST(:ordinals AS int[]))")),
    Target.SESSION: _bounded(_OF_SESSION.format("")),
    Target.RANGE: _bounded(_said(_WITHIN)),
    Target.SPEAKER: _bounded(_said(_DIGEST)),
}

_TURNS_OF_CELLS = sa.text(f"""
    SELECT DISTINCT t.session_id, t.ordinal FROM memforest.cell c
      JOIN memforest.turn t ON t.tenant_id = :t AND t.session_id = c.session_id
           AND t.ordinal BETWEEN c.first_turn AND c.last_turn
     WHERE c.tenant_id = :t AND c.cell_id = {IDS} AND NOT t.erased ORDER BY 1, 2
""")

_LOCK_SESSIONS = sa.text("""
    SELECT session_id FROM memforest.session WHERE tenant_id = :t AND session_id = ANY(CAST(:in_sessions AS uuid[]))
     ORDER BY session_id FOR NO KEY UPDATE
""")

# All cells that this transaction changes, in one ordered statement: the end of an extraction locks its whole window.
_LOCK_WINDOWS = sa.text(f"""
    SELECT c.cell_id FROM memforest.cell c
     WHERE c.tenant_id = :t AND c.session_id = ANY(CAST(:in_sessions AS uuid[]))
       AND (c.state = 'running' OR (c.session_id, c.window_ordinal) IN (
            SELECT w.session_id, w.window_ordinal FROM memforest.cell w
             WHERE w.tenant_id = :t AND w.session_id = ANY(CAST(:in_sessions AS uuid[]))
               AND EXISTS (SELECT 1 FROM {TURNS} WHERE u.session = w.session_id
                              AND u.ordinal BETWEEN w.first_turn AND w.last_turn)))
     ORDER BY c.cell_id FOR UPDATE OF c
""")

_LOCK_CELLS = sa.text(f"""
    SELECT c.cell_id FROM memforest.cell c
     WHERE c.tenant_id = :t AND c.session_id = ANY(CAST(:in_sessions AS uuid[]))
       AND EXISTS (SELECT 1 FROM {TURNS} WHERE u.session = c.session_id
                      AND u.ordinal BETWEEN c.first_turn AND c.last_turn)
     ORDER BY c.cell_id FOR UPDATE
""")

_REMAINING_TURNS = sa.text(f"""
    SELECT c.cell_id, t.ordinal, t.name, t.content FROM memforest.cell c
      JOIN memforest.turn t ON t.tenant_id = :t AND t.session_id = c.session_id
           AND t.ordinal BETWEEN c.first_turn AND c.last_turn
     WHERE c.tenant_id = :t AND c.cell_id = {IDS} AND NOT t.erased
       AND NOT EXISTS (SELECT 1 FROM {TURNS} WHERE u.session = t.session_id AND u.ordinal = t.ordinal)
     ORDER BY c.cell_id, t.ordinal
""")

_ITEMS_OF_TURNS = sa.text(f"""
    SELECT k.cell_id, k.item FROM memforest.cell c
      JOIN memforest.candidate k ON k.tenant_id = :t AND k.cell_id = c.cell_id
     WHERE c.tenant_id = :t AND c.session_id = ANY(CAST(:in_sessions AS uuid[]))
       AND EXISTS (SELECT 1 FROM {TURNS} WHERE u.session = c.session_id
                      AND u.ordinal BETWEEN c.first_turn AND c.last_turn + {MAX_WINDOW_TURNS})
       AND EXISTS (SELECT 1 FROM {TURNS} WHERE u.session = c.session_id AND u.ordinal = ANY(k.turn_ordinals))
     UNION
    SELECT k.cell_id, k.item FROM memforest.candidate k WHERE k.tenant_id = :t AND k.cell_id = {IDS}
""")

_HASHES_OF_ITEMS = sa.text(f"""
    SELECT h.hash FROM {ITEMS} JOIN memforest.candidate k
        ON k.tenant_id = :t AND k.cell_id = u.cell AND k.item = u.item
     CROSS JOIN LATERAL (VALUES (k.text_hash), (k.routing_hash)) AS h(hash)
""")

_FREE_CELLS = sa.text(f"""
    SELECT c.cell_id FROM memforest.cell c WHERE c.tenant_id = :t AND c.cell_id = {IDS} AND {free_cell(":f")}
""")
_FREE_FACTS = sa.text(f"""
    SELECT x.fact_id FROM memforest.fact x
     WHERE x.tenant_id = :t AND x.fact_id = {IDS} AND NOT x.pinned AND {free_fact(":f")}
""")


class TargetRows(BatchRows):
    """Finds what a deletion removes, and locks the sessions and cells of it."""

    def ordinals(self, session: SessionId, turn_ids: Sequence[str]) -> Mapping[str, int]:
        turn = m.TurnRow
        statement = self._select(turn.external_id, turn.ordinal).where(
            turn.session_id == session, among(turn.external_id, turn_ids)
        )
        return {row.external_id: row.ordinal for row in self._db.execute(statement)}

    def has_fact(self, forest: ForestId, fact: FactId) -> bool:
        statement = self._select(m.FactRow.fact_id).where(m.FactRow.forest_id == forest, m.FactRow.fact_id == fact)
        return self._db.scalar(statement) is not None

    def sessions(self, forest: ForestId, name: str | None = None) -> dict[str, SessionId]:
        """The sessions of a forest by the caller's ids: all, or the one of this ``name``."""
        s = m.Session
        named = s.external_id == name if name is not None else sa.true()
        own = self._select(s.session_id, s.external_id).where(s.forest_id == forest, named)
        return {row.external_id: SessionId(row.session_id) for row in self._db.execute(own)}

    def statements(self, forest: ForestId) -> list[tuple[FactId, Statement]]:
        x = m.FactRow
        own = self._select(x.fact_id, x.statement).where(x.forest_id == forest)
        return [(FactId(row.fact_id), from_document(row.statement)) for row in self._db.execute(own)]

    def speakers(self, forest: ForestId) -> frozenset[str]:
        t, s = m.TurnRow, m.Session
        said_in = self._select(s.session_id).where(s.forest_id == forest)
        return frozenset(self._db.scalars(self._select(t.speaker_id).where(t.session_id.in_(said_in)).distinct()))

    def next_turns(self, scope: Scope, after: SessionId | None, cells: int) -> list[TurnKey]:
        """The next turns of a target that have words, about ``cells`` cells of them, from the session ``after`` on."""
        if scope.target not in _NAMED_TURNS:
            return []
        rows = self._run(
            _NAMED_TURNS[scope.target],
            most=2 * cells,
            f=scope.forest,
            after=after or FIRST,
            session=scope.session,
            ordinals=list(scope.ordinals),
            since=scope.since,
            until=scope.until,
            speaker=scope.speaker,
        )
        return [TurnKey(SessionId(row.session_id), row.ordinal) for row in rows]

    def lock_session(self, session: SessionId) -> bool:
        """Wait until nothing is being added to a session, and let nothing be added; whether it exists."""
        return self._turns(_LOCK_SESSIONS, [TurnKey(session, 0)]).first() is not None

    def turns_of(self, cells: Sequence[CellId]) -> list[TurnKey]:
        """The turns of these cells that have words."""
        return [TurnKey(SessionId(row.session_id), row.ordinal) for row in self._ids(_TURNS_OF_CELLS, cells)]

    def lock_cells(self, turns: Sequence[TurnKey]) -> dict[CellId, RemainingTurns]:
        """Lock the sessions of these turns, then all cells that have any of them; their other turns, by cell."""
        self._turns(_LOCK_SESSIONS, turns)
        unpack(self._db, self._tenant, of_sessions(sessions_of(turns)))
        self._turns(_LOCK_WINDOWS, turns)
        cells = self._turns(_LOCK_CELLS, turns).scalars().all()
        remaining: dict[UUID, list[tuple[int, str, str]]] = {cell: [] for cell in cells}
        for row in self._turns(_REMAINING_TURNS, turns, ids=list(cells)):
            remaining[row.cell_id].append((row.ordinal, row.name, row.content))
        return {CellId(cell): turns_left for cell, turns_left in remaining.items()}

    def free_cells(self, forest: ForestId, cells: Sequence[CellId]) -> list[CellId]:
        """Those of these cells on which nothing pinned rests. The caller has locked the forest."""
        found = set(self._ids(_FREE_CELLS, cells, f=forest).scalars())
        return [cell for cell in cells if cell in found]

    def free_facts(self, forest: ForestId, facts: Sequence[FactId]) -> list[FactId]:
        """Those of these facts that are not pinned, nor said in what is. The caller has locked the forest."""
        found = set(self._ids(_FREE_FACTS, facts, f=forest).scalars())
        return [fact for fact in facts if fact in found]

    def items_of_turns(self, turns: Sequence[TurnKey], gone: Sequence[CellId] = ()) -> list[ItemKey]:
        """Candidates that rest on any of these turns, and all candidates of the cells ``gone``."""
        found = self._turns(_ITEMS_OF_TURNS, turns, ids=list(gone))
        return [ItemKey(CellId(row.cell_id), row.item) for row in found]

    def items_of_facts(self, facts: Sequence[FactId]) -> list[ItemKey]:
        occurrence = m.OccurrenceRow
        statement = self._select(occurrence.cell_id, occurrence.item).where(among(occurrence.fact_id, facts))
        return [ItemKey(CellId(row.cell_id), row.item) for row in self._db.execute(statement)]

    def hashes_of(self, cells: Sequence[CellId], items: Sequence[ItemKey], facts: Sequence[FactId]) -> frozenset[bytes]:
        """The hashes under which the vectors of these rows' texts are stored."""
        of_cells = self._select(m.Cell.text_hash).where(among(m.Cell.cell_id, cells))
        of_facts = self._select(m.FactRow.text_hash).where(among(m.FactRow.fact_id, facts))
        of_items = self._items(_HASHES_OF_ITEMS, items).scalars()
        found = [*self._db.scalars(of_cells), *of_items, *self._db.scalars(of_facts)]
        return frozenset(bytes(each) for each in found)

    def path_above(self, payloads: Sequence[UUID]) -> tuple[list[NodeId], list[TreeId]]:
        """All internal nodes above the leaves of these cells and facts, and their trees."""
        nodes, _ = RemovalRows(self._db, self._tenant).nodes_above(payloads)
        trees = self._run(SCOPES_OF, ids=list(payloads)).scalars()
        return list(nodes), [TreeId(tree) for tree in trees]

    def sessions_of(self, cells: Sequence[CellId]) -> list[SessionId]:
        own = self._select(m.Cell.session_id).where(among(m.Cell.cell_id, cells))
        return [SessionId(found) for found in self._db.scalars(own.distinct())]

    def owner_of(self, forest: ForestId) -> str:
        named = self._select(m.Forest.owner).where(m.Forest.forest_id == forest)
        return str(self._db.scalar(named))
