"""The hidden forest of a rebuild: created, freed of changed sessions, given the states of facts, and switched."""

# ruff: noqa: S608 - statements are made of constants of this module

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from memforest_core.domain.facts import CORRECTED_ITEM
from memforest_core.domain.ids import CellId, ForestId, NodeId, SessionId, TenantId
from memforest_core.ingest.accept.progress_rows import ProgressRows
from memforest_core.ingest.reduce.records import HELD, Rules
from memforest_core.lifecycle.hidden_forest_rows import HiddenForestRows
from memforest_core.lifecycle.rebuild.records import Pair
from memforest_core.lifecycle.rebuild.rows.session_copies import SessionCopies
from memforest_core.store import tables as m
from memforest_core.store.copying import columns_of, copy_rows, delete_rows
from memforest_core.store.owners import lock_forests
from memforest_core.store.removal import RemovalRows
from memforest_core.store.trees import bury_points, lock_nodes
from memforest_core.store.vectors import VectorRows

CARRIED_FROM = 16_000
"""Items of candidates that a new extraction left out though their fact is pinned: above any number of corrections."""

# The cell ``d`` of the copy that a cell ``c`` of the source has become.
_TWIN = """JOIN memforest.session s ON s.tenant_id = :t AND s.session_id = c.session_id
      JOIN memforest.session z ON z.tenant_id = :t AND z.forest_id = :copy AND z.external_id = s.external_id
      JOIN memforest.cell d ON d.tenant_id = :t AND d.session_id = z.session_id AND d.ordinal = c.ordinal"""

# Facts of the two forests that rest on the same statement of the same cell. Ids, item numbers, and which of several
# wordings names a fact may differ; text and time of a statement do not, unless it was extracted again: then it is the
# same if the same turns give the same value to the same attribute of the same subject.
_SAME = f"""
      JOIN memforest.occurrence o ON o.tenant_id = :t AND o.fact_id = f.fact_id AND o.item >= 0
      JOIN memforest.candidate k ON k.tenant_id = :t AND k.cell_id = o.cell_id AND k.item = o.item
      JOIN memforest.cell c ON c.tenant_id = :t AND c.cell_id = o.cell_id
      {_TWIN}
      JOIN memforest.candidate l ON l.tenant_id = :t AND l.cell_id = d.cell_id AND l.item >= 0
       AND ((l.text_hash = k.text_hash AND l.statement -> 'start' = k.statement -> 'start'
             AND l.statement -> 'end' = k.statement -> 'end')
            OR (:extract AND l.turn_ordinals = k.turn_ordinals AND k.statement ->> 'attribute' <> ''
                AND (l.item >= {CORRECTED_ITEM}) = (k.item >= {CORRECTED_ITEM})
                AND (lower(l.statement ->> 'subject'), l.statement -> 'attribute', lower(l.statement ->> 'value'))
                  = (lower(k.statement ->> 'subject'), k.statement -> 'attribute', lower(k.statement ->> 'value'))))
      JOIN memforest.occurrence q ON q.tenant_id = :t AND q.cell_id = l.cell_id AND q.item = l.item
      JOIN memforest.fact n ON n.tenant_id = :t AND n.fact_id = q.fact_id
     WHERE f.tenant_id = :t AND f.forest_id = :source"""

_ABOUT = """(f.pinned OR f.superseded_at IS NOT NULL OR f.fact_id IN (
            SELECT superseded_by FROM memforest.fact
             WHERE tenant_id = :t AND forest_id = :source AND superseded_by IS NOT NULL))"""

# Pins are those of the source. Of a note that the source's reducer has not placed yet they are the copy's own.
_CARRY_STATES = sa.text(f"""
    WITH same AS MATERIALIZED (
        SELECT DISTINCT f.fact_id AS old, f.pinned, f.superseded_by, f.superseded_at, n.fact_id AS new,
               f.normalized = n.normalized AS alike FROM memforest.fact f {_SAME} AND {_ABOUT}),
    successor AS (SELECT DISTINCT ON (old) old, new FROM same ORDER BY old, alike DESC, new),
    wanted AS (
        SELECT DISTINCT ON (a.new) a.new, bool_or(a.pinned) OVER (PARTITION BY a.new) AS pinned,
               CASE WHEN b.new <> a.new THEN b.new END AS superseded_by,
               CASE WHEN b.new <> a.new THEN a.superseded_at END AS superseded_at
          FROM same a LEFT JOIN successor b ON b.old = a.superseded_by
         ORDER BY a.new, (CASE WHEN b.new <> a.new THEN a.superseded_at END) NULLS LAST, b.new),
    waits AS (
        SELECT DISTINCT q.fact_id FROM memforest.session s
          JOIN memforest.cell c ON c.tenant_id = :t AND c.session_id = s.session_id AND NOT c.placed
          JOIN memforest.session z ON z.tenant_id = :t AND z.forest_id = :copy AND z.external_id = s.external_id
          JOIN memforest.cell d ON d.tenant_id = :t AND d.session_id = z.session_id AND d.ordinal = c.ordinal
          JOIN memforest.occurrence q ON q.tenant_id = :t AND q.cell_id = d.cell_id AND q.item >= 0
         WHERE s.tenant_id = :t AND s.forest_id = :source AND s.note),
    now AS (
        SELECT g.fact_id, g.superseded_at AS before, coalesce(w.pinned, false) OR n.fact_id IS NOT NULL AS pinned,
               w.superseded_by, w.superseded_at
          FROM memforest.fact g LEFT JOIN wanted w ON w.new = g.fact_id LEFT JOIN waits n ON n.fact_id = g.fact_id
         WHERE g.tenant_id = :t AND g.forest_id = :copy
           AND (w.new IS NOT NULL OR g.pinned OR g.superseded_at IS NOT NULL)
           AND (g.pinned, g.superseded_by, g.superseded_at) IS DISTINCT FROM
               (coalesce(w.pinned, false) OR n.fact_id IS NOT NULL, w.superseded_by, w.superseded_at))
    UPDATE memforest.fact g
       SET pinned = now.pinned, superseded_by = now.superseded_by, superseded_at = now.superseded_at
      FROM now WHERE g.tenant_id = :t AND g.fact_id = now.fact_id
    RETURNING g.fact_id, (now.before IS NULL) <> (now.superseded_at IS NULL) AS changed
    """)

# A new extraction may leave out what people have said explicitly: those candidates are added to it.
_LEFT_OUT = sa.text(f"""
    WITH explicit AS (
        SELECT k.cell_id, k.item, k.item AS into_item FROM memforest.cell c
          JOIN memforest.candidate k ON k.tenant_id = :t AND k.cell_id = c.cell_id AND k.item >= {CORRECTED_ITEM}
         WHERE c.tenant_id = :t AND c.forest_id = :source),
    found AS (SELECT DISTINCT f.fact_id FROM memforest.fact f {_SAME} AND f.pinned),
    pinned AS (
        SELECT DISTINCT ON (f.fact_id) o.cell_id, o.item, {CARRIED_FROM} + o.item AS into_item
          FROM memforest.fact f
          JOIN memforest.occurrence o ON o.tenant_id = :t AND o.fact_id = f.fact_id
           AND o.item BETWEEN 0 AND {CORRECTED_ITEM - 1}
         WHERE f.tenant_id = :t AND f.forest_id = :source AND f.pinned AND f.fact_id NOT IN (SELECT fact_id FROM found)
         ORDER BY f.fact_id, o.cell_id, o.item)
    SELECT w.cell_id, w.item, d.cell_id AS new_cell, w.into_item
      FROM (SELECT * FROM explicit UNION SELECT * FROM pinned) w
      JOIN memforest.cell c ON c.tenant_id = :t AND c.cell_id = w.cell_id
      {_TWIN} AND d.state = 'done'
    """)

_DELETING = """EXISTS (SELECT 1 FROM memforest.maintenance_forest x
                     JOIN memforest.maintenance k
                       ON k.tenant_id = :t AND k.task_id = x.task_id AND k.state <> 'done'
                    WHERE x.tenant_id = :t AND x.forest_id = :source AND x.role = 'erase')"""

# Operations of the live forest name its facts and sessions: the switch comes after it.
_BUSY = sa.text(f"""
    SELECT {_DELETING}
        OR EXISTS (SELECT 1 FROM memforest.maintenance_forest x
                     JOIN memforest.maintenance k
                       ON k.tenant_id = :t AND k.task_id = x.task_id AND k.state IN ('held', 'ready', 'running')
                    WHERE x.tenant_id = :t AND x.forest_id = :source AND x.role = 'correct')
        OR EXISTS (SELECT 1 FROM memforest.cell
                    WHERE tenant_id = :t AND forest_id = :source AND state = 'running' AND NOT placed)
        OR EXISTS (SELECT 1 FROM memforest.forest
                    WHERE tenant_id = :t AND forest_id = :source AND state = 'frozen')
    """)

# Cells that wait for extraction wait in the copy instead; those stored word by word are extracted again there.
_SWITCH = [
    sa.text(statement)
    for statement in (
        f"""UPDATE memforest.cell n
              SET state = CASE WHEN c.state = 'held' THEN 'held' ELSE 'ready' END, lane = c.lane,
                  window_ordinal = c.window_ordinal,
                  available_at = CASE WHEN c.state = 'running' THEN clock_timestamp() ELSE c.available_at END
             FROM memforest.cell c
             {_TWIN}
            WHERE c.tenant_id = :t AND c.forest_id = :source AND NOT (c.placed OR c.state IN ('done', 'dead'))
              AND n.tenant_id = :t AND n.cell_id = d.cell_id AND n.state = 'held'""",
        f"""UPDATE memforest.cell n SET retry_at = c.retry_at
             FROM memforest.cell c
             {_TWIN}
            WHERE c.tenant_id = :t AND c.forest_id = :source AND c.retry_at IS NOT NULL
              AND n.tenant_id = :t AND n.cell_id = d.cell_id AND n.state = 'done' AND n.outcome = 'verbatim'""",
        *(
            f"""UPDATE memforest.session z SET pinned = s.pinned FROM memforest.session s
                 WHERE z.tenant_id = :t AND z.forest_id = :copy AND s.tenant_id = :t AND s.forest_id = :source
                   AND s.external_id = z.external_id AND {pinned}"""
            for pinned in ("s.pinned AND NOT z.pinned", "z.pinned AND NOT s.pinned")
        ),
        *(
            f"""UPDATE memforest.turn u SET pinned = t.pinned
                  FROM memforest.session z
                  JOIN memforest.session s ON s.tenant_id = :t AND s.forest_id = :source
                                          AND s.external_id = z.external_id
                  JOIN memforest.turn t ON t.tenant_id = :t AND t.session_id = s.session_id
                 WHERE z.tenant_id = :t AND z.forest_id = :copy AND u.tenant_id = :t AND u.session_id = z.session_id
                   AND u.ordinal = t.ordinal AND {pinned}"""
            for pinned in ("t.pinned AND NOT u.pinned", "u.pinned AND NOT t.pinned")
        ),
        "UPDATE memforest.retention_policy SET forest_id = :copy WHERE tenant_id = :t AND forest_id = :source",
        "UPDATE memforest.running_session SET forest_id = :copy WHERE tenant_id = :t AND forest_id = :source",
        """UPDATE memforest.forest c SET rules = c.rules - 'held', display_name = s.display_name
             FROM memforest.forest s
            WHERE c.tenant_id = :t AND c.forest_id = :copy AND s.tenant_id = :t AND s.forest_id = :source""",
        # A policy that waits for the switch is applied to the new forest.
        """UPDATE memforest.maintenance k SET forest_id = :copy
             FROM memforest.maintenance_forest x
            WHERE k.tenant_id = :t AND k.forest_id = :source AND k.state IN ('ready', 'dead')
              AND x.tenant_id = :t AND x.task_id = k.task_id AND x.forest_id = :source AND x.role = 'retain'""",
        """UPDATE memforest.maintenance_forest SET forest_id = :copy
            WHERE tenant_id = :t AND forest_id = :source AND role = 'retain'""",
    )
]

# What recall has returned of the source, and what that is in the copy.
_VISITED = sa.text(f"""
    SELECT w.item_id, n.fact_id AS item
      FROM memforest.visit w JOIN memforest.fact f ON w.tenant_id = :t AND w.item_id = f.fact_id {_SAME}
    UNION
    SELECT w.item_id, d.cell_id
      FROM memforest.visit w
      JOIN memforest.cell c ON c.tenant_id = :t AND c.cell_id = w.item_id
      {_TWIN}
     WHERE w.tenant_id = :t AND w.forest_id = :source
    """)

# Answers that were paid for, and what they cost, are the new forest's now.
_ATTRIBUTE = [
    sa.text(statement)
    for statement in (
        *(
            f"""UPDATE memforest.{table} e SET forest_id = :copy, session_id = z.session_id
                  FROM memforest.session s
                  JOIN memforest.session z ON z.tenant_id = :t AND z.forest_id = :copy AND z.external_id = s.external_id
                 WHERE s.tenant_id = :t AND s.forest_id = :source
                   AND e.tenant_id = :t AND e.session_id = s.session_id"""
            for table in ("extraction_cache", "llm_call")
        ),
        "UPDATE memforest.llm_call SET forest_id = :copy WHERE tenant_id = :t AND forest_id = :source",
    )
]


class CopyRows(HiddenForestRows):
    """Rows of one transaction of a tenant that rebuilds a forest."""

    def __init__(self, connection: sa.Connection, tenant: TenantId) -> None:
        super().__init__(connection, tenant)
        self.sessions = SessionCopies(connection, tenant)
        self.removal = RemovalRows(connection, tenant)
        self.flushing = ProgressRows(connection, tenant)

    def hidden(self, owner: str) -> Sequence[ForestId]:
        """Forests of the owner that are or were built to replace the live one."""
        found = self._db.scalars(
            self._select(m.Forest.forest_id).where(
                m.Forest.owner == owner, m.Forest.state == "hidden", m.Forest.rules.has_key(HELD)
            )
        )
        return [ForestId(each) for each in found]

    def begin(self, pair: Pair, rules: Rules, *, forget_summaries: bool) -> bool:
        """Make the hidden forest, unless it is there; ``forget_summaries``: none of the source's is used again.

        False while a deletion is at the source, which finds copies under the same lock.
        """
        self.lock_forest(pair.source)
        if self._run(sa.text(f"SELECT {_DELETING}"), source=pair.source).scalar():
            return False
        self.make_hidden(pair.source, pair.copy, rules=dict(rules) | {HELD: 1})
        self.copy_speakers(pair.source, pair.copy)
        if forget_summaries:
            self._delete(m.Summary.forest_id, [pair.source])
        return True

    def set_aside(self, session: SessionId) -> Sequence[CellId]:
        """Mark all that a session said as superseded; its cells."""
        cells = self._cells_of(session)
        self._db.execute(
            self._update_rows(m.CandidateRow)
            .where(m.CandidateRow.item >= 0, m.CandidateRow.cell_id.in_(cells))
            .values(item=-1 - m.CandidateRow.item)
        )
        return [CellId(cell) for cell in self._db.scalars(cells)]

    def drop_session(self, forest: ForestId, session: SessionId) -> None:
        """Delete a session of which no fact is left: its tree, cells and turns; their points get tombstones."""
        trees = self._select(m.Tree.tree_id).where(m.Tree.forest_id == forest, m.Tree.session_id == session)
        nodes = [
            NodeId(node)
            for node in self._db.scalars(
                self._select(m.NodeRow.node_id).where(m.NodeRow.tree_id.in_(trees)).order_by(m.NodeRow.node_id)
            )
        ]
        lock_nodes(self._db, self._tenant, nodes)
        bury_points(self._db, self._tenant, [*nodes, *self._db.scalars(self._cells_of(session))])
        delete_rows(self._db, self._tenant, "tree", trees)
        delete_rows(self._db, self._tenant, "session", [session])

    def _cells_of(self, session: SessionId) -> sa.Select[Any]:
        return self._select(m.Cell.cell_id).where(m.Cell.session_id == session)

    def carry_candidates(self, pair: Pair) -> int:
        """Give the copy what people have said explicitly and a new extraction left out; how many are to be placed."""
        found = self._run(_LEFT_OUT, **asdict(pair)).all()
        if not found:
            return 0
        new = {"cell_id": [row.new_cell for row in found], "item": [row.into_item for row in found]}
        statement = copy_rows("candidate", self._tenant, columns_of(found, "cell_id", "item"), new, {})
        statement = statement.on_conflict_do_nothing(index_elements=["tenant_id", "cell_id", "item"])
        added = set(self._db.scalars(statement.returning(m.CandidateRow.cell_id)))
        waiting = self._update_rows(m.Cell).where(m.Cell.cell_id.in_(added))
        return self._db.execute(waiting.values(placed=False, lane=1)).rowcount

    def carry_states(self, pair: Pair) -> int:
        """Give facts of the copy their pins and successors; how many facts changed."""
        changed = self._run(_CARRY_STATES, **asdict(pair)).all()
        # What quotes a fact that is superseded now is written again.
        self.removal.mark_payloads([row.fact_id for row in changed if row.changed])
        return len(changed)

    def busy(self, source: ForestId) -> bool:
        """Whether a deletion or a correction of the forest is not done, or a cell is being extracted."""
        return bool(self._run(_BUSY, source=source).scalar())

    def switch(self, pair: Pair) -> bool:
        """Make the copy the owner's forest and the source gone; False when they are not the same, and nothing is done.

        Locks both forests, and waits for sessions that are being accepted.
        """
        states = lock_forests(self._db, self._tenant, [pair.source, pair.copy], changing=True)
        if states.get(pair.copy) != "hidden" or states.get(pair.source) != "live":
            return False
        left = self.sessions.remaining(pair.copy)
        if not left.done or self.busy(pair.source) or self.sessions.differing(pair, 1):
            return False
        if self.carry_states(pair):
            # Their summaries are refreshed first, so that the switch shows nothing stale.
            return False
        self.set_forest_state(pair.source, "gone")
        self.set_forest_state(pair.copy, "live")
        for statement in _SWITCH:
            self._run(statement, **asdict(pair))
        self.move_deliveries([pair.source], pair.copy)
        self.copy_visits(
            pair.source, pair.copy, [(row.item_id, row.item) for row in self._run(_VISITED, **asdict(pair))]
        )
        return True

    def attribute(self, pair: Pair) -> None:
        """What was paid for the source's words is the copy's now: cached answers, and calls in the accounts."""
        for statement in _ATTRIBUTE:
            self._run(statement, **asdict(pair))
        VectorRows(self._db, self._tenant).drop_orphans(pair.copy)
