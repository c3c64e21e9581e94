"""Statements that say how far accepted work has come, and make it due."""

from __future__ import annotations

import sqlalchemy as sa

from memforest_core.domain.ids import ForestId, SessionId
from memforest_core.ingest.accept.records import Backlog, SessionProgress, Stage
from memforest_core.store import tables as m
from memforest_core.store.owners import find_forest
from memforest_core.store.rows import TenantRows, record_of
from memforest_core.store.tables import BEHIND
from memforest_core.work.jobs import WorkError
from memforest_core.work.rows.pace import explained

_OF_SESSION = """(
    SELECT p.tree_id FROM memforest.node p WHERE p.tenant_id = :t AND p.payload_id IN (
        SELECT o.fact_id FROM memforest.occurrence o WHERE o.tenant_id = :t AND o.session_id = :s
        UNION ALL SELECT own.cell_id FROM memforest.cell own WHERE own.tenant_id = :t AND own.session_id = :s))"""
"""The trees that hold facts or cells of a session."""

# A dead cell does not delay its session. A cell that was in the trees before it was opened again stays in them.
_PROGRESS = sa.text(f"""
    SELECT s.turn_count AS turns, count(c.cell_id) AS cells,
           count(c.cell_id) FILTER (WHERE i.indexed_version > 0) AS indexed,
           count(c.cell_id) FILTER (WHERE c.state = 'done') AS extracted,
           count(c.cell_id) FILTER (WHERE c.placed) AS placed,
           count(c.cell_id) FILTER (WHERE NOT c.placed AND c.state <> 'dead') AS unplaced,
           count(c.cell_id) FILTER (WHERE c.ended = 'ok') AS ok,
           count(c.cell_id) FILTER (WHERE c.ended = 'empty') AS empty,
           count(c.cell_id) FILTER (WHERE c.ended = 'repaired') AS repaired,
           count(c.cell_id) FILTER (WHERE c.ended = 'verbatim') AS verbatim,
           count(c.cell_id) FILTER (WHERE c.ended = 'failed') AS failed,
           count(c.cell_id) FILTER (WHERE c.ended = 'dead') AS dead,
           count(c.cell_id) FILTER (WHERE c.ended = 'waiting') AS waiting,
           count(c.cell_id) FILTER (WHERE c.placed AND c.ended IN ('ok', 'empty', 'repaired')) AS covered,
           (SELECT count(DISTINCT o.fact_id) FROM memforest.occurrence o
             WHERE o.tenant_id = :t AND o.session_id = :s) AS facts,
           (SELECT count(*) FROM memforest.tree r WHERE r.tenant_id = :t AND r.due_at IS NOT NULL
             AND r.tree_id IN {_OF_SESSION}) AS dirty_trees
      FROM memforest.session s
      LEFT JOIN (SELECT cell_id, session_id, state, placed,
                        CASE WHEN state = 'dead' THEN 'dead' WHEN outcome IS NOT NULL THEN outcome
                             WHEN state = 'ready' AND error_code IS NOT NULL THEN 'failed'
                             ELSE 'waiting' END AS ended
                   FROM memforest.cell WHERE tenant_id = :t AND session_id = :s) c ON c.session_id = s.session_id
      LEFT JOIN memforest.index_row i ON i.tenant_id = :t AND i.point_id = c.cell_id
     WHERE s.tenant_id = :t AND s.session_id = :s
     GROUP BY s.turn_count
    """)  # noqa: S608 - a constant of this module

# While a model is paused after failures no cell is claimed: then another waiting cell has the error.
_LAST_ERROR = sa.text("""
    SELECT error_code, error_text FROM (
        (SELECT 1 AS place, error_code, error_text, available_at FROM memforest.cell
          WHERE tenant_id = :t AND session_id = :s AND state <> 'done' AND error_code IS NOT NULL)
        UNION ALL
        (SELECT 1, i.error_code, i.error_text, i.available_at FROM memforest.cell c
           JOIN memforest.index_row i ON i.tenant_id = :t AND i.point_id = c.cell_id
          WHERE c.tenant_id = :t AND c.session_id = :s AND i.state <> 'done' AND i.error_code IS NOT NULL)
        UNION ALL
        (SELECT 1, n.error_code, n.error_text, n.available_at FROM memforest.tree r
           JOIN memforest.node n ON n.tenant_id = :t AND n.tree_id = r.tree_id
          WHERE r.tenant_id = :t AND r.session_id = :s AND n.version > n.clean_version AND n.error_code IS NOT NULL)
        UNION ALL
        (SELECT 2, error_code, error_text, available_at FROM memforest.cell
          WHERE tenant_id = :t AND state = 'ready' AND error_code IS NOT NULL
            AND EXISTS (SELECT 1 FROM memforest.cell c
                         WHERE c.tenant_id = :t AND c.session_id = :s AND c.state IN ('ready', 'running'))
          LIMIT 1)
        UNION ALL
        (SELECT 3, error_code, error_text, available_at FROM memforest.cell
          WHERE tenant_id = :t AND session_id = :s AND state = 'done' AND error_code IS NOT NULL LIMIT 1)) e
     ORDER BY place, available_at DESC LIMIT 1
    """)

_BACKLOG = sa.text(f"""
    SELECT (SELECT count(*) FROM memforest.cell
             WHERE tenant_id = :t AND forest_id = :f AND NOT placed AND state <> 'dead') AS cells,
           (SELECT count(*) FROM memforest.tree
             WHERE tenant_id = :t AND forest_id = :f AND due_at IS NOT NULL) AS trees,
           (SELECT count(*) FROM memforest.index_row
             WHERE tenant_id = :t AND forest_id = :f AND {BEHIND} AND state IN ('ready', 'running')) AS points
    """)  # noqa: S608 - a constant

_UNPLACED = sa.text("""
    SELECT count(*) FILTER (WHERE state <> 'done') AS waiting, count(*) FILTER (WHERE state = 'done') AS extracted
      FROM memforest.cell WHERE tenant_id = :t AND session_id = :s AND NOT placed AND state <> 'dead'
    """)

_FOREST_ERROR = sa.text(f"""
    SELECT error_code, error_text FROM (
        (SELECT error_code, error_text, available_at FROM memforest.cell
          WHERE tenant_id = :t AND forest_id = :f AND state IN ('ready', 'running') AND error_code IS NOT NULL LIMIT 1)
        UNION ALL
        (SELECT error_code, error_text, available_at FROM memforest.index_row
          WHERE tenant_id = :t AND forest_id = :f AND {BEHIND} AND state = 'ready' AND error_code IS NOT NULL LIMIT 1)
        UNION ALL
        (SELECT n.error_code, n.error_text, n.available_at FROM memforest.tree r
           JOIN memforest.node n ON n.tenant_id = :t AND n.tree_id = r.tree_id
          WHERE r.tenant_id = :t AND r.forest_id = :f AND r.due_at IS NOT NULL AND n.error_code IS NOT NULL LIMIT 1)
    ) e ORDER BY available_at DESC LIMIT 1
    """)  # noqa: S608 - a constant

_RELEASE = sa.text("""
    UPDATE memforest.cell SET state = 'ready', available_at = clock_timestamp()
     WHERE tenant_id = :t AND state = 'held' AND cell_id IN (
        SELECT cell_id FROM memforest.cell WHERE tenant_id = :t AND forest_id = :f AND state = 'held'
         ORDER BY cell_id FOR NO KEY UPDATE)
    """)

# A waiting caller does this each second: a tree that is being written now is made due the next time.
_DUE = """
    UPDATE memforest.tree SET due_at = clock_timestamp() WHERE tenant_id = :t AND tree_id IN (
        SELECT tree_id FROM memforest.tree
         WHERE tenant_id = :t AND forest_id = :f AND due_at > clock_timestamp() {which}
         ORDER BY tree_id FOR NO KEY UPDATE SKIP LOCKED)
    """


class ProgressRows(TenantRows):
    """Rows of one transaction that waits for accepted work."""

    def find_forest(self, owner: str) -> ForestId | None:
        """The owner's forest."""
        found = find_forest(self._db, self._tenant, owner)
        return found.id if found is not None else None

    def progress(self, session: SessionId) -> SessionProgress | None:
        """How far a session has come; None when it does not exist."""
        row = self._run(_PROGRESS, s=session).mappings().first()
        if row is None:
            return None
        counts = dict(row)
        unplaced = counts.pop("unplaced")
        if unplaced == 0 and counts["dirty_trees"] == 0:
            stage = Stage.SUMMARIES
        elif unplaced == 0:
            stage = Stage.FACTS
        elif counts["indexed"] >= counts["cells"]:
            stage = Stage.RAW
        else:
            stage = Stage.ACCEPTED
        return SessionProgress(session_id=session, stage=stage, **counts)

    def last_error(self, session: SessionId) -> WorkError | None:
        """What the last failed try of the session's unfinished work ended with; else of any other waiting cell; else
        what of a model's answer could not be used."""
        row = self._run(_LAST_ERROR, s=session).first()
        error = None if row is None else WorkError(row.error_code, row.error_text or "")
        return explained(self._db, self._tenant, error, "this session", m.Cell.session_id == session)

    def backlog(self, forest: ForestId) -> Backlog:
        """What the forest still has to do (dead work is not counted)."""
        return record_of(Backlog, self._run(_BACKLOG, f=forest).one())

    def unplaced(self, session: SessionId) -> tuple[int, int]:
        """Cells of a session that wait for extraction, and extracted ones in no tree yet; dead ones are neither."""
        row = self._run(_UNPLACED, s=session).one()
        return row.waiting, row.extracted

    def forest_error(self, forest: ForestId) -> WorkError | None:
        """What the last failed try of the forest's unfinished work ended with."""
        row = self._run(_FOREST_ERROR, f=forest).first()
        error = None if row is None else WorkError(row.error_code, row.error_text or "")
        return explained(self._db, self._tenant, error, "this owner's talk", m.Cell.forest_id == forest)

    def release_held(self, forest: ForestId) -> int:
        """Close the forest's open last cells now; how many became ready."""
        return self._run(_RELEASE, f=forest).rowcount

    def make_due(self, forest: ForestId, session: SessionId | None) -> None:
        """Make dirty trees due now: those that a session touches, or all."""
        which = "" if session is None else f"AND tree_id IN {_OF_SESSION}"
        self._run(sa.text(_DUE.format(which=which)), f=forest, **({} if session is None else {"s": session}))
