"""Repairs of derived artifacts. Rows may have changed since they were checked: every statement checks them again."""

# ruff: noqa: S608 - statements are made of constants of this module

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import sqlalchemy as sa
import sqlalchemy.orm

from memforest_core.domain.ids import ForestId, NodeId, SessionId, TreeId
from memforest_core.domain.operation_rules import OperationKind
from memforest_core.index.rows import want_indexed
from memforest_core.lifecycle.erase.records import Scope, Target, arguments_of
from memforest_core.lifecycle.verify.records import Check, Found
from memforest_core.lifecycle.verify.rows.checks import CUT, DIRTY, TURN_SUMS
from memforest_core.store import tables as m
from memforest_core.store.owners import lock_forests
from memforest_core.store.rows import TenantRows
from memforest_core.store.trees import NEXT_VERSION, lock_nodes, lock_trees
from memforest_core.store.vectors import VectorRows
from memforest_core.work.operations import request
from memforest_core.work.rows.operation_rows import OperationRows

_IDS = "ANY(CAST(:ids AS uuid[]))"
_DUE = "marks = marks + 1, last_mark_at = now(), first_mark_at = coalesce(first_mark_at, now()), due_at = now()"

_PATHS = sa.text(f"""
    WITH RECURSIVE path AS (
        SELECT node_id, parent_id, tree_id, level FROM memforest.node
         WHERE tenant_id = :t AND node_id = {_IDS} AND level > 0
        UNION
        SELECT n.node_id, n.parent_id, n.tree_id, n.level FROM path CROSS JOIN LATERAL (
               SELECT * FROM memforest.node WHERE tenant_id = :t AND node_id = path.parent_id LIMIT 1) n)
    SELECT node_id, tree_id, level FROM path ORDER BY level
""")

_MARK_TREES = sa.text(f"""
    UPDATE memforest.tree SET {_DUE} WHERE tenant_id = :t AND tree_id = {_IDS}
""")

_SUMS = sa.text("""
    UPDATE memforest.node n
       SET leaf_count = coalesce(c.leaves, 0), time_start = c.first, time_end = c.last
      FROM unnest(CAST(:ids AS uuid[])) AS u(id)
     CROSS JOIN LATERAL (SELECT sum(k.leaf_count) AS leaves, min(k.time_start) AS first, max(k.time_end) AS last
                           FROM memforest.node k WHERE k.tenant_id = :t AND k.parent_id = u.id) c
     WHERE n.tenant_id = :t AND n.node_id = u.id
""")

_HEADS = sa.text(f"""
    UPDATE memforest.tree r SET leaf_count = n.leaves, height = n.height
      FROM (SELECT u.id, count(*) FILTER (WHERE k.level = 0) AS leaves, coalesce(max(k.level), 0) AS height
              FROM unnest(CAST(:ids AS uuid[])) AS u(id)
              LEFT JOIN memforest.node k ON k.tenant_id = :t AND k.tree_id = u.id GROUP BY u.id) n
     WHERE r.tenant_id = :t AND r.tree_id = n.id AND r.tree_id = {_IDS}
       AND (r.leaf_count, r.height) IS DISTINCT FROM (n.leaves, n.height)
""")

_SESSIONS = sa.text(f"""
    UPDATE memforest.session s SET turn_count = x.turns, cell_count = x.cells
      FROM (SELECT u.id,
                   (SELECT count(*) FROM memforest.turn k WHERE k.tenant_id = :t AND k.session_id = u.id) AS turns,
                   (SELECT coalesce(max(k.ordinal) + 1, 0) FROM memforest.cell k
                     WHERE k.tenant_id = :t AND k.session_id = u.id) AS cells
              FROM unnest(CAST(:ids AS uuid[])) AS u(id)) x
     WHERE s.tenant_id = :t AND s.session_id = x.id AND s.session_id = {_IDS}
       AND (s.turn_count, s.cell_count) IS DISTINCT FROM (x.turns, x.cells)
""")

_NO_LEASE = "lease_token = NULL, lease_until = NULL, worker_id = NULL"
_WRONG_LEASE = """((state = 'running' AND (lease_token IS NULL OR lease_until IS NULL OR worker_id IS NULL))
    OR (state <> 'running' AND (lease_token IS NOT NULL OR lease_until IS NOT NULL OR worker_id IS NOT NULL)))"""


def _free(table: str, key: str) -> sa.TextClause:
    """Make running rows without a whole lease ready again, and clear leases of rows that are not running."""
    return sa.text(f"""
        UPDATE memforest.{table} SET state = CASE state WHEN 'running' THEN 'ready' ELSE state END, {_NO_LEASE}
         WHERE tenant_id = :t AND {key} IN (
            SELECT {key} FROM memforest.{table} WHERE tenant_id = :t AND {key} = {_IDS} AND {_WRONG_LEASE}
             ORDER BY {key} FOR NO KEY UPDATE)
    """)


# A cell whose window has gone ahead without it becomes a window of its own.
_OWN_WINDOW = sa.text(f"""
    UPDATE memforest.cell c SET window_ordinal = c.ordinal
     WHERE c.tenant_id = :t AND c.cell_id = {_IDS} AND c.state = 'ready' AND NOT EXISTS (
        SELECT 1 FROM memforest.cell h WHERE h.tenant_id = :t AND h.session_id = c.session_id
           AND h.ordinal = c.window_ordinal AND h.state IN ('ready', 'running'))
""")

_FREE = (_free("cell", "cell_id"), _free("index_row", "point_id"))
_FREE_TASKS = _free("maintenance", "task_id")
_FREE_NODES = sa.text(f"""
    UPDATE memforest.node SET {_NO_LEASE}
     WHERE tenant_id = :t AND node_id IN (
        SELECT node_id FROM memforest.node
         WHERE tenant_id = :t AND node_id = {_IDS} AND (lease_token IS NULL OR lease_until IS NULL OR worker_id IS NULL)
           AND (lease_token IS NOT NULL OR lease_until IS NOT NULL OR worker_id IS NOT NULL)
         ORDER BY node_id FOR NO KEY UPDATE)
""")

_SET_DUE = sa.text(f"""
    UPDATE memforest.tree r SET {_DUE}
     WHERE r.tenant_id = :t AND r.tree_id = {_IDS} AND r.due_at IS NULL AND {DIRTY}
""")

_SETTLE = sa.text(f"""
    UPDATE memforest.tree r SET due_at = NULL, first_mark_at = NULL
     WHERE r.tenant_id = :t AND r.tree_id = {_IDS} AND r.due_at IS NOT NULL AND NOT {DIRTY}
""")

_ROWS = sa.text(f"""
    UPDATE memforest.index_row i
       SET deleted = :deleted, version = greatest(indexed_version + 1, {NEXT_VERSION}), state = 'ready', attempts = 0,
           available_at = clock_timestamp(), {_NO_LEASE}
     WHERE tenant_id = :t AND point_id = {_IDS}
""")

_OBJECTS = sa.text(f"""
    SELECT cell_id AS id, forest_id, 'cell' AS kind FROM memforest.cell WHERE tenant_id = :t AND cell_id = {_IDS}
    UNION ALL
    SELECT fact_id, forest_id, 'fact' FROM memforest.fact WHERE tenant_id = :t AND fact_id = {_IDS}
    UNION ALL
    SELECT n.node_id, r.forest_id, 'node' FROM memforest.node n
      JOIN memforest.node_summary s ON s.tenant_id = :t AND s.node_id = n.node_id
      JOIN memforest.tree r ON r.tenant_id = :t AND r.tree_id = n.tree_id
     WHERE n.tenant_id = :t AND n.node_id = {_IDS}
""")

_CUT_SESSIONS = sa.text(f"""
    SELECT s.session_id, s.forest_id, f.owner
      FROM memforest.session s JOIN memforest.forest f USING (tenant_id, forest_id)
     CROSS JOIN {TURN_SUMS} WHERE s.tenant_id = :t AND s.session_id = {_IDS} AND {CUT}
""")
REPAIRER = "verify"
"""The actor of the deletions that a repair completes."""

_PLAIN: Mapping[Check, Sequence[sa.TextClause]] = {
    Check.WINDOWS: (_OWN_WINDOW,),
    Check.LEASES: (*_FREE, _FREE_NODES),
    Check.TASKS: (_FREE_TASKS,),
    Check.TREE_COUNTERS: (_HEADS,),
    Check.DUE_TREES: (_SET_DUE, _SETTLE),
    Check.SESSION_COUNTERS: (_SESSIONS,),
}
"""What single statements repair, once the rows are locked."""


class RepairRows(TenantRows):
    """Repairs of one transaction; what is right by now is left alone."""

    def repair(self, check: Check, found: Sequence[Found]) -> int:
        """Repair the rows of these violations, as far as they are derived; how many rows were changed."""
        ids = list(dict.fromkeys(each.id for each in found))
        match check:
            case Check.SUMMARIES | Check.DIRTY_PATHS:
                return self._mark_paths(self._lock_paths(ids))
            case Check.TREE_NODES:
                return self._recount_nodes(ids)
            case Check.TREE_COUNTERS | Check.DUE_TREES:
                self._lock_forests_of(m.Tree.tree_id, ids)
                lock_trees(self._db, self._tenant, [TreeId(tree) for tree in ids])
            case Check.TURNS:
                return self._complete_deletions(ids)
            case Check.SESSION_COUNTERS:
                self._lock(m.Session.session_id, ids)
            case Check.SESSION_WINDOWS:
                # Windows are rebuilt; items that recall finds can be put in once more.
                self._lock_forests_of(m.Session.session_id, ids)
                return self._drop(m.SessionWindow.session_id, ids) + self._drop(m.WindowItem.session_id, ids)
            case Check.CALENDAR:
                self._lock_forests_of(m.Forest.forest_id, ids)
                return self._drop(m.CalendarDigest.forest_id, ids)
            case Check.INDEX_ROWS:
                return self._renew_rows(ids)
            case Check.UNINDEXED:
                return self._add_rows(ids)
            case Check.ORPHAN_VECTORS:
                vectors = VectorRows(self._db, self._tenant)
                return sum(vectors.drop_orphans(ForestId(forest)) for forest in ids)
        return sum(self._change(statement, ids) for statement in _PLAIN.get(check, ()))

    def _complete_deletions(self, sessions: Sequence[UUID]) -> int:
        """Request the deletion of what is left of these sessions; workers do it, and a receipt is written."""
        cut = self._run(_CUT_SESSIONS, ids=sessions).all()
        for session, forest, owner in cut:
            scope = Scope(Target.SESSION, ForestId(forest), session=SessionId(session))
            arguments, tasks = arguments_of(scope), OperationRows(self._db, self._tenant)
            request(tasks, OperationKind.ERASE, ForestId(forest), arguments, actor=REPAIRER, owner=owner)
        return len(cut)

    def _change(self, statement: sa.TextClause, ids: Sequence[UUID], **values: Any) -> int:
        return self._run(statement, ids=list(ids), **values).rowcount

    def _drop(self, key: sa.orm.InstrumentedAttribute[UUID], ids: Sequence[UUID]) -> int:
        gone = sa.delete(key.class_).where(key.class_.tenant_id == self._tenant, key.in_(ids))
        return self._db.execute(gone).rowcount

    def _lock(self, key: sa.orm.InstrumentedAttribute[UUID], ids: Sequence[UUID]) -> None:
        """Lock the rows with these keys, in the order of ids."""
        mine = (key.class_.tenant_id == self._tenant, key.in_(ids))
        self._db.execute(sa.select(key).where(*mine).order_by(key).with_for_update(key_share=True))

    def _lock_forests_of(self, key: sa.orm.InstrumentedAttribute[UUID], ids: Sequence[UUID]) -> None:
        """Become the only writer of the forests of the rows with these keys."""
        table = key.class_
        forests = sa.select(table.forest_id).where(table.tenant_id == self._tenant, key.in_(ids)).distinct()
        lock_forests(self._db, self._tenant, [ForestId(forest) for forest in self._db.scalars(forests)])

    def _lock_paths(self, nodes: Sequence[UUID]) -> Sequence[sa.Row[Any]]:
        """The nodes and all above them, the lowest first, under their forests' locks."""
        trees = self._db.scalars(
            sa.select(m.NodeRow.tree_id)
            .distinct()
            .where(m.NodeRow.tenant_id == self._tenant, m.NodeRow.node_id.in_(nodes))
        ).all()
        self._lock_forests_of(m.Tree.tree_id, trees)
        # Read under the lock: a split may have moved them.
        paths = self._run(_PATHS, ids=list(nodes)).all()
        lock_nodes(self._db, self._tenant, [NodeId(row.node_id) for row in paths])
        return paths

    def _mark_paths(self, paths: Sequence[sa.Row[Any]]) -> int:
        """Have refresh recompute the summaries of these nodes: their versions rise, and their trees are due."""
        node = m.NodeRow
        own = [node.tenant_id == self._tenant, node.node_id.in_([row.node_id for row in paths])]
        marked = self._db.execute(sa.update(node).where(*own).values(version=node.version + 1)).rowcount
        trees = sorted({row.tree_id for row in paths}, key=str)
        lock_trees(self._db, self._tenant, [TreeId(tree) for tree in trees])
        self._change(_MARK_TREES, trees)
        return marked

    def _recount_nodes(self, nodes: Sequence[UUID]) -> int:
        paths = self._lock_paths(nodes)
        for level in sorted({row.level for row in paths}):
            self._change(_SUMS, [row.node_id for row in paths if row.level == level])
        return self._mark_paths(paths)

    def _renew_rows(self, points: Sequence[UUID]) -> int:
        """Make rows stale: those of what exists to be written, the others to be deleted."""
        self._lock(m.IndexRow.point_id, points)
        living = {row.id for row in self._run(_OBJECTS, ids=list(points))}
        gone = [point for point in points if point not in living]
        return self._change(_ROWS, sorted(living, key=str), deleted=False) + self._change(_ROWS, gone, deleted=True)

    def _add_rows(self, points: Sequence[UUID]) -> int:
        rows = self._run(_OBJECTS, ids=list(points)).all()
        for kind, forest in sorted({(row.kind, row.forest_id) for row in rows}, key=str):
            ids = [row.id for row in rows if (row.kind, row.forest_id) == (kind, forest)]
            want_indexed(self._db, self._tenant, forest, kind, ids, lane=1)
        return len(rows)
