"""Removal of turns, cells and candidates, and of rows derived from them: summaries, scopes, visits, caches, points."""

# ruff: noqa: S608 - statements are made of constants of this package

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from memforest_core.domain.ids import CellId, FactId, ForestId, NodeId, SessionId, TenantId, TreeId
from memforest_core.domain.people import entity_key
from memforest_core.domain.rendering import speech
from memforest_core.index.rows import want_indexed
from memforest_core.ingest.extract.records import CONTEXT_TURNS
from memforest_core.lifecycle.erase.records import ItemKey, RemainingTurns, TouchedFact, TurnKey
from memforest_core.lifecycle.erase.rows.targets import IDS, ITEMS, OF_TIMES, TURNS, BatchRows, item_arrays, sessions_of
from memforest_core.store import tables as m
from memforest_core.store.copying import blanks, change_rows, columns_of, delete_given, given
from memforest_core.store.removal import RemovalRows
from memforest_core.store.rows import FIRST, among
from memforest_core.store.trees import NEXT_VERSION, WITHOUT_WORDS, bury_points, lock_nodes, lock_trees
from memforest_core.store.vectors import cell_hash

# Among the lost candidates first the one that most likely worded the fact: by it the fact went to its scenes.
_LOSING = sa.text(f"""
    SELECT o.fact_id, k.routing_hash FROM {ITEMS}
      JOIN memforest.occurrence o ON o.tenant_id = :t AND o.cell_id = u.cell AND o.item = u.item
      JOIN memforest.candidate k ON k.tenant_id = :t AND k.cell_id = u.cell AND k.item = u.item
      JOIN memforest.fact x ON x.tenant_id = :t AND x.fact_id = o.fact_id
      JOIN memforest.cell c ON c.tenant_id = :t AND c.cell_id = o.cell_id
     ORDER BY o.fact_id, k.text_hash <> x.text_hash, c.session_id, c.ordinal, o.item DESC
""")

# Moments are compared as such: a candidate has them as they were said, a fact in UTC.
_TOUCHED = sa.text(f"""
    SELECT x.fact_id, x.pinned, x.superseded_by, x.superseded_at, x.created_at,
           EXISTS (SELECT 1 FROM memforest.occurrence o
                     JOIN memforest.candidate k ON k.tenant_id = :t AND k.cell_id = o.cell_id AND k.item = o.item
                    WHERE o.tenant_id = :t AND o.fact_id = x.fact_id
                      AND k.statement - '{{start,end,mentioned_at}}'::text[]
                          = x.statement - '{{start,end,mentioned_at}}'::text[]
                      AND CAST(k.statement->>'mentioned_at' AS timestamptz) = x.mentioned_at
                      AND CAST(k.statement->>'start' AS timestamptz) IS NOT DISTINCT FROM x.time_start
                      AND CAST(k.statement->>'end' AS timestamptz) IS NOT DISTINCT FROM x.time_end) AS stated,
           (SELECT coalesce(json_agg(json_build_array(o.cell_id, o.item) ORDER BY o.cell_id, o.item), '[]')
              FROM memforest.occurrence o WHERE o.tenant_id = :t AND o.fact_id = x.fact_id) AS others
      FROM memforest.fact x WHERE x.tenant_id = :t AND x.fact_id = {IDS}
""")

_END_EXTRACTIONS = sa.text(f"""
    UPDATE memforest.cell SET state = 'ready', attempts = greatest(attempts - 1, 0), available_at = clock_timestamp(),
           lease_token = NULL, lease_until = NULL, worker_id = NULL
     WHERE tenant_id = :t AND session_id = ANY(CAST(:in_sessions AS uuid[])) AND state = 'running'
       AND (session_id, window_ordinal) IN (
            SELECT c.session_id, c.window_ordinal FROM memforest.cell c
             WHERE c.tenant_id = :t AND c.session_id = ANY(CAST(:in_sessions AS uuid[])) AND c.state = 'running'
               AND EXISTS (SELECT 1 FROM {TURNS} WHERE u.session = c.session_id
                              AND u.ordinal BETWEEN c.first_turn - {CONTEXT_TURNS} AND c.last_turn))
""")

# A window is claimed by its first cell. One that lost it gets another; what waits in the window of a
# first cell that does not wait is a window of its own.
_MOVE_WINDOWS = """
    UPDATE memforest.cell c SET window_ordinal = w.head
      FROM (SELECT session_id, window_ordinal, min(ordinal) AS head FROM memforest.cell
             WHERE tenant_id = :t AND session_id = {ids} {waiting} GROUP BY 1, 2) w
     WHERE c.tenant_id = :t AND c.session_id = w.session_id AND c.window_ordinal = w.window_ordinal
       AND w.head <> w.window_ordinal"""
_WINDOWS_WITHOUT_FIRST_CELL = sa.text(_MOVE_WINDOWS.format(ids=IDS, waiting=""))
_WINDOWS_OF_WAITING_CELLS = sa.text(f"""
    {_MOVE_WINDOWS.format(ids=IDS, waiting="AND state = 'ready'")} AND c.state = 'ready'
       AND NOT EXISTS (SELECT 1 FROM memforest.cell h WHERE h.tenant_id = :t AND h.session_id = w.session_id
                          AND h.ordinal = w.window_ordinal AND h.state = 'running')
""")

_SPEAKERS = sa.text(f"""
    SELECT DISTINCT t.speaker_id, t.name FROM {TURNS}
      JOIN memforest.turn t ON t.tenant_id = :t AND t.session_id = u.session AND t.ordinal = u.ordinal
     WHERE t.role = 'user' AND NOT t.erased
""")

# Queried one by one, so that a speaker who speaks in most sessions is found in the first.
_DROP_SPEAKERS = sa.text("""
    DELETE FROM memforest.speaker p
     USING unnest(CAST(:speakers AS text[]), CAST(:names AS text[])) AS u(speaker, name)
     WHERE p.tenant_id = :t AND p.forest_id = :f AND p.speaker_id = u.speaker AND p.name = u.name
       AND (SELECT 1 FROM memforest.session s
             CROSS JOIN LATERAL (SELECT 1 FROM memforest.turn t
                WHERE t.tenant_id = :t AND t.session_id = s.session_id AND t.role = 'user'
                  AND t.speaker_id = p.speaker_id AND t.name = p.name LIMIT 1) t
             WHERE s.tenant_id = :t AND s.forest_id = :f LIMIT 1) IS NULL
    RETURNING p.speaker_id, p.name
""")

# A tree is called by its speaker's newest name. One under that name itself stays: others have said it.
_RENAME_TREES = sa.text("""
    UPDATE memforest.tree r
       SET label = coalesce((SELECT p.name FROM memforest.speaker p
                              WHERE p.tenant_id = :t AND p.forest_id = :f AND p.speaker_id = u.speaker
                              ORDER BY p.since DESC NULLS LAST, p.name LIMIT 1), u.speaker)
      FROM unnest(CAST(:speakers AS text[]), CAST(:names AS text[]), CAST(:keys AS text[])) AS u(speaker, name, key)
     WHERE r.tenant_id = :t AND r.forest_id = :f AND r.kind = 'entity' AND r.label = u.name AND r.scope_key <> u.key
""")

_DROP_DELIVERIES = sa.text("""
    DELETE FROM memforest.webhook_delivery d USING memforest.session s
     WHERE s.tenant_id = :t AND s.session_id = :session AND d.tenant_id = :t AND d.forest_id = s.forest_id
       AND d.data ->> 'session_id' = s.external_id
""")

_DROP_SESSION = (
    sa.text("DELETE FROM memforest.turn WHERE tenant_id = :t AND session_id = :session AND erased"),
    sa.text("DELETE FROM memforest.session WHERE tenant_id = :t AND session_id = :session"),
)

_SUCCESSORS = sa.text("""
    SELECT DISTINCT ON (u.old) u.old, o.fact_id
      FROM unnest(CAST(:olds AS uuid[]), CAST(:cells AS uuid[]), CAST(:items AS smallint[])) AS u(old, cell, item)
      JOIN memforest.occurrence o ON o.tenant_id = :t AND o.cell_id = u.cell AND o.item = u.item
     ORDER BY u.old, o.cell_id, o.item
""")

_CARRY_OVER = sa.text("""
    UPDATE memforest.fact x SET pinned = x.pinned OR u.pinned, created_at = least(x.created_at, u.made),
           superseded_by = CASE WHEN u.by <> x.fact_id THEN coalesce(x.superseded_by, u.by) ELSE x.superseded_by END,
           superseded_at = CASE WHEN u.by <> x.fact_id THEN coalesce(x.superseded_at, u.at) ELSE x.superseded_at END
      FROM unnest(CAST(:news AS uuid[]), CAST(:pins AS boolean[]), CAST(:bys AS uuid[]), CAST(:ats AS timestamptz[]),
                  CAST(:mades AS timestamptz[])) AS u(new, pinned, by, at, made)
     WHERE x.tenant_id = :t AND x.fact_id = u.new
""")

_LOCK_POINTS = sa.text(f"""
    SELECT point_id, deleted FROM memforest.index_row WHERE tenant_id = :t AND point_id = {IDS}
     ORDER BY point_id FOR UPDATE
""")

_DROP_SUMMARIES = sa.text(f"""
    DELETE FROM memforest.node_summary WHERE tenant_id = :t AND node_id = {IDS}
    RETURNING sha256(convert_to(text, 'UTF8')) AS hash
""")

_DROP_VISITS = sa.text(f"""
    WITH locked AS MATERIALIZED (
        SELECT item_id FROM memforest.visit WHERE tenant_id = :t AND item_id = {IDS} ORDER BY item_id FOR UPDATE)
    DELETE FROM memforest.visit WHERE tenant_id = :t AND item_id IN (SELECT item_id FROM locked)
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

_TIMES = sa.text(f"""
    SELECT t.occurred_at FROM {TURNS}
      JOIN memforest.turn t ON t.tenant_id = :t AND t.session_id = u.session AND t.ordinal = u.ordinal
     UNION
    SELECT t.occurred_at FROM {ITEMS}
      JOIN memforest.candidate k ON k.tenant_id = :t AND k.cell_id = u.cell AND k.item = u.item
      JOIN memforest.cell c ON c.tenant_id = :t AND c.cell_id = k.cell_id
      JOIN memforest.turn t ON t.tenant_id = :t AND t.session_id = c.session_id AND t.ordinal = ANY(k.turn_ordinals)
""")

_DROP_DAYS = sa.text(f"DELETE FROM memforest.calendar_digest g WHERE {OF_TIMES}")

# Its row is locked before the session's, as an append does.
_DROP_RUNNING = sa.text("""
    DELETE FROM memforest.running_session r USING memforest.session s
     WHERE r.tenant_id = :t AND s.tenant_id = :t AND s.session_id = :session
       AND r.forest_id = s.forest_id AND r.external_id = s.external_id
""")

_EMPTY = f"""r.tenant_id = :t AND r.tree_id = {IDS} AND r.root_id IS NULL
       AND NOT EXISTS (SELECT 1 FROM memforest.placement p WHERE p.tenant_id = :t AND p.tree_id = r.tree_id)
       AND NOT EXISTS (SELECT 1 FROM memforest.turn_topic w WHERE w.tenant_id = :t AND w.tree_id = r.tree_id)"""

# An append that gives a turn to a topic locks the topic first: it is waited for, and its turn is seen.
_LOCK_SCOPES = sa.text(f"SELECT 1 FROM memforest.tree r WHERE {_EMPTY} ORDER BY r.tree_id FOR UPDATE")
_DROP_SCOPES = sa.text(f"""
    WITH gone AS (DELETE FROM memforest.tree r WHERE {_EMPTY} RETURNING r.tree_id),
    visits AS (DELETE FROM memforest.visit v USING gone WHERE v.tenant_id = :t AND v.item_id = gone.tree_id)
    SELECT count(*) FROM gone
""")

_DROP_TOPICS = sa.text(f"""
    DELETE FROM memforest.turn_topic w USING {TURNS}
     WHERE w.tenant_id = :t AND w.session_id = u.session AND w.ordinal = u.ordinal RETURNING w.tree_id
""")
_CLEAR_TITLES = sa.text(f"UPDATE memforest.tree SET {WITHOUT_WORDS} WHERE tenant_id = :t AND tree_id = {IDS}")

_DROP_TOMBSTONES = sa.text("""
    DELETE FROM memforest.index_row i
     USING unnest(CAST(:ids AS uuid[]), CAST(:versions AS bigint[])) AS u(id, version)
     WHERE i.tenant_id = :t AND i.point_id = u.id AND i.version = u.version AND i.deleted AND i.state <> 'running'
""")

# An indexer that is writing one of these has read the new text, but its point may be deleted with the old one.
_REWRITE = sa.text(f"""
    UPDATE memforest.index_row i
       SET version = {NEXT_VERSION}, state = CASE i.state WHEN 'running' THEN 'running' ELSE 'ready' END, attempts = 0,
           indexed_version = 0,
           erased_version = CASE WHEN i.erased_version < :mark THEN 0 ELSE i.erased_version END,
           available_at = clock_timestamp()
     WHERE i.tenant_id = :t AND i.point_id = {IDS} AND NOT i.deleted
    RETURNING i.point_id
""")


class WordRows(BatchRows):
    """Removes what was said and the candidates made of it, and leaves sessions, windows and facts consistent."""

    def __init__(self, connection: sa.Connection, tenant: TenantId) -> None:
        super().__init__(connection, tenant)
        self._lost: list[tuple[str, str]] = []

    def detach(self, items: Sequence[ItemKey]) -> tuple[int, list[TouchedFact]]:
        """Drop the occurrences of these candidates; how many, and the facts that lost them."""
        routing: dict[UUID, bytes] = {}
        for row in self._items(_LOSING, items):
            routing.setdefault(row.fact_id, bytes(row.routing_hash))
        lost = self._db.execute(delete_given("occurrence", self._tenant, columns_of(items, "cell_id", "item"))).rowcount
        return lost, [
            TouchedFact(
                id=FactId(row.fact_id),
                routing_hash=routing[row.fact_id],
                stated=row.stated,
                others=() if row.stated else tuple(ItemKey(CellId(UUID(cell)), item) for cell, item in row.others),
                pinned=row.pinned,
                superseded_by=FactId(row.superseded_by) if row.superseded_by else None,
                superseded_at=row.superseded_at,
                created_at=row.created_at,
            )
            for row in self._ids(_TOUCHED, list(routing))
        ]

    def detach_facts(self, facts: Sequence[FactId]) -> None:
        """Drop all occurrences of these facts: their candidates are to be attached elsewhere."""
        self._delete(m.OccurrenceRow.fact_id, facts)

    def drop_items(self, items: Sequence[ItemKey]) -> int:
        """Drop candidates; how many. A reducer that has read them finds that their cells say something else now."""
        return self._db.execute(delete_given("candidate", self._tenant, columns_of(items, "cell_id", "item"))).rowcount

    def stop_retries(self, cells: Sequence[CellId]) -> None:
        """Cells that were stored word by word are not extracted once more by themselves."""
        # A change of a cell's candidates needs the lock of its row.
        own = [m.Cell.tenant_id == self._tenant, among(m.Cell.cell_id, cells)]
        lock = sa.select(m.Cell.cell_id).where(*own).order_by(m.Cell.cell_id)
        self._db.execute(lock.with_for_update(key_share=True)).all()
        self._db.execute(sa.update(m.Cell).where(*own, m.Cell.retry_at.is_not(None)).values(retry_at=None))

    def drop_cells(self, cells: Sequence[CellId]) -> dict[TreeId, list[NodeId]]:
        """Drop cells, their placements and points; the leaves they leave behind, by tree."""
        leaves, _ = RemovalRows(self._db, self._tenant).unplace(cells)
        self._delete(m.Cell.cell_id, cells)
        bury_points(self._db, self._tenant, cells)
        return leaves

    def rewrite_cells(self, forest: ForestId, cells: Mapping[CellId, RemainingTurns]) -> None:
        """Store cells' text from their remaining turns, without a summary; a tail that waits for a turn is closed."""
        ids = list(cells)
        texts = ["\n".join(speech(name, content) for _, name, content in turns) for turns in cells.values()]
        own = self._select(m.Cell.cell_id, m.Cell.time_start).where(among(m.Cell.cell_id, ids))
        starts = {row.cell_id: row.time_start for row in self._db.execute(own)}
        new: dict[str, list[Any]] = {
            "text": texts,
            "text_hash": [cell_hash(text, starts[cell]) for cell, text in zip(ids, texts, strict=True)],
            "first_turn": [turns[0][0] for turns in cells.values()],
            "last_turn": [turns[-1][0] for turns in cells.values()],
        }
        closed = {
            "state": sa.case((m.Cell.state == "held", "ready"), else_=m.Cell.state),
            "available_at": sa.case((m.Cell.state == "held", sa.func.clock_timestamp()), else_=m.Cell.available_at),
        }
        self._db.execute(change_rows("cell", self._tenant, {"cell_id": ids}, new, **blanks("cell", but=new), **closed))
        # Its leaf's key is its first turn: between the old key and the new one lies no other.
        moved = change_rows("node", self._tenant, {"payload_id": ids}, {"key_ordinal": new["first_turn"]})
        self._db.execute(moved.where(m.NodeRow.key_ordinal != given("key_ordinal")))
        # The old point of a cell that says less now has its words until the new one is written.
        point = m.IndexRow
        self._db.execute(
            self._update_rows(point).where(among(point.point_id, ids)).values(erased_version=point.version)
        )
        want_indexed(self._db, self._tenant, forest, "cell", ids)

    def end_extractions(self, turns: Sequence[TurnKey]) -> int:
        """End the leases of extractions that read any of these turns; of how many cells."""
        return self._turns(_END_EXTRACTIONS, turns).rowcount

    def repair_windows(self, sessions: Sequence[SessionId]) -> None:
        """See that every window of these sessions has a first cell that it can be claimed by."""
        self._ids(_WINDOWS_WITHOUT_FIRST_CELL, sessions)
        self._ids(_WINDOWS_OF_WAITING_CELLS, sessions)

    def blank_turns(self, forest: ForestId, turns: Sequence[TurnKey]) -> int:
        """Empty turns, and drop speakers who have no turn any more; how many turns had words."""
        speakers = self._turns(_SPEAKERS, turns).all()
        by = columns_of(turns, "session_id", "ordinal")
        blank = change_rows("turn", self._tenant, by, {}, **blanks("turn"), erased=True, pinned=False)
        blanked = self._db.execute(blank.where(~m.TurnRow.erased)).rowcount
        if speakers:
            ids, names = [row.speaker_id for row in speakers], [row.name for row in speakers]
            dropped = self._run(_DROP_SPEAKERS, f=forest, speakers=ids, names=names)
            self._lost += [(row.speaker_id, row.name) for row in dropped]
        return blanked

    def rename_trees(self, forest: ForestId) -> None:
        """No tree is called any more by a name that its speaker has lost in this transaction."""
        if self._lost:
            speakers, names = (list(column) for column in zip(*self._lost, strict=True))
            keys = [entity_key(name) for name in names]
            self._run(_RENAME_TREES, f=forest, speakers=speakers, names=names, keys=keys)

    def drop_session(self, session: SessionId) -> int:
        """Drop a session whose turns are all blank, and what says that it runs or was delivered; how many sessions."""
        for statement in (_DROP_RUNNING, _DROP_DELIVERIES, *_DROP_SESSION):
            dropped = self._run(statement, session=session)
        return dropped.rowcount

    def carry_over(self, forest: ForestId, facts: Sequence[TouchedFact]) -> None:
        """Pins, supersessions and ages of facts that were reworded go to those that have their candidates now."""
        links = [(fact.id, item) for fact in facts for item in fact.others]
        if not links:
            return
        arrays = item_arrays([item for _, item in links])
        found = {row.old: row.fact_id for row in self._run(_SUCCESSORS, olds=[old for old, _ in links], **arrays)}
        carried = [fact for fact in facts if fact.id in found]
        self._run(
            _CARRY_OVER,
            news=[found[fact.id] for fact in carried],
            pins=[fact.pinned for fact in carried],
            bys=[fact.superseded_by for fact in carried],
            ats=[fact.superseded_at for fact in carried],
            mades=[fact.created_at for fact in carried],
        )
        by, new = {"superseded_by": found}, {"superseded_by": found.values()}
        changed = change_rows("fact", self._tenant, by, new)
        self._db.execute(changed.where(m.FactRow.forest_id == forest, m.FactRow.fact_id != given("superseded_by")))

    def clear_superseded_by(self, forest: ForestId, facts: Sequence[FactId]) -> None:
        """Facts that were superseded by these, which are gone, are not superseded any more."""
        fact = m.FactRow
        self._db.execute(
            self._update_rows(fact)
            .where(fact.forest_id == forest, among(fact.superseded_by, facts))
            .values(superseded_by=None, superseded_at=None)
        )

    def lock_path(self, nodes: Sequence[NodeId], payloads: Sequence[UUID]) -> int:
        """Lock nodes, then the index rows of nodes and payloads, in the order of ids; how many points there are."""
        lock_nodes(self._db, self._tenant, nodes)
        return sum(not row.deleted for row in self._ids(_LOCK_POINTS, [*nodes, *payloads]))

    def drop_summaries(self, nodes: Sequence[NodeId]) -> list[bytes]:
        """Drop the summaries and points of these nodes; the hashes of the texts, one for each summary."""
        hashes = [bytes(row.hash) for row in self._ids(_DROP_SUMMARIES, nodes)]
        bury_points(self._db, self._tenant, nodes)
        return hashes

    def drop_scopes(self, trees: Sequence[TreeId]) -> int:
        """Drop scopes that are empty now; how many."""
        self._ids(_LOCK_SCOPES, trees)
        return int(self._ids(_DROP_SCOPES, trees).scalar_one())

    def drop_topics(self, turns: Sequence[TurnKey]) -> list[TreeId]:
        """Turns whose words are gone have no topic; the topics that lost them, and their titles and tags with that."""
        topics = sorted({TreeId(tree) for tree in self._turns(_DROP_TOPICS, turns).scalars()}, key=str)
        if topics:
            lock_trees(self._db, self._tenant, topics)
            self._ids(_CLEAR_TITLES, topics)
        return topics

    def drop_visits(self, ids: Sequence[UUID]) -> int:
        return self._ids(_DROP_VISITS, ids).rowcount

    def drop_caches(self, forest: ForestId, sessions: Sequence[SessionId], trees: Sequence[TreeId]) -> int:
        """Drop cached answers of sessions, cached summaries of trees, merged scenes and the forest; how many."""
        answers = self._delete(m.ExtractionCache.session_id, sessions)
        return answers + self._ids(_DROP_CACHED_SUMMARIES, [*trees, forest], f=forest).rowcount

    def drop_windows(self, turns: Sequence[TurnKey]) -> int:
        """Drop the windows of these turns' sessions, and items that refer to the turns; how many."""
        if not turns:
            return 0
        return self._delete(m.SessionWindow.session_id, sessions_of(turns)) + self._turns(_DROP_ITEMS, turns).rowcount

    def times_of(self, turns: Sequence[TurnKey], items: Sequence[ItemKey]) -> Sequence[datetime]:
        """When these turns, and those that these candidates rest on, were said; to be read before they go."""
        return self._turns(_TIMES, turns, **item_arrays(items)).scalars().all()

    def drop_days(self, forest: ForestId, times: Sequence[datetime]) -> int:
        """Drop the digests of days, weeks, months and years in which one of these times is; how many."""
        return self._run(_DROP_DAYS, f=forest, times=list(times)).rowcount

    def next_version(self) -> int:
        """A version that is newer than that of every point erased so far, and older than of any erased from now on."""
        return int(self._db.scalar(sa.text("SELECT nextval('memforest.point_version')")) or 0)

    def erased_points(self, forest: ForestId, mark: int, after: UUID | None, limit: int) -> dict[UUID, int]:
        """The next points, by id, that may have what was erased before the mark and nobody writes now; versions."""
        point = m.IndexRow
        statement = (
            sa.select(point.point_id, point.version)
            .where(*self._erased_before(forest, mark), point.state != "running", point.point_id > (after or FIRST))
            .order_by(point.point_id)
            .limit(limit)
        )
        return {row.point_id: row.version for row in self._db.execute(statement)}

    def has_erased_points(self, forest: ForestId, mark: int) -> bool:
        return bool(self._db.scalar(sa.select(sa.exists().where(*self._erased_before(forest, mark)))))

    def has_points_in_work(self, forest: ForestId, mark: int | None = None) -> bool:
        """Whether an indexer is writing points of a forest, or those that may have what was erased before a mark."""
        where = self._of_forest(forest) if mark is None else self._erased_before(forest, mark)
        return bool(self._db.scalar(sa.select(sa.exists().where(*where, m.IndexRow.state == "running"))))

    def _of_forest(self, forest: ForestId) -> list[sa.ColumnElement[bool]]:
        return [m.IndexRow.tenant_id == self._tenant, m.IndexRow.forest_id == forest]

    def _erased_before(self, forest: ForestId, mark: int) -> list[sa.ColumnElement[bool]]:
        # A constant and no parameter, so that the partial index serves.
        erased = m.IndexRow.erased_version > sa.literal_column("0")
        return [*self._of_forest(forest), erased, m.IndexRow.erased_version < mark]

    def confirm(self, points: Mapping[UUID, int], mark: int) -> frozenset[UUID]:
        """The index has dropped these points: drop tombstones' rows, have the others rewritten; which are."""
        self._ids(_LOCK_POINTS, list(points))
        self._ids(_DROP_TOMBSTONES, list(points), versions=list(points.values()))
        return frozenset(self._ids(_REWRITE, list(points), mark=mark).scalars())
