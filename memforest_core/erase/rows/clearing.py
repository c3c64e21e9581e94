"""A whole forest on its way out: its rows go table by table, children first, a bounded number at a time."""

# ruff: noqa: S608 - statements are made of constants of this package

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from memforest_core.domain.ids import ForestId
from memforest_core.erase.rows import sql as q
from memforest_core.store import tables as m
from memforest_core.store.removal import RemovalRows
from memforest_core.work.records import TaskId

Counts = Mapping[str, int]

_OF = "WHERE tenant_id = :t AND forest_id = :f"
_TREES = f"SELECT tree_id FROM memforest.tree {_OF}"
_SESSIONS = f"SELECT session_id FROM memforest.session {_OF}"

_CELLS = sa.text(f"SELECT cell_id FROM memforest.cell {_OF} ORDER BY cell_id LIMIT :n FOR UPDATE")
_OF_CELLS = {
    name: sa.text(f"DELETE FROM memforest.{table} WHERE tenant_id = :t AND cell_id = {q.IDS}")
    for name, table in (("occurrences", "occurrence"), ("candidates", "candidate"), ("cells", "cell"))
}
_FACTS = sa.text(f"SELECT fact_id FROM memforest.fact {_OF} ORDER BY fact_id LIMIT :n FOR UPDATE")
_OF_FACTS = {
    name: sa.text(f"DELETE FROM memforest.{table} WHERE tenant_id = :t AND fact_id = {q.IDS}")
    for name, table in (("occurrences", "occurrence"), ("facts", "fact"))
}

# Refresh saves nodes without the forest's lock: they are locked in the order of ids, as everywhere.
_NODES = sa.text(
    f"""
    SELECT node_id, level FROM memforest.node WHERE tenant_id = :t AND node_id = ANY(ARRAY(
           SELECT node_id FROM memforest.node WHERE tenant_id = :t AND tree_id IN ({_TREES}) LIMIT :n))
     ORDER BY node_id FOR UPDATE
    """
)
_DROP_NODES = sa.text(f"DELETE FROM memforest.node WHERE tenant_id = :t AND node_id = {q.IDS}")
_DROP_SUMMARIES = sa.text(f"DELETE FROM memforest.node_summary WHERE tenant_id = :t AND node_id = {q.IDS}")


def _some(table: str, where: str) -> sa.TextClause:
    """Delete a bounded number of rows, locked in the order of their keys."""
    keys = ", ".join(column.name for column in m.Base.metadata.tables[f"{m.SCHEMA}.{table}"].primary_key.columns)
    return sa.text(
        f"""DELETE FROM memforest.{table} WHERE ctid = ANY(ARRAY(
               SELECT ctid FROM memforest.{table} WHERE tenant_id = :t AND {where} ORDER BY {keys} LIMIT :n FOR UPDATE))
        """
    )


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

_POINTS = sa.text(f"SELECT point_id FROM memforest.index_row {_OF} AND state <> 'running' ORDER BY point_id LIMIT :n")
_LEASED = sa.text(f"SELECT EXISTS (SELECT 1 FROM memforest.index_row {_OF} AND state = 'running')")
_DROP_POINTS = sa.text(
    f"DELETE FROM memforest.index_row WHERE tenant_id = :t AND point_id = {q.IDS} AND state <> 'running'"
)
_DROP_FOREST = sa.text(f"DELETE FROM memforest.forest {_OF}")
_TOUCHED = sa.text(
    "SELECT forest_id FROM memforest.maintenance_forest WHERE tenant_id = :t AND task_id = :task ORDER BY forest_id"
)
_GOING = sa.text(
    """
    SELECT f.forest_id FROM memforest.maintenance k
      JOIN memforest.maintenance_forest x ON x.tenant_id = :t AND x.task_id = k.task_id
      JOIN memforest.forest f ON f.tenant_id = :t AND f.forest_id = x.forest_id AND f.state = 'gone'
     WHERE k.tenant_id = :t AND k.task_id = :task AND f.forest_id IS DISTINCT FROM CAST(:kept AS uuid)
     ORDER BY f.forest_id = k.forest_id, f.forest_id LIMIT 1
    """
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
_CACHED = sa.text(
    f"""SELECT (SELECT count(*) FROM memforest.extraction_cache {_OF})
             + (SELECT count(*) FROM memforest.summary_cache {_OF})"""
)

# What has no column for its forest is held by a foreign key to one of these, so it can't be left either.
_TABLES = (
    *("forest", "session", "cell", "fact", "tree", "speaker", "visit", "retention_policy"),
    *("extraction_cache", "summary_cache", "vector", "index_row"),
)
_LEFT = sa.text(
    " UNION ALL ".join(f"SELECT '{table}.forest_id', count(*) FROM memforest.{table} {_OF}" for table in _TABLES)
)


class PostgresClearing(RemovalRows):
    """The part of ErasureRows that takes out a whole forest."""

    def clear(self, forest: ForestId, limit: int) -> Counts | None:
        """Drop the next rows of a forest that is going, children first; how many of what, None when only its points'
        rows and its own are left."""
        stages: tuple[Callable[[ForestId, int], Counts], ...] = (self._cells, self._facts, self._nodes, self._rest)
        for stage in stages:
            gone = stage(forest, limit)
            if gone:
                return gone
        return None

    def _cells(self, forest: ForestId, limit: int) -> Counts:
        rows = self._db.execute(_CELLS, {"t": self._tenant, "f": forest, "n": limit}).all()
        if not rows:
            return {}
        ids: dict[str, Any] = {"t": self._tenant, "ids": [row.cell_id for row in rows]}
        return {name: self._db.execute(statement, ids).rowcount for name, statement in _OF_CELLS.items()}

    def _facts(self, forest: ForestId, limit: int) -> Counts:
        rows = self._db.execute(_FACTS, {"t": self._tenant, "f": forest, "n": limit}).all()
        if not rows:
            return {}
        ids = {"t": self._tenant, "ids": [row.fact_id for row in rows]}
        return {name: self._db.execute(statement, ids).rowcount for name, statement in _OF_FACTS.items()}

    def _nodes(self, forest: ForestId, limit: int) -> Counts:
        rows = self._db.execute(_NODES, {"t": self._tenant, "f": forest, "n": limit}).all()
        if not rows:
            return {}
        ids = {"t": self._tenant, "ids": [row.node_id for row in rows]}
        summaries = self._db.execute(_DROP_SUMMARIES, ids).rowcount
        self._db.execute(_DROP_NODES, ids)
        leaves = sum(row.level == 0 for row in rows)
        return {"leaves": leaves, "nodes": len(rows) - leaves, "summaries": summaries}

    def _rest(self, forest: ForestId, limit: int) -> Counts:
        for name, statement in _REST:
            gone = self._db.execute(statement, {"t": self._tenant, "f": forest, "n": limit}).rowcount
            if gone:
                return {name: gone}
        return {}

    def drop_vectors(self, forest: ForestId, hashes: Sequence[bytes]) -> int:
        """Drop a forest's vectors of those texts that no cell, candidate or fact of it has any more."""
        return self._texts.drop_unused(forest, hashes)

    def drop_orphans(self, forest: ForestId) -> int:
        """Drop every vector of a forest whose text it has no more; how many."""
        return self._texts.drop_orphans(forest)

    def points_of(self, forest: ForestId, limit: int) -> list[UUID]:
        """The next points that a forest has rows of and that no indexer is writing now."""
        return list(self._db.scalars(_POINTS, {"t": self._tenant, "f": forest, "n": limit}))

    def leased(self, forest: ForestId) -> bool:
        """Whether an indexer is writing points of a forest."""
        return bool(self._db.scalar(_LEASED, {"t": self._tenant, "f": forest}))

    def drop_points(self, points: Sequence[UUID]) -> int:
        """Drop the rows of points."""
        self._db.execute(q.HOLD_POINTS, {"t": self._tenant, "ids": list(points)})
        return self._db.execute(_DROP_POINTS, {"t": self._tenant, "ids": list(points)}).rowcount

    def drop_forest(self, forest: ForestId) -> int:
        """Drop a forest's row. What was asked of it stays on record, as ids and counts."""
        return self._db.execute(_DROP_FOREST, {"t": self._tenant, "f": forest}).rowcount

    def touched(self, task: TaskId) -> list[ForestId]:
        """The forests of a deletion: those that were meant, and copies of them."""
        return [ForestId(found) for found in self._db.scalars(_TOUCHED, {"t": self._tenant, "task": task})]

    def going(self, task: TaskId, kept: ForestId | None = None) -> ForestId | None:
        """The next forest of a deletion to clear: copies first, all but the one that is ``kept``."""
        found = self._db.scalar(_GOING, {"t": self._tenant, "task": task, "kept": kept})
        return ForestId(found) if found is not None else None

    def counts_of(self, forest: ForestId) -> Counts:
        """How much a forest holds, under the names that clearing counts under."""
        values = {"t": self._tenant, "f": forest}
        counts = {str(row[0]): int(row[1]) for row in self._db.execute(_COUNTS, values)}
        return counts | {"cached": int(self._db.scalar(_CACHED, values) or 0)}

    def left_of_forest(self, forest: ForestId) -> Counts:
        """What still names a forest, by table.column."""
        return {str(row[0]): int(row[1]) for row in self._db.execute(_LEFT, {"t": self._tenant, "f": forest})}
