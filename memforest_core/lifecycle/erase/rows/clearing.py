"""Deletes a whole forest: table by table, children first, a bounded number of rows at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

import sqlalchemy as sa

from memforest_core.domain.ids import ForestId
from memforest_core.lifecycle.erase.rows.batch import BatchRows
from memforest_core.store import tables as m
from memforest_core.store.copying import delete_rows, delete_some, lock_some, of_forest, stored_table
from memforest_core.store.rows import among

_NAMES = {
    "cell": "cells",
    "candidate": "candidates",
    "occurrence": "occurrences",
    "fact": "facts",
    "node": "nodes",
    "node_summary": "summaries",
    "vector": "vectors",
    "placement": "placements",
    "tree": "trees",
    "extraction_cache": "cached",
    "summary_cache": "cached",
    "session_window": "cached",
    "window_item": "cached",
    "running_session": "cached",
    "calendar_digest": "cached",
    "webhook_delivery": "deliveries",
    "turn": "turns",
    "session": "sessions",
    "speaker": "speakers",
    "visit": "visits",
    "retention_policy": "policies",
    "index_row": "points",
    "forest": "forests",
}
"""The names under which rows are counted, by table; leaves are counted apart from other nodes."""

_ROOTS = ("cell", "fact", "node")
"""Their rows go first, together with the rows that refer to them."""

# The other tables, in an order that foreign keys allow. No vector is added to a forest that was given up.
_FIRST_OR_LAST = {*_ROOTS, "candidate", "occurrence", "node_summary", "index_row", "forest"}
_REST = tuple(
    each.name for each in reversed(m.Base.metadata.sorted_tables) if each.name in _NAMES.keys() - _FIRST_OR_LAST
)


class ClearingRows(BatchRows):
    """Deletes a whole forest, and counts what it holds."""

    def clear(self, forest: ForestId, limit: int) -> Mapping[str, int] | None:
        """Delete the next rows of a forest that was given up: at most ``limit`` of one table, and what refers to them.

        Returns how many of what; None when only the rows of its points and its own are left.
        """
        for root in _ROOTS:
            lock = lock_some(root, self._tenant, forest, limit)
            rows = self._db.execute(lock.add_columns(m.NodeRow.level) if root == "node" else lock).all()
            if rows:
                leaves = sum(row.level == 0 for row in rows) if root == "node" else 0
                return _named(delete_rows(self._db, self._tenant, root, [row[0] for row in rows]).items(), leaves)
        for name in _REST:
            gone = self._db.execute(delete_some(name, self._tenant, forest, limit)).rowcount
            if gone:
                return {_NAMES[name]: gone}
        return None

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

    def counts_of(self, forest: ForestId) -> Mapping[str, int]:
        """How much a forest holds, under the names that clearing counts by."""
        counts = [
            sa.select(sa.literal(name), sa.func.count())
            .select_from(stored_table(name))
            .where(of_forest(name, self._tenant, forest))
            for name in _NAMES
        ]
        leaves = sa.select(sa.func.count()).where(of_forest("node", self._tenant, forest), m.NodeRow.level == 0)
        rows = self._db.execute(sa.union_all(*counts))
        return _named(((str(row[0]), int(row[1])) for row in rows), int(self._db.scalar(leaves) or 0))


def _named(counts: Iterable[tuple[str, int]], leaves: int) -> Counter[str]:
    """Counts of tables under the names that people read, with leaves apart from other nodes."""
    named = Counter({"leaves": leaves, "nodes": -leaves})
    for table, count in counts:
        named[_NAMES[table]] += count
    return named
