"""Taking out what was derived from removed words: summaries, empty scopes, visits, caches and points of the index."""

# ruff: noqa: S608 - statements are made of constants of this package

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

import sqlalchemy as sa

from memforest_core.domain.ids import ForestId, NodeId, SessionId, TreeId
from memforest_core.lifecycle.erase.records import ItemKey, TurnKey
from memforest_core.lifecycle.erase.rows.batch import IDS, ITEMS, OF_MOMENTS, TURNS, BatchRows, item_arrays, sessions_of
from memforest_core.store import tables as m
from memforest_core.store.rows import FIRST
from memforest_core.store.trees import NEXT_VERSION, bury_points, lock_nodes

_LOCK_POINTS = sa.text(f"""
    SELECT point_id, deleted FROM memforest.index_row WHERE tenant_id = :t AND point_id = {IDS}
     ORDER BY point_id FOR UPDATE
""")

_DROP_SUMMARIES = sa.text(f"""
    DELETE FROM memforest.node_summary WHERE tenant_id = :t AND node_id = {IDS}
    RETURNING sha256(convert_to(text, 'UTF8')) AS hash
""")

_DROP_VISITS = sa.text(f"""
    WITH held AS MATERIALIZED (
        SELECT item_id FROM memforest.visit WHERE tenant_id = :t AND item_id = {IDS} ORDER BY item_id FOR UPDATE)
    DELETE FROM memforest.visit WHERE tenant_id = :t AND item_id IN (SELECT item_id FROM held)
""")

_DROP_CACHED_SUMMARIES = sa.text(f"""
    DELETE FROM memforest.summary_cache WHERE tenant_id = :t AND (tree_id = {IDS}
        OR tree_id IN (SELECT tree_id FROM memforest.tree
                        WHERE tenant_id = :t AND forest_id = :f AND kind = 'scene' AND state = 'merged'))
""")

_DROP_ITEMS = sa.text(f"""
    DELETE FROM memforest.window_item i USING {TURNS}
     WHERE i.tenant_id = :t AND i.said_in = u.session AND i.ordinal = u.ordinal
""")

_MOMENTS = sa.text(f"""
    SELECT t.occurred_at FROM {TURNS}
      JOIN memforest.turn t ON t.tenant_id = :t AND t.session_id = u.session AND t.ordinal = u.ordinal
     UNION
    SELECT t.occurred_at FROM {ITEMS}
      JOIN memforest.candidate k ON k.tenant_id = :t AND k.cell_id = u.cell AND k.item = u.item
      JOIN memforest.cell c ON c.tenant_id = :t AND c.cell_id = k.cell_id
      JOIN memforest.turn t ON t.tenant_id = :t AND t.session_id = c.session_id AND t.ordinal = ANY(k.turn_ordinals)
""")

_DROP_DAYS = sa.text(f"DELETE FROM memforest.calendar_digest g WHERE {OF_MOMENTS}")

# Its row is locked before the session's, as who appends does.
_DROP_RUNNING = sa.text("""
    DELETE FROM memforest.running_session r USING memforest.session s
     WHERE r.tenant_id = :t AND s.tenant_id = :t AND s.session_id = :session
       AND r.forest_id = s.forest_id AND r.external_id = s.external_id
""")

_DROP_SCOPES = sa.text(f"""
    DELETE FROM memforest.tree r WHERE r.tenant_id = :t AND r.tree_id = {IDS} AND r.root_id IS NULL
       AND NOT EXISTS (SELECT 1 FROM memforest.placement p WHERE p.tenant_id = :t AND p.tree_id = r.tree_id)
""")

_DROP_TOMBSTONES = sa.text("""
    DELETE FROM memforest.index_row i
     USING unnest(CAST(:ids AS uuid[]), CAST(:versions AS bigint[])) AS u(id, version)
     WHERE i.tenant_id = :t AND i.point_id = u.id AND i.version = u.version AND i.deleted AND i.state <> 'running'
""")

# An indexer that is writing one of these has read the new text, but its point may be deleted with the old one.
_WRITE_AGAIN = sa.text(f"""
    UPDATE memforest.index_row i
       SET version = {NEXT_VERSION}, state = CASE i.state WHEN 'running' THEN 'running' ELSE 'ready' END, attempts = 0,
           indexed_version = 0,
           erased_version = CASE WHEN i.erased_version < :mark THEN 0 ELSE i.erased_version END,
           available_at = clock_timestamp()
     WHERE i.tenant_id = :t AND i.point_id = {IDS} AND NOT i.deleted
    RETURNING i.point_id
""")


class DerivedRows(BatchRows):
    """Removes or marks dirty what was derived from words that are removed."""

    def lock_path(self, nodes: Sequence[NodeId], payloads: Sequence[UUID]) -> int:
        """Lock nodes, then the index rows of nodes and payloads, in the order of ids; how many points there are.

        An indexer that is writing one of them now keeps its lease, and takes away what it wrote.
        """
        lock_nodes(self._db, self._tenant, nodes)
        return sum(not row.deleted for row in self._ids(_LOCK_POINTS, [*nodes, *payloads]))

    def drop_summaries(self, nodes: Sequence[NodeId]) -> list[bytes]:
        """Drop the summaries and points of these nodes; the hashes of the texts, one for each summary."""
        hashes = [bytes(row.hash) for row in self._ids(_DROP_SUMMARIES, nodes)]
        bury_points(self._db, self._tenant, nodes)
        return hashes

    def drop_scopes(self, trees: Sequence[TreeId]) -> int:
        """Drop scopes that hold nothing any more; how many."""
        return self._ids(_DROP_SCOPES, trees).rowcount

    def drop_visits(self, ids: Sequence[UUID]) -> int:
        """Drop the visits of removed cells, facts and nodes; how many."""
        return self._ids(_DROP_VISITS, ids).rowcount

    def drop_caches(self, forest: ForestId, sessions: Sequence[SessionId], trees: Sequence[TreeId]) -> int:
        """Drop cached answers of these sessions, and cached summaries of these trees, of merged scenes and of the whole
        forest; how many."""
        answers = self._delete(m.ExtractionCache.session_id, sessions)
        return answers + self._ids(_DROP_CACHED_SUMMARIES, [*trees, forest], f=forest).rowcount

    def drop_windows(self, turns: Sequence[TurnKey]) -> int:
        """Drop what windows hold of these turns: the summaries of their sessions, and items that refer to them; how
        many. A window that is being made meanwhile is not kept: that needs the forest."""
        if not turns:
            return 0
        return self._delete(m.SessionWindow.session_id, sessions_of(turns)) + self._turns(_DROP_ITEMS, turns).rowcount

    def moments(self, turns: Sequence[TurnKey], items: Sequence[ItemKey]) -> tuple[datetime, ...]:
        """When these turns, and those that these candidates rest on, were said; asked before they go."""
        found = self._turns(_MOMENTS, turns, **item_arrays(items))
        return tuple(found.scalars())

    def drop_days(self, forest: ForestId, moments: Sequence[datetime]) -> int:
        """Drop the digests of days, weeks, months and years that hold one of these moments; how many. A digest that is
        being made meanwhile is not kept: that needs the forest."""
        return self._run(_DROP_DAYS, f=forest, moments=list(moments)).rowcount

    def drop_running(self, session: SessionId) -> None:
        """A session that goes does not run any more."""
        self._run(_DROP_RUNNING, session=session)

    def next_version(self) -> int:
        """A version that is newer than that of every point erased so far, and older than of any erased from now on."""
        return int(self._db.scalar(sa.text("SELECT nextval('memforest.point_version')")) or 0)

    def erased_points(self, forest: ForestId, mark: int, after: UUID | None, limit: int) -> dict[UUID, int]:
        """The next points of a forest, in the order of ids, that may hold what was erased before the mark and that no
        indexer is writing now, with the versions of their rows."""
        point = m.IndexRow
        statement = (
            sa.select(point.point_id, point.version)
            .where(*self._erased_before(forest, mark), point.state != "running", point.point_id > (after or FIRST))
            .order_by(point.point_id)
            .limit(limit)
        )
        return {row.point_id: row.version for row in self._db.execute(statement)}

    def has_erased_points(self, forest: ForestId, mark: int) -> bool:
        """Whether a point may hold what was erased before the mark."""
        return bool(self._db.scalar(sa.select(sa.exists().where(*self._erased_before(forest, mark)))))

    def has_points_in_work(self, forest: ForestId, mark: int | None = None) -> bool:
        """Whether an indexer is writing points of a forest, or those that may hold what was erased before a mark."""
        where = self._of_forest(forest) if mark is None else self._erased_before(forest, mark)
        return bool(self._db.scalar(sa.select(sa.exists().where(*where, m.IndexRow.state == "running"))))

    def _of_forest(self, forest: ForestId) -> list[sa.ColumnElement[bool]]:
        return [m.IndexRow.tenant_id == self._tenant, m.IndexRow.forest_id == forest]

    def _erased_before(self, forest: ForestId, mark: int) -> list[sa.ColumnElement[bool]]:
        # A constant and no parameter, so that the partial index serves.
        erased = m.IndexRow.erased_version > sa.literal_column("0")
        return [*self._of_forest(forest), erased, m.IndexRow.erased_version < mark]

    def confirm(self, points: Mapping[UUID, int], mark: int) -> frozenset[UUID]:
        """The index has dropped these points: drop the rows of tombstones, and have the other points written again.

        Returns those that are written again.
        """
        self._ids(_LOCK_POINTS, list(points))
        self._ids(_DROP_TOMBSTONES, list(points), versions=list(points.values()))
        return frozenset(self._ids(_WRITE_AGAIN, list(points), mark=mark).scalars())
