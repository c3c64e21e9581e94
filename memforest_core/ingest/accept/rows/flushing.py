"""Statements that wait for accepted work and make it due."""

from __future__ import annotations

import sqlalchemy as sa

from memforest_core.domain.ids import ForestId, SessionId
from memforest_core.ingest.accept.records import Backlog, Unplaced
from memforest_core.store import tables as m
from memforest_core.store.owners import find_forest
from memforest_core.store.rows import TenantRows
from memforest_core.store.tables import BEHIND
from memforest_core.work.jobs import WorkError
from memforest_core.work.rows.pace import explained

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

_LAST_ERROR = sa.text(f"""
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
_DUE_FOREST = sa.text("""
    UPDATE memforest.tree SET due_at = clock_timestamp() WHERE tenant_id = :t AND tree_id IN (
        SELECT tree_id FROM memforest.tree
         WHERE tenant_id = :t AND forest_id = :f AND due_at > clock_timestamp()
         ORDER BY tree_id FOR NO KEY UPDATE SKIP LOCKED)
    """)

_DUE_SESSION = sa.text("""
    UPDATE memforest.tree SET due_at = clock_timestamp() WHERE tenant_id = :t AND tree_id IN (
        SELECT tree_id FROM memforest.tree
         WHERE tenant_id = :t AND forest_id = :f AND due_at > clock_timestamp() AND tree_id IN (
            SELECT p.tree_id FROM memforest.placement p WHERE p.tenant_id = :t AND p.payload_id IN (
                SELECT o.fact_id FROM memforest.occurrence o WHERE o.tenant_id = :t AND o.session_id = :s
                UNION ALL SELECT c.cell_id FROM memforest.cell c WHERE c.tenant_id = :t AND c.session_id = :s))
         ORDER BY tree_id FOR NO KEY UPDATE SKIP LOCKED)
    """)


class FlushRows(TenantRows):
    """Rows of one flushing transaction."""

    def find_forest(self, owner: str) -> ForestId | None:
        """The owner's forest."""
        found = find_forest(self._db, self._tenant, owner)
        return found.id if found is not None else None

    def backlog(self, forest: ForestId) -> Backlog:
        """What the forest still has to do (dead work is not counted)."""
        row = self._run(_BACKLOG, f=forest).one()
        return Backlog(row.cells, row.trees, row.points)

    def unplaced(self, session: SessionId) -> Unplaced:
        """What of a session is in no tree yet; nothing for a session that is gone."""
        row = self._run(_UNPLACED, s=session).one()
        return Unplaced(row.waiting, row.extracted)

    def last_error(self, forest: ForestId) -> WorkError | None:
        """What the last failed try of the forest's unfinished work ended with."""
        row = self._run(_LAST_ERROR, f=forest).first()
        error = None if row is None else WorkError(row.error_code, row.error_text or "")
        return explained(self._db, self._tenant, error, "this owner's talk", m.Cell.forest_id == forest)

    def release_held(self, forest: ForestId) -> int:
        """Close the forest's open last cells now; how many became ready."""
        return self._run(_RELEASE, f=forest).rowcount

    def make_due(self, forest: ForestId, session: SessionId | None) -> None:
        """Make dirty trees due now: those that a session touches, or all."""
        if session is None:
            self._run(_DUE_FOREST, f=forest)
        else:
            self._run(_DUE_SESSION, f=forest, s=session)
