"""A whole forest on its way out: its rows go table by table, children first, a bounded number at a time."""

# ruff: noqa: S608 - statements are made of constants of this module

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

import sqlalchemy as sa

from memforest_core.domain.ids import ForestId
from memforest_core.erase.rows.batch import BatchRows, among
from memforest_core.store import tables as m

Counts = Mapping[str, int]

_OF = "WHERE tenant_id = :t AND forest_id = :f"
_TREES = f"SELECT tree_id FROM memforest.tree {_OF}"
_SESSIONS = f"SELECT session_id FROM memforest.session {_OF}"

# Refresh saves nodes without the forest's lock: they are locked in the order of ids, as everywhere.
_LOCK_NODES = sa.text(f"""
    SELECT node_id, level FROM memforest.node WHERE tenant_id = :t AND node_id = ANY(ARRAY(
           SELECT node_id FROM memforest.node WHERE tenant_id = :t AND tree_id IN ({_TREES}) LIMIT :n))
     ORDER BY node_id FOR UPDATE
""")


def _some(table: str, where: str) -> sa.TextClause:
    """Delete a bounded number of rows, locked in the order of their keys."""
    keys = ", ".join(column.name for column in m.Base.metadata.tables[f"{m.SCHEMA}.{table}"].primary_key.columns)
    return sa.text(f"""DELETE FROM memforest.{table} WHERE ctid = ANY(ARRAY(
               SELECT ctid FROM memforest.{table} WHERE tenant_id = :t AND {where} ORDER BY {keys} LIMIT :n FOR UPDATE))
    """)


# What is left once cells, facts and nodes are gone, in an order that foreign keys allow. Nobody puts a vector into a
# forest that was given up.
_REST = (
    ("vectors", _some("vector", "forest_id = :f")),
    ("placements", _some("placement", f"tree_id IN ({_TREES})")),
    ("trees", _some("tree", "forest_id = :f")),
    ("cached", _some("extraction_cache", "forest_id = :f")),
    ("cached", _some("summary_cache", "forest_id = :f")),
    ("turns", _some("turn", f"session_id IN ({_SESSIONS})")),
    ("sessions", _some("session", "forest_id = :f")),
    ("speakers", _some("speaker", "forest_id = :f")),
    ("visits", _some("visit", "forest_id = :f")),
    ("policies", _some("retention_policy", "forest_id = :f")),
)

_HELD = {
    "turns": f"turn WHERE tenant_id = :t AND session_id IN ({_SESSIONS})",
    "sessions": f"session {_OF}",
    "cells": f"cell {_OF}",
    "candidates": f"candidate k JOIN memforest.cell c USING (tenant_id, cell_id) {_OF}",
    "occurrences": f"occurrence o JOIN memforest.cell c USING (tenant_id, cell_id) {_OF}",
    "facts": f"fact {_OF}",
    "trees": f"tree {_OF}",
    "leaves": f"node n JOIN memforest.tree r USING (tenant_id, tree_id) {_OF} AND level = 0",
    "nodes": f"node n JOIN memforest.tree r USING (tenant_id, tree_id) {_OF} AND level > 0",
    "summaries": f"""node_summary s JOIN memforest.node n USING (tenant_id, node_id)
                       JOIN memforest.tree r USING (tenant_id, tree_id) {_OF}""",
    "placements": f"placement p JOIN memforest.tree r USING (tenant_id, tree_id) {_OF}",
    "speakers": f"speaker {_OF}",
    "visits": f"visit {_OF}",
    "policies": f"retention_policy {_OF}",
    "vectors": f"vector {_OF}",
    "points": f"index_row {_OF}",
    "forests": f"forest {_OF}",
}
_COUNTS = sa.text(" UNION ALL ".join(f"SELECT '{name}', count(*) FROM memforest.{of}" for name, of in _HELD.items()))
_CACHED = sa.text(f"""
    SELECT (SELECT count(*) FROM memforest.extraction_cache {_OF})
             + (SELECT count(*) FROM memforest.summary_cache {_OF})
""")


class ClearingRows(BatchRows):
    """Takes out a whole forest, and counts what it holds."""

    def clear(self, forest: ForestId, limit: int) -> Counts | None:
        """Drop the next rows of a forest that was given up, children first; how many of what.

        None when only the rows of its points and its own are left.
        """
        for stage in (self._cells, self._facts, self._nodes, self._rest):
            gone = stage(forest, limit)
            if gone:
                return gone
        return None

    def _cells(self, forest: ForestId, limit: int) -> Counts:
        mine = sa.select(m.Cell.cell_id).where(m.Cell.tenant_id == self._tenant, m.Cell.forest_id == forest)
        ids = self._db.scalars(mine.order_by(m.Cell.cell_id).limit(limit).with_for_update()).all()
        if not ids:
            return {}
        return {
            "occurrences": self._delete(m.OccurrenceRow.cell_id, ids),
            "candidates": self._delete(m.CandidateRow.cell_id, ids),
            "cells": self._delete(m.Cell.cell_id, ids),
        }

    def _facts(self, forest: ForestId, limit: int) -> Counts:
        mine = sa.select(m.FactRow.fact_id).where(m.FactRow.tenant_id == self._tenant, m.FactRow.forest_id == forest)
        ids = self._db.scalars(mine.order_by(m.FactRow.fact_id).limit(limit).with_for_update()).all()
        if not ids:
            return {}
        return {
            "occurrences": self._delete(m.OccurrenceRow.fact_id, ids),
            "facts": self._delete(m.FactRow.fact_id, ids),
        }

    def _nodes(self, forest: ForestId, limit: int) -> Counts:
        rows = self._run(_LOCK_NODES, f=forest, n=limit).all()
        if not rows:
            return {}
        ids, leaves = [row.node_id for row in rows], sum(row.level == 0 for row in rows)
        summaries = self._delete(m.NodeSummary.node_id, ids)
        self._delete(m.NodeRow.node_id, ids)
        return {"leaves": leaves, "nodes": len(rows) - leaves, "summaries": summaries}

    def _rest(self, forest: ForestId, limit: int) -> Counts:
        for name, statement in _REST:
            gone = self._run(statement, f=forest, n=limit).rowcount
            if gone:
                return {name: gone}
        return {}

    def points_of(self, forest: ForestId, limit: int) -> Sequence[UUID]:
        """The next points that a forest has rows of and that no indexer is writing now."""
        point = m.IndexRow
        return self._db.scalars(
            sa.select(point.point_id)
            .where(point.tenant_id == self._tenant, point.forest_id == forest, point.state != "running")
            .order_by(point.point_id)
            .limit(limit)
        ).all()

    def drop_points(self, points: Sequence[UUID]) -> int:
        """Drop the rows of points; how many."""
        point = m.IndexRow
        own = [point.tenant_id == self._tenant, among(point.point_id, points)]
        self._db.execute(sa.select(point.point_id).where(*own).order_by(point.point_id).with_for_update()).all()
        return self._db.execute(sa.delete(point).where(*own, point.state != "running")).rowcount

    def drop_forest(self, forest: ForestId) -> int:
        """Drop a forest's row. What was asked of it stays on record, as ids and counts."""
        return self._delete(m.Forest.forest_id, [forest])

    def counts_of(self, forest: ForestId) -> Counts:
        """How much a forest holds, under the names that clearing counts under."""
        counts = {str(row[0]): int(row[1]) for row in self._run(_COUNTS, f=forest)}
        return counts | {"cached": int(self._run(_CACHED, f=forest).scalar() or 0)}
